"""Which errors are outlasted, for how long, and how each is told."""

from __future__ import annotations

import asyncio
import builtins

import pytest
from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    ClusterError,
    ConnectionError,  # noqa: A004 redis-py's own
    DataError,
    MovedError,
    ReadOnlyError,
    RedisClusterException,
    ResponseError,
    SlotNotCoveredError,
    TimeoutError,  # noqa: A004
    TryAgainError,
)
from structlog.testing import capture_logs

from bot.clients.redis_attempts import Replicas, explain, may_pass, persist


def wrapped(cause: Exception) -> RedisClusterException:
    error = RedisClusterException(f"Redis Cluster cannot be connected. (...): {cause}")
    error.__cause__ = cause
    return error


def unreachable(error: Exception) -> MasterNotFoundError:
    """As redis-py words it."""
    return MasterNotFoundError(f"No master found for 'main' : Redis<ConnectionPool(db=0)> - {error!r}")


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (ConnectionError("reset"), True),
        (TimeoutError("slow"), True),
        (OSError(101, "unreachable"), True),
        (BusyLoadingError("LOADING"), True),
        (MasterNotFoundError("no master"), True),
        (ClusterDownError("CLUSTERDOWN"), True),
        (ClusterError("TTL"), True),
        (TryAgainError("TRYAGAIN"), True),
        (SlotNotCoveredError("slot 1"), True),
        (RedisClusterException("All slots are not covered after query"), True),
        (wrapped(ConnectionError("refused")), True),
        (ReadOnlyError("You can't write: READONLY"), True),
        (ResponseError("Error running script: @user_script:1: -READONLY You can't write"), True),
        (ResponseError("NOREPLICAS Not enough good replicas to write."), True),
        (AuthenticationError("WRONGPASS"), False),
        (AuthorizationError("NOAUTH"), False),
        (wrapped(AuthenticationError("WRONGPASS")), False),
        (wrapped(RedisClusterException("Cluster mode is not enabled on this node")), False),
        (RedisClusterException("EVAL - all keys must map to the same key slot"), False),
        (ResponseError("WRONGTYPE"), False),
        (DataError("what"), False),
    ],
)
def test_what_a_moment_may_mend(error: Exception, *, passing: bool) -> None:
    assert may_pass(error) is passing


async def test_it_goes_on_until_it_succeeds() -> None:
    errors: list[Exception] = [ConnectionError("reset"), TryAgainError("TRYAGAIN")]

    async def attempt() -> str:
        if errors:
            raise errors.pop()
        return "done"

    assert await persist(attempt, within=10) == "done"


async def test_at_the_end_the_last_error_is_told_though_every_cancellation_was_swallowed() -> None:
    tries = 0

    async def attempt() -> None:
        nonlocal tries
        tries += 1
        raise ConnectionError(f"try {tries}")

    async with asyncio.timeout(60):
        with pytest.raises(ConnectionError, match=r"try \d") as caught:
            await persist(attempt, within=0.2)
    assert str(caught.value) == f"try {tries}"
    assert tries > 1


async def test_an_attempt_that_hangs_does_not_hide_why_the_one_before_it_failed() -> None:
    errors = [ConnectionError("no route")]

    async def attempt() -> None:
        if errors:
            raise errors.pop()
        await asyncio.Event().wait()

    async with asyncio.timeout(60):
        with pytest.raises(ConnectionError, match="no route"):
            await persist(attempt, within=0.2)
        with pytest.raises(builtins.TimeoutError):
            await persist(attempt, within=0.1)


async def test_what_does_not_pass_is_told_at_once() -> None:
    async def attempt() -> None:
        raise AuthenticationError("WRONGPASS")

    async with asyncio.timeout(60):
        with pytest.raises(AuthenticationError):
            await persist(attempt, within=3600)


def test_once_a_replica_was_late_few_writes_wait_until_one_acknowledges_again() -> None:
    replicas = Replicas("a:1")
    assert all(replicas.ask(now) for now in (0.0, 0.1))
    with capture_logs() as logs:
        replicas.note(0)
        waited = [second for second in range(100) if replicas.ask(float(second))]
        assert waited == [0, 1, 3, 7, 15, 31, 61, 91]
        replicas.note(1)
    assert [entry["event"] for entry in logs] == ["redis_replica_behind", "redis_replica_caught_up"]
    assert all(replicas.ask(now) for now in (100.0, 100.1))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MasterNotFoundError("No master found for 'main'"), "see SENTINEL MASTERS there"),
        (
            unreachable(ConnectionError("Error 111 connecting to a:1.")),
            "(not all of them answer)",
        ),
        (unreachable(AuthenticationError("Authentication required.")), "?sentinel_password="),
        (AuthenticationError("WRONGPASS"), "user or password are refused"),
        (wrapped(AuthenticationError("WRONGPASS")), "user or password are refused"),
        (ResponseError("unknown command 'SENTINEL', with args"), "redis://"),
        (wrapped(RedisClusterException("Cluster mode is not enabled on this node")), "redis://"),
        (MovedError("12 10.0.0.1:6379"), "cluster://"),
        (ClusterDownError("The cluster is down"), "CLUSTER INFO"),
        (TimeoutError(), "within 5 s"),
        (ResponseError("OOM command not allowed"), "OOM command not allowed"),
    ],
)
def test_the_way_out_is_told(error: Exception, told: str) -> None:
    assert told in explain(error, within=5.0)

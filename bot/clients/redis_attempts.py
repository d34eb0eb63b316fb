"""Attempts at a Redis of several servers, until one succeeds or the time is over; its errors in our words."""

from __future__ import annotations

import asyncio
import builtins
import re
from typing import TYPE_CHECKING, TypeVar

import structlog
from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ClusterDownError,
    ClusterError,
    ConnectionError,  # noqa: A004 redis-py's own, which is not Python's
    MovedError,
    RedisClusterException,
    RedisError,
    ResponseError,
    SlotNotCoveredError,
    TimeoutError,  # noqa: A004
    TryAgainError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")
log = structlog.get_logger()

# How long a write waits until a replica has it too: it acknowledges within milliseconds, or is not there.
REPLICA_MILLISECONDS = 200
_FIRST_PAUSE, _LAST_PAUSE = 1.0, 30.0  # seconds until one of them tries again

# RedisClusterException is none of RedisError.
REDIS_ERRORS = (RedisError, RedisClusterException, OSError)
_LONGEST_PAUSE = 0.3  # seconds
# A script tells these as its own error, so that they come without their class.
_PASSING_WORDS = re.compile(r"\b(?:READONLY|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|LOADING)\b")
_NO_MASTER = "no sentinel that can be reached names a working master of that name; see SENTINEL MASTERS there"
_NO_CLUSTER, _NOT_COVERED, _NO_NODE = (
    "Cluster mode is not enabled",
    "slots are not covered",
    "cannot be connected",
)


class Replicas:
    """Whether a write to one master waits for a replica: always, until none acknowledged; then now and again.

    An idle Redis ends even the shortest wait a tenth of a second late: not every write could bear that.
    """

    def __init__(self, master: str) -> None:
        self._master = master
        self._behind = False
        self._pause, self._anew = _FIRST_PAUSE, 0.0

    def ask(self, now: float) -> bool:
        """Whether the write that goes out now is to wait."""
        if not self._behind:
            return True
        if now < self._anew:
            return False
        self._pause, self._anew = min(self._pause * 2, _LAST_PAUSE), now + self._pause
        return True

    def note(self, acknowledged: int) -> None:
        behind = acknowledged == 0
        if behind == self._behind:
            return
        self._behind = behind
        self._pause, self._anew = _FIRST_PAUSE, 0.0
        if behind:
            log.warning("redis_replica_behind", master=self._master, milliseconds=REPLICA_MILLISECONDS)
        else:
            log.info("redis_replica_caught_up", master=self._master)


async def persist(attempt: Callable[[], Awaitable[T]], *, within: float) -> T:
    """What `attempt` gives, or its last error; errors that a fail-over or a moving slot brings are outlasted.

    The end is by the clock, and not by a cancellation alone: redis-py may swallow that one.
    """
    clock = asyncio.get_running_loop().time
    end, pause = clock() + within, 0.02
    last: BaseException | None = None
    try:
        async with asyncio.timeout_at(end):
            while True:
                try:
                    return await attempt()
                except REDIS_ERRORS as error:
                    if not may_pass(error) or clock() + pause > end:
                        raise
                    last = error
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
    except builtins.TimeoutError as error:
        if last is None:
            raise
        raise last from error  # it says more


def may_pass(error: BaseException) -> bool:
    """Whether the same command may succeed a moment later."""
    if _refused(error) or _NO_CLUSTER in str(error):
        return False
    if isinstance(error, RedisClusterException):
        told = str(error)
        return isinstance(error, SlotNotCoveredError) or _NOT_COVERED in told or _NO_NODE in told
    if isinstance(error, ConnectionError | TimeoutError | ClusterError | TryAgainError | OSError):
        return True
    return isinstance(error, ResponseError) and _PASSING_WORDS.search(str(error)) is not None


def explain(error: BaseException, *, within: float) -> str:
    """What is wrong and, where we know it, the way out."""
    told = str(error)
    ways = (
        (_refused(error), "user or password are refused"),
        (isinstance(error, MasterNotFoundError), _NO_MASTER + _reason(told)),
        (
            re.search(r"(?i)unknown command.*sentinel", told),
            "what answers is no sentinel (those listen on 26379); one server alone is redis://",
        ),
        (_NO_CLUSTER in told, "what answers is no Cluster; one server alone is redis://"),
        (isinstance(error, MovedError), "it is a node of a Cluster; write cluster:// instead"),
        (
            isinstance(error, ClusterDownError) or _NOT_COVERED in told,
            f"the Cluster is not whole; see CLUSTER INFO ({told})",
        ),
    )
    return next((words for meant, words in ways if meant), told or f"nothing came within {within:g} s")


def _reason(told: str) -> str:
    """What redis-py tells of the sentinels that gave no answer: the kind of error, and no more."""
    if "AuthenticationError" in told:
        return " (they want a password: ?sentinel_password=…)"
    return " (not all of them answer)" if " - " in told else ""


def _refused(error: BaseException) -> bool:
    refusals = (AuthenticationError, AuthorizationError)
    return isinstance(error, refusals) or isinstance(error.__cause__, refusals)

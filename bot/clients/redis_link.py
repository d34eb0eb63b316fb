"""The connection to Redis: its keys, scripts, errors in our words, and records that cannot be read."""

from __future__ import annotations

import asyncio
import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import structlog
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import NoScriptError

from bot.clients.records import RecordT, Unreadable, dump, load, set_aside
from bot.clients.redis_attempts import REDIS_ERRORS, explain
from bot.clients.redis_cluster import ClusterClient
from bot.clients.redis_sentinel import SentinelClient
from bot.clients.scripts import SWAP, THREAD_PARTS
from bot.errors import ConfigurationInvalid, RecordUnreadable, StoreUnavailable
from config.redis_url import parse_redis_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from config.redis_url import RedisAddress

T = TypeVar("T")
log = structlog.get_logger()

THREADS = "kimi:threads"  # sorted set: threads that may have something to send, by their last enqueue
OPEN = "kimi:open"  # sorted set: operations that may be open, by the time they were first saved
PARKED = "kimi:parked"  # sorted set: threads that hold parked messages
UNREADABLE = "kimi:unreadable"  # list
_FIRST = 4  # connections kept free for what an acknowledgement waits for
_REMEDY = "Change [redis] url, or KIMI_REDIS_URL, which wins over it."


def thread_key(thread: str, part: str) -> str:
    """The braces keep all keys of one thread, and of its operation, in one slot of a Cluster."""
    return f"kimi:{{{thread}}}:{part}"


def thread_keys(thread: str) -> list[str]:
    return [thread_key(thread, part) for part in THREAD_PARTS]


def service_key(service: str, part: str) -> str:
    return f"kimi:{{service/{service}}}:{part}"


def _single(url: str, *, connections: int, timeout: float) -> Redis:
    # Every command the store sends may run twice, so that a second try is safe.
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=timeout,
        socket_timeout=timeout,
        socket_connect_timeout=min(timeout, 2.0),
        health_check_interval=15,
        retry=Retry(ExponentialBackoff(cap=0.2, base=0.05), 2),
    )
    pool.make_connection()  # type: ignore[no-untyped-call] # an option that nobody knows is found here
    return Redis.from_pool(pool)


class RedisLink:
    """One server, what sentinels watch, or a Cluster; every error leaves here as StoreUnavailable."""

    def __init__(self, url: str, *, connections: int = 32, timeout: float = 5.0) -> None:
        """Connects to nothing yet. ConfigurationInvalid for an address that cannot be used.

        `timeout`: seconds for a command in all, attempts and redirections and waiting for a connection.
        """
        address = _parse(url)
        self.place = address.place
        self.errors = 0  # commands that had no answer
        self._timeout = timeout
        # redis-py's pool hands its connections out and takes them back under one lock: where hundreds want
        # one at once, one that comes back would stand in line behind them all.
        self._turns = asyncio.Semaphore(connections)
        self._first = asyncio.Semaphore(_FIRST)
        connections += _FIRST
        self.redis: Redis
        self._many: SentinelClient | ClusterClient | None = None
        try:
            if address.kind == "one":
                self.redis = _single(url, connections=connections, timeout=timeout)
            else:
                kind = SentinelClient if address.kind == "sentinel" else ClusterClient
                self._many = kind(address, connections=connections, timeout=timeout)
                self.redis = cast("Redis", self._many)  # a Cluster's client takes the same calls
        except (ValueError, TypeError) as error:
            # redis-py's own words may quote the url; this sentence never does.
            raise ConfigurationInvalid((f"Redis at {self.place}: cannot be used. {_REMEDY}",)) from error

    async def ask(self, command: Awaitable[T], *, first: bool = False) -> T:
        """Its answer. `first`: somebody waits for it by the second; not behind the others, however many."""
        task = asyncio.current_task()
        cancelled = task.cancelling() if task else 0
        try:
            async with asyncio.timeout(self._timeout):
                return await self._in_turn(command, self._first if first else self._turns)
        except REDIS_ERRORS as error:  # TimeoutError is one of them
            self.errors += 1
            words = explain(error, within=self._timeout)
            raise StoreUnavailable(f"Redis at {self.place} does not answer: {words}") from error
        finally:
            # redis-py sends with asyncio.wait_for, which up to Python 3.11 swallows a cancellation that comes
            # together with its result: the task would go on for ever.
            if task and task.cancelling() > cancelled:
                raise asyncio.CancelledError

    @staticmethod
    async def _in_turn(command: Awaitable[T], turns: asyncio.Semaphore) -> T:
        try:
            await turns.acquire()
        except asyncio.CancelledError:
            if asyncio.iscoroutine(command):
                command.close()  # it was never begun
            raise
        try:
            return await command
        finally:
            turns.release()

    async def run(
        self, script: str, keys: Sequence[str], *args: str | bytes | float, first: bool = False
    ) -> Any:
        """The script's answer. Where a replica should have it too, that is waited for, within reason."""
        return await self.ask(self._run(script, (len(keys), *keys, *args)), first=first)

    async def _run(self, script: str, rest: tuple[str | bytes | float, ...]) -> Any:
        send = self._many.write if self._many else self.redis.execute_command
        try:
            return await send("EVALSHA", _digest(script), *rest)
        except NoScriptError:
            # Loaded where it runs: in a Cluster, SCRIPT LOAD would need every node to be there.
            return await send("EVAL", script, *rest)

    async def describe(self) -> str:
        """That it answers, and what stands behind the address; raises StoreUnavailable."""
        if self._many is None:
            await self.ask(self.redis.ping())
            return "answers"
        return await self.ask(self._many.describe())

    async def close(self) -> None:
        await self.redis.aclose()

    async def read(self, kind: type[RecordT], key: str) -> RecordT | None:
        """The record in a string; an unreadable one is set aside and the key freed."""
        raw = await self.ask(self.redis.get(key))
        return None if raw is None else await self.decode(kind, cast("bytes", raw), key=key)

    async def decode(self, kind: type[RecordT], raw: bytes, *, key: str) -> RecordT | None:
        try:
            return load(kind, raw, key=key)
        except RecordUnreadable as error:
            await self.set_aside(key, raw, error)
            await self.run(SWAP, [key], raw, "")
            return None

    async def set_aside(self, key: str, raw: bytes, error: RecordUnreadable) -> None:
        await self.ask(self.redis.rpush(UNREADABLE, dump(set_aside(key, raw, error))))
        log.error("record_unreadable", key=key, error=str(error))

    async def unreadable(self) -> list[Unreadable]:
        entries = cast("list[bytes]", await self.ask(self.redis.lrange(UNREADABLE, 0, -1)))
        return [load(Unreadable, entry, key=UNREADABLE) for entry in entries]


def _parse(url: str) -> RedisAddress:
    try:
        return parse_redis_url(url)
    except ValueError as error:
        raise ConfigurationInvalid((f"The address of Redis {error}. {_REMEDY}",)) from error


@lru_cache
def _digest(script: str) -> str:
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()

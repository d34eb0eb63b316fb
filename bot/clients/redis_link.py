"""The connection to Redis: its keys, scripts, errors in our words, and records that cannot be read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

import structlog
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import RedisError

from bot.clients.records import RecordT, Unreadable, dump, load, set_aside
from bot.clients.scripts import SWAP, THREAD_PARTS
from bot.errors import ConfigurationInvalid, RecordUnreadable, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

T = TypeVar("T")
log = structlog.get_logger()

THREADS = "kimi:threads"  # sorted set: threads that may have something to send, by their last enqueue
OPEN = "kimi:open"  # sorted set: operations that may be open, by the time they were first saved
PARKED = "kimi:parked"  # sorted set: threads that hold parked messages
UNREADABLE = "kimi:unreadable"  # list
_UNUSABLE = (
    "this version cannot use that address; allowed: redis://, rediss:// and unix://. "
    "Change [redis] url, or KIMI_REDIS_URL, which wins over it."
)


def thread_key(thread: str, part: str) -> str:
    """The braces keep all keys of one thread, and of its operation, in one slot of a Cluster."""
    return f"kimi:{{{thread}}}:{part}"


def thread_keys(thread: str) -> list[str]:
    return [thread_key(thread, part) for part in THREAD_PARTS]


def service_key(service: str, part: str) -> str:
    return f"kimi:{{service/{service}}}:{part}"


def place_of(url: str) -> str:
    """The url without what it may carry of a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _make_pool(url: str, *, connections: int, timeout: float) -> BlockingConnectionPool:
    # Every command the store sends may run twice, so that a second try is safe.
    return BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=timeout,
        socket_timeout=timeout,
        socket_connect_timeout=min(timeout, 2.0),
        health_check_interval=15,
        retry=Retry(ExponentialBackoff(cap=0.2, base=0.05), 2),
    )


class RedisLink:
    """One pool of connections; every error of Redis leaves here as StoreUnavailable."""

    def __init__(self, url: str, *, connections: int = 32, timeout: float = 5.0) -> None:
        """Connects to nothing yet. ConfigurationInvalid for an address of another kind."""
        self.place = place_of(url)
        try:
            self._pool = _make_pool(url, connections=connections, timeout=timeout)
        except ValueError as error:
            # redis-py's own words may quote the url; this sentence never does.
            raise ConfigurationInvalid((f"Redis at {self.place}: {_UNUSABLE}",)) from error
        self.redis: Redis = Redis.from_pool(self._pool)
        self._scripts: dict[str, Any] = {}

    async def ask(self, command: Awaitable[T]) -> T:
        task = asyncio.current_task()
        cancelled = task.cancelling() if task else 0
        try:
            answer = await command
        except (RedisError, OSError, TimeoutError) as error:
            raise StoreUnavailable(f"Redis at {self.place} does not answer: {error}") from error
        # redis-py sends with asyncio.wait_for, which up to Python 3.11 swallows a cancellation that comes
        # together with its result: the task would go on for ever.
        if task and task.cancelling() > cancelled:
            raise asyncio.CancelledError
        return answer

    async def run(self, script: str, keys: Sequence[str], *args: str | bytes | float) -> Any:
        if script not in self._scripts:
            self._scripts[script] = self.redis.register_script(script)
        return await self.ask(self._scripts[script](keys=list(keys), args=list(args)))

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

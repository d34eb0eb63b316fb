"""The truth, in Redis: operations, the locks of services, what is queued for Slack, baselines."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Self, cast

from bot.clients.records import (
    Address,
    Holder,
    Operation,
    Outgoing,
    Parked,
    Past,
    Unreadable,
    dump,
    load,
    past_of,
)
from bot.clients.redis_link import OPEN, RedisLink, service_key, thread_key
from bot.clients.scripts import FORGET, PAST, RELEASE, SETTLE, TAKE
from bot.clients.store_queue import GRACE, Queue
from bot.core.events import ChannelId, MessageTs, OperationId, ServiceName
from bot.errors import RecordUnreadable, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HISTORY = 500  # operations kept for each service


class Store:
    """Everything that must survive this process. Every method raises StoreUnavailable when Redis is gone."""

    def __init__(self, link: RedisLink) -> None:
        self.link = link
        self.queue = Queue(link)

    @classmethod
    async def open(cls, url: str) -> Self:
        """`url`: redis://, rediss:// or unix://. Raises StoreUnavailable when Redis does not answer."""
        store = cls(RedisLink(url))
        try:
            await store.ping()
        except StoreUnavailable:
            await store.close()
            raise
        return store

    async def close(self) -> None:
        await self.link.close()

    async def ping(self) -> None:
        await self.link.ask(self.link.redis.ping())

    # The lock of a service.

    async def take(self, holder: Holder) -> Holder | None:
        """None: taken, or held by the same operation already. Else who holds it."""
        key = service_key(holder.service, "lock")
        while True:
            raw = await self.link.run(TAKE, [key], dump(holder), holder.operation)
            if not raw:
                return None
            held = await self.link.decode(Holder, raw, key=key)
            if held is not None and not await self._settled(held):
                return await self._present(held)

    async def holder(self, service: ServiceName) -> Holder | None:
        held = await self.link.read(Holder, service_key(service, "lock"))
        return await self._present(held) if held else None

    async def release(self, service: ServiceName, operation: OperationId) -> None:
        """Quietly does nothing when another operation holds the service."""
        await self.link.run(RELEASE, [service_key(service, "lock")], operation)

    # Operations.

    async def save(
        self,
        operation: Operation,
        outgoing: Sequence[Outgoing] = (),
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """State and the messages of its thread in one transaction; `files` by message id.

        Messages of other threads are queued just before: a process that dies in between comes to the same
        state again and queues them again, and an id that was queued once is not queued twice.
        """
        own = [message for message in outgoing if message.thread == operation.operation]
        others = [message for message in outgoing if message.thread != operation.operation]
        await self.enqueue(others, files)
        if operation.closed is None:
            score = operation.began.timestamp()
            await self.link.ask(self.link.redis.zadd(OPEN, {operation.operation: score}))
        await self.queue.push(operation.operation, own, _of(own, files), state=operation)

    async def finish(
        self,
        operation: Operation,
        outgoing: Sequence[Outgoing] = (),
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Save the closed operation, then settle what has slots of its own: history, lock, list of open ones.

        A process that dies before all is settled leaves it to the next `open_operations` or `take`.
        """
        if operation.closed is None:
            raise ValueError(f"{operation.operation} is not closed")
        await self.save(operation, outgoing, files)
        await self._settle(operation)

    async def operation(self, operation: OperationId) -> Operation | None:
        return await self.link.read(Operation, thread_key(operation, "operation"))

    async def open_operations(self) -> list[Operation]:
        """Oldest first."""
        rows = await self.link.ask(self.link.redis.zrange(OPEN, 0, -1, withscores=True))
        found: list[Operation] = []
        for member, score in cast("list[tuple[bytes, float]]", rows):
            name = OperationId(member.decode())
            operation = await self.operation(name)
            if operation is None:
                await self._forget_open(name, score)
            elif operation.closed:
                await self._settle(operation)
            else:
                found.append(operation)
        return found

    async def history(self, service: ServiceName, limit: int) -> list[Operation]:
        """Closed operations whole, newest first; `past` costs less where not all of them is needed."""
        key = service_key(service, "history")
        names = cast("list[bytes]", await self.link.ask(self.link.redis.zrange(key, 0, limit - 1, desc=True)))
        found = [await self.operation(OperationId(name.decode())) for name in names]
        return [operation for operation in found if operation is not None]

    async def past(self, service: ServiceName, limit: int) -> list[Past]:
        """What stays known of closed operations, newest first, in one read."""
        rows = cast("list[list[bytes]]", await self.link.run(PAST, _past_keys(service), limit))
        found = [await self._past(service, OperationId(name.decode()), raw) for name, raw in rows]
        return [past for past in found if past is not None]

    # Messages and their places.

    async def enqueue(self, outgoing: Sequence[Outgoing], files: Mapping[str, bytes] | None = None) -> None:
        """Queue messages without state; those of one thread in one transaction."""
        for thread in dict.fromkeys(message.thread for message in outgoing):
            own = [message for message in outgoing if message.thread == thread]
            await self.queue.push(thread, own, _of(own, files))

    async def address(self, thread: str) -> Address | None:
        """Where the root is; None until Slack has it."""
        return await self.queue.address(thread)

    async def operation_at(self, channel: ChannelId, ts: MessageTs) -> OperationId | None:
        """The operation whose thread has its root there."""
        thread = await self.queue.thread_at(channel, ts)
        if thread is None or await self.operation(OperationId(thread)) is None:
            return None
        return OperationId(thread)

    async def parked(self) -> list[Parked]:
        """Messages that Slack refused for good."""
        return await self.queue.parked()

    async def unreadable(self) -> list[Unreadable]:
        return await self.link.unreadable()

    # Small things.

    async def first_time(self, token: str, ttl_seconds: int) -> bool:
        """True for one caller over all processes; a second try of the same call is the same caller."""
        key, caller = f"kimi:once:{token}", uuid.uuid4().hex
        if await self.link.ask(self.link.redis.set(key, caller, nx=True, ex=ttl_seconds)):
            return True
        return await self.link.ask(self.link.redis.get(key)) == caller.encode()

    async def baseline(self, service: ServiceName) -> str | None:
        raw = cast("bytes | None", await self.link.ask(self.link.redis.get(service_key(service, "baseline"))))
        return raw.decode() if raw is not None else None

    async def save_baseline(self, service: ServiceName, json: str) -> None:
        await self.link.ask(self.link.redis.set(service_key(service, "baseline"), json))

    async def setup(self, service: ServiceName) -> str | None:
        """What the last healthy start ran with, as it was saved."""
        raw = cast("bytes | None", await self.link.ask(self.link.redis.get(service_key(service, "setup"))))
        return raw.decode() if raw is not None else None

    async def save_setup(self, service: ServiceName, json: str) -> None:
        await self.link.ask(self.link.redis.set(service_key(service, "setup"), json))

    async def forget(self, token: str) -> None:
        """The next `first_time` of it is a first time again."""
        await self.link.ask(self.link.redis.delete(f"kimi:once:{token}"))

    async def _present(self, held: Holder) -> Holder:
        """The holder with the headline its operation has now."""
        operation = await self.operation(held.operation)
        if operation is None or not operation.headline:
            return held
        return held.model_copy(update={"headline": operation.headline})

    async def _settled(self, held: Holder) -> bool:
        """Whether the holder was a closed operation whose process died before it let go; now it has."""
        operation = await self.operation(held.operation)
        if operation is None or operation.closed is None:
            return False
        await self._settle(operation)
        return True

    async def _settle(self, operation: Operation) -> None:
        past = await self._keep_past(operation)
        await self.release(operation.service, past.operation)
        await self.link.ask(self.link.redis.zrem(OPEN, past.operation))

    async def _keep_past(self, operation: Operation) -> Past:
        past = past_of(operation, await self.address(operation.operation))
        when, keys = repr(past.closed.timestamp()), _past_keys(operation.service)
        await self.link.run(SETTLE, keys, past.operation, when, dump(past), HISTORY)
        return past

    async def _past(self, service: ServiceName, name: OperationId, raw: bytes) -> Past | None:
        """None once the operation is too old to be kept; one without an account beside it is given one."""
        key = service_key(service, "past")
        try:
            if raw:
                return load(Past, raw, key=f"{key} {name}")
        except RecordUnreadable as error:
            await self.link.set_aside(f"{key} {name}", raw, error)
            await self.link.ask(self.link.redis.hdel(key, name))
        operation = await self.operation(name)
        return await self._keep_past(operation) if operation is not None else None

    async def _forget_open(self, operation: OperationId, score: float) -> None:
        """The record is not there: it is just being saved, or never will be."""
        if score < time.time() - GRACE:
            await self.link.run(FORGET, [OPEN], operation, repr(score))


def _past_keys(service: ServiceName) -> list[str]:
    return [service_key(service, part) for part in ("history", "past")]


def _of(messages: Sequence[Outgoing], files: Mapping[str, bytes] | None) -> dict[str, bytes]:
    return {message.id: files[message.id] for message in messages if files and message.id in files}

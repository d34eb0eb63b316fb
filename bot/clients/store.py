"""The truth, in Redis: operations, the locks of services, what is queued for Slack, baselines."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Self, cast

from bot.clients.leases import Leases
from bot.clients.records import (
    Address,
    AuditEntry,
    Holder,
    Intent,
    Mail,
    Operation,
    Outgoing,
    Parked,
    Past,
    Unreadable,
    dump,
)
from bot.clients.redis_link import OPEN, RedisLink, thread_keys
from bot.clients.scripts import FORGET, REBUILD
from bot.clients.store_audit import Audits
from bot.clients.store_history import History, read_operation
from bot.clients.store_inbox import Inboxes
from bot.clients.store_intents import Intents
from bot.clients.store_locks import Locks
from bot.clients.store_queue import GRACE, KEEP, Queue, check_fence
from bot.clients.store_remembered import Remembered
from bot.clients.store_retention import SERVICES, prune
from bot.core.events import ChannelId, MessageTs, OperationId, ServiceName
from bot.errors import OwnershipLost, StoreEmptied, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from bot.clients.leases import Lease


class Store(Remembered):
    """Everything that must survive this process. Every method raises StoreUnavailable when Redis is gone."""

    def __init__(self, link: RedisLink, *, owner: str | None = None, lease_seconds: float = 10.0) -> None:
        super().__init__(link)
        self.queue = Queue(link)
        self.leases = Leases(link, owner=owner, seconds=lease_seconds)
        self._locks = Locks(link, self.leases, self._settle)
        self._history = History(link)
        self._inboxes = Inboxes(link)
        self._intents = Intents(link)
        self._audits = Audits(link)
        self._saves = itertools.count(1)
        self.leases.subscribe_lost(self._forget_mail)

    @classmethod
    async def open(cls, url: str, *, owner: str | None = None, lease_seconds: float = 10.0) -> Self:
        """Raises StoreUnavailable when Redis does not answer.

        `url`: one server, sentinels or a Cluster. `owner`: this process's name, else a new one.
        `lease_seconds`: how long an operation stays ours when we cannot renew.
        """
        store = cls(RedisLink(url), owner=owner, lease_seconds=lease_seconds)
        try:
            await store.ping()
            await store.check_epoch()
        except StoreUnavailable:
            await store.close()
            raise
        return store

    async def close(self) -> None:
        """Lets go of all leases."""
        try:
            await self._intents.close()
            await self.leases.close()
        finally:
            await self.link.close()

    async def ping(self) -> None:
        await self.link.ask(self.link.redis.ping())

    async def check_epoch(self) -> bool:
        """False: Redis came back empty since this process first spoke to it."""
        return await self.leases.epoch.check()

    async def renew_epoch(self) -> None:
        """Go on with Redis as it is now; before anything is rebuilt, so that another loss is noticed."""
        await self.leases.epoch.renew()

    @property
    def epoch(self) -> str:
        """Names Redis as this process knows it; empty before first contact."""
        return (self.leases.epoch.known or b"").decode()

    async def is_rebuilt(self) -> bool:
        """False: nobody has looked yet what was under way before Redis was empty."""
        return await self.leases.epoch.is_rebuilt()

    async def is_blank(self) -> bool:
        """Whether there is neither an operation nor a history."""
        counts = [await self.link.ask(self.link.redis.exists(key)) for key in (OPEN, SERVICES)]
        return not any(counts)

    async def settle_epoch(self) -> None:
        """All that is still known is in Redis as it is now."""
        await self.leases.epoch.settle()

    async def prune(self, now: datetime) -> None:
        """Drop what is beyond the bounds of time and count; several processes may do so at once."""
        await prune(self.link, now)

    # The lock of a service.

    async def take(self, holder: Holder) -> Holder | None:
        """None: taken, or held by the same operation already. Else who holds it."""
        return await self._locks.take(holder)

    async def holder(self, service: ServiceName) -> Holder | None:
        """None also where a process died between the lock and the record of its operation."""
        return await self._locks.holder(service)

    async def release(self, service: ServiceName, operation: OperationId) -> None:
        """Quietly does nothing when another operation holds the service."""
        await self._locks.release(service, operation)

    # Operations.

    async def save(
        self,
        operation: Operation,
        outgoing: Sequence[Outgoing] = (),
        files: Mapping[str, bytes] | None = None,
        *,
        lease: Lease | None = None,
        read: int = 0,
    ) -> None:
        """State and the messages of its thread in one transaction; `files` by message id.

        With a `lease`: OwnershipLost, and nothing is changed, once another process has the operation;
        StoreEmptied when Redis knows of no owner at all. `read`: how many entries of the inbox, from the
        oldest, the state holds; they are taken out of it.

        Messages of other threads are queued just before: a process that dies in between comes to the same
        state again and queues them again, and an id that was queued once is not queued twice.
        """
        taken = self._inboxes.taken(operation.operation, read)
        await self._write(operation, outgoing, files, lease=lease, read=taken)

    async def create(
        self,
        operation: Operation,
        outgoing: Sequence[Outgoing] = (),
        files: Mapping[str, bytes] | None = None,
        *,
        lease: Lease | None = None,
    ) -> bool:
        """`save` of a new operation. False, and nothing is changed, when there is one of that id already."""
        present = await self.operation(operation.operation)
        if present is not None and present != operation:
            return False
        return await self._write(operation, outgoing, files, lease=lease, new=True)

    async def finish(
        self,
        operation: Operation,
        outgoing: Sequence[Outgoing] = (),
        files: Mapping[str, bytes] | None = None,
        *,
        lease: Lease | None = None,
        read: int = 0,
    ) -> None:
        """Save the closed operation, then settle what has slots of its own: history, lock, list of open ones.

        A process that dies before all is settled leaves it to the next `open_operations` or `take`.
        """
        if operation.closed is None:
            raise ValueError(f"{operation.operation} is not closed")
        await self.save(operation, outgoing, files, lease=lease, read=read)
        self._inboxes.forget(operation.operation)
        await self._settle(operation)

    async def rebuild(
        self,
        operation: Operation,
        *,
        lease: Lease,
        address: Address | None,
        known: Sequence[str],
        holder: Holder | None,
    ) -> Holder | None:
        """Write down again what a Redis that came back empty has lost; may be called again.

        `known`: ids of the messages that Slack has; they are not sent twice. `holder`: of its service's lock;
        returned is who has taken that meanwhile, else None. Raises as `save` does.
        """
        await self._index(operation)
        if address is not None:
            await self.queue.place(operation.operation, address)
        closed = "closed" if operation.closed else ""
        words = (lease.number, dump(operation), closed, dump(address) if address else b"", KEEP)
        answer = await self.link.run(REBUILD, thread_keys(operation.operation), *words, *known)
        check_fence(answer, operation.operation)
        if operation.closed:
            await self._settle(operation)
            return None
        # Another process may have looked between the two, and dropped the entry that led to no record.
        await self._index(operation)
        return await self.take(holder) if holder is not None else None

    async def operation(self, operation: OperationId) -> Operation | None:
        return await read_operation(self.link, operation)

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

    async def open_names(self) -> list[OperationId]:
        """Those that may be open, oldest first; closed ones that owe their thread a file are among them."""
        names = cast("list[bytes]", await self.link.ask(self.link.redis.zrange(OPEN, 0, -1)))
        return [OperationId(name.decode()) for name in names]

    async def forget_open(self, operation: OperationId) -> None:
        """For its owner, where there is no record of it."""
        await self.link.ask(self.link.redis.zrem(OPEN, operation))

    async def history(self, service: ServiceName, limit: int) -> list[Operation]:
        """Closed operations whole, newest first; `past` costs less where not all of them is needed."""
        return await self._history.operations(service, limit)

    async def past(self, service: ServiceName, limit: int) -> list[Past]:
        """What stays known of closed operations, newest first, in one read."""
        return await self._history.past(service, limit)

    # What people say: to an operation, and to all.

    async def mail(self, operation: OperationId, mail: Mail) -> bool:
        """For who runs the operation, once for each `mail.id`; False when it is closed or gone."""
        return await self._inboxes.put(operation, mail)

    async def inbox(self, operation: OperationId) -> list[Mail]:
        """Oldest first; the same ones again until a `save` has `read` them."""
        return await self._inboxes.read(operation)

    def subscribe_mail(self, listener: Callable[[OperationId], None]) -> None:
        """`listener` hears of mail that this process has sent."""
        self._inboxes.subscribe(listener)

    async def intend(self, intent: Intent, ttl_seconds: int) -> bool:
        """True for the first of its token over all processes: then it is kept until it is settled."""
        return await self._intents.intend(intent, ttl_seconds)

    async def settle_intent(self, token: str) -> None:
        await self._intents.settle(token)

    async def intents(self) -> list[Intent]:
        """Those not settled, oldest first."""
        return await self._intents.open()

    async def adopt_intent(self, intent: Intent, owner: str) -> bool:
        """`owner` takes it over as it was read; False when another did, or it is settled."""
        return await self._intents.adopt(intent, owner)

    async def audit(self, entry: AuditEntry) -> None:
        await self._audits.write(entry)

    async def audits(
        self,
        limit: int,
        service: ServiceName | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[AuditEntry]:
        """Newest first."""
        return await self._audits.read(limit, service, since=since, until=until)

    # Messages and their places.

    async def enqueue(self, outgoing: Sequence[Outgoing], files: Mapping[str, bytes] | None = None) -> None:
        """Queue messages without state; those of one thread in one transaction."""
        for thread in dict.fromkeys(message.thread for message in outgoing):
            own = [message for message in outgoing if message.thread == thread]
            await self.queue.push(thread, own, _of(own, files))

    async def waiting(self, thread: str) -> list[Outgoing]:
        """What the thread still has to send, in order, its edit last."""
        return await self.queue.waiting(thread)

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

    async def _write(
        self,
        operation: Operation,
        outgoing: Sequence[Outgoing],
        files: Mapping[str, bytes] | None,
        *,
        lease: Lease | None,
        new: bool = False,
        read: Sequence[bytes] = (),
    ) -> bool:
        name = operation.operation
        own = [message for message in outgoing if message.thread == name]
        others = [message for message in outgoing if message.thread != name]
        fence, serial = (lease.number, next(self._saves)) if lease is not None else (None, None)
        try:
            if others and fence is not None:
                await self.queue.push(name, (), {}, fence=fence)  # nobody else's messages without the lease
            await self.enqueue(others, files)
            if operation.closed is None and (new or fence is None):
                await self._index(operation)
            written = await self.queue.push(
                name, own, _of(own, files), state=operation, fence=fence, serial=serial, new=new, read=read
            )
            if operation.closed is None and not new and fence is not None:
                # Only now: in a Redis that came back empty it would lead others to an operation that has an
                # owner, and no record yet.
                await self._index(operation)
        except OwnershipLost as error:
            if not await self.check_epoch():
                raise StoreEmptied(f"Redis came back empty: {error}") from error
            self._inboxes.forget(name)
            raise
        self._inboxes.settle(name, read)
        return written

    async def _index(self, operation: Operation) -> None:
        """Before the record is written: an operation that is open is always found."""
        score = operation.began.timestamp()
        await self.link.ask(self.link.redis.zadd(OPEN, {operation.operation: score}))

    async def _settle(self, operation: Operation) -> None:
        await self._history.keep(operation)
        await self.release(operation.service, operation.operation)
        if not operation.owed:
            await self.link.ask(self.link.redis.zrem(OPEN, operation.operation))

    def _forget_mail(self, lease: Lease) -> None:
        """Its next owner takes up what was read here and not saved; should it come back, that is done."""
        self._inboxes.forget(OperationId(lease.name))

    async def _forget_open(self, operation: OperationId, score: float) -> None:
        """The record is not there: it is just being saved, or never will be."""
        if score < time.time() - GRACE:
            await self.link.run(FORGET, [OPEN], operation, repr(score))


def _of(messages: Sequence[Outgoing], files: Mapping[str, bytes] | None) -> dict[str, bytes]:
    return {message.id: files[message.id] for message in messages if files and message.id in files}

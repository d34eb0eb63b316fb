"""A store in memory, and an outbox that is as quick as it: what the carriers need of the two."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.clients.leases import Lease
from bot.clients.records import Address, Holder, Mail, Operation, Outgoing, Past, past_of
from bot.core.events import MessageTs, OperationId, ServiceName
from bot.errors import OwnershipLost, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class MemoryLeases:
    """Who owns what. `die`: this process is gone, and the next one has its place."""

    def __init__(self, answer: Callable[[str], None]) -> None:
        self.process = 1
        self.seconds = 10.0
        self.sure = True  # whether a lease was confirmed in time
        self.held: dict[str, tuple[int, Lease]] = {}
        self.clean: set[str] = set()  # let go in order by the last owner
        self._seen: dict[str, float] = {}
        self._numbers = 0
        self._answer = answer
        self._lost: list[Callable[[Lease], None]] = []

    def subscribe_lost(self, listener: Callable[[Lease], None]) -> None:
        self._lost.append(listener)

    async def claim(self, name: str) -> Lease | None:
        self._answer("claim")
        process, lease = self.held.get(name, (0, None))
        if lease is not None and process == self.process:
            return lease
        now = asyncio.get_running_loop().time()
        if lease is not None and process > 0:
            return None
        self._numbers += 1
        away = timedelta(seconds=now - self._seen[name]) if name in self._seen else None
        taken = Lease(name, self._numbers, away, clean=name in self.clean or away is None)
        self.held[name] = (self.process, taken)
        self.clean.discard(name)
        return taken

    def holds(self, lease: Lease) -> bool:
        return self.sure and self.held.get(lease.name) == (self.process, lease)

    def check(self, lease: Lease | None) -> None:
        if lease is not None and self.held.get(lease.name, (0, None))[1] != lease:
            raise OwnershipLost(f"another process has {lease.name}")

    async def let_go(self, lease: Lease, *, untouched: bool = False) -> None:
        self._answer("let_go")
        if self.held.get(lease.name, (0, None))[1] != lease:
            return
        del self.held[lease.name]
        if lease.clean or not untouched:
            self.clean.add(lease.name)
            self._seen[lease.name] = asyncio.get_running_loop().time()

    def die(self) -> None:
        now = asyncio.get_running_loop().time()
        for name, (process, lease) in self.held.items():
            if process == self.process:
                self.held[name] = (-process, lease)
                self._seen[name] = now
        self.process += 1
        self._lost.clear()

    def steal(self, name: str) -> None:
        """Another process, which lives, has it from now on; nobody here has heard of that."""
        self._numbers += 1
        self.held[name] = (10_000, Lease(name, self._numbers, None, clean=False))

    def tell_lost(self, lease: Lease) -> None:
        for listener in self._lost:
            listener(lease)


class MemoryStore:
    """What the carriers need of the store; `away` lets every call fail, `failing` those named, once each.

    `deaf` calls are carried out and then fail: Redis took them and the answer was lost.
    """

    def __init__(self, diary: list[str]) -> None:
        self.away = False
        self.failing: list[str] = []
        self.deaf: list[str] = []
        self.refused = 0
        self.holders: dict[str, Holder] = {}
        self.operations: dict[str, Operation] = {}
        self.queued: dict[str, Outgoing] = {}
        self.edits: list[Outgoing] = []
        self.files: dict[str, bytes] = {}
        self.addresses: dict[str, Address] = {}
        self.baselines: dict[str, str] = {}
        self.setups: dict[str, str] = {}
        self.given_up: list[tuple[ServiceName, str, str]] = []
        self.mails: dict[str, list[Mail]] = {}
        self.mailed: set[str] = set()
        self.leases = MemoryLeases(self._answer)
        self._mail_listeners: list[Callable[[OperationId], None]] = []
        self._diary = diary

    def _answer(self, name: str) -> None:
        if self.away or name in self.failing:
            self.failing = [other for other in self.failing if other != name]
            self.refused += 1
            raise StoreUnavailable("Redis at nowhere does not answer")

    def _forget_to_answer(self, name: str) -> None:
        if name in self.deaf:
            self.deaf.remove(name)
            raise StoreUnavailable("the answer was lost")

    async def check_epoch(self) -> bool:
        self._answer("check_epoch")
        return True

    async def waiting(self, thread: str) -> list[Outgoing]:
        self._answer("waiting")
        return [message for message in self.queued.values() if message.thread == thread]

    async def take(self, holder: Holder) -> Holder | None:
        self._answer("take")
        held = self.holders.setdefault(holder.service, holder)
        await asyncio.sleep(0)
        self._forget_to_answer("take")
        return None if held.operation == holder.operation else held

    async def holder(self, service: ServiceName) -> Holder | None:
        self._answer("holder")
        await asyncio.sleep(0)
        held = self.holders.get(service)
        operation = await self.operation(held.operation) if held is not None else None
        return held.model_copy(update={"headline": operation.headline}) if held and operation else held

    async def release(self, service: ServiceName, operation: OperationId) -> None:
        self._answer("release")
        held = self.holders.get(service)
        if held is not None and held.operation == operation:
            del self.holders[service]

    async def save(
        self,
        operation: Operation,
        outgoing: Sequence[Outgoing] = (),
        files: Mapping[str, bytes] | None = None,
        *,
        lease: Lease | None = None,
        read: int = 0,
    ) -> None:
        self._answer("save")
        self.leases.check(lease)
        await self.enqueue(outgoing, files)
        del self.mails.get(operation.operation, [])[:read]
        # As JSON would hold it: what is changed afterwards is not saved.
        self.operations[operation.operation] = operation.model_copy(
            update={"positions": dict(operation.positions)}
        )
        self._diary.append("saved")
        self._forget_to_answer("save")

    async def enqueue(self, outgoing: Sequence[Outgoing], files: Mapping[str, bytes] | None = None) -> None:
        self._answer("enqueue")
        for message in outgoing:
            if message.kind == "edit":
                self.edits.append(message)
            elif message.id not in self.queued:
                self.queued[message.id] = message
                self._diary.append(f"queued {message.kind}")
        self.files |= files or {}

    async def create(
        self, operation: Operation, outgoing: Sequence[Outgoing] = (), *, lease: Lease | None = None
    ) -> bool:
        present = self.operations.get(operation.operation)
        if present is not None and present != operation:
            return False
        await self.save(operation, outgoing, lease=lease)
        return True

    async def finish(
        self,
        operation: Operation,
        outgoing: Sequence[Outgoing] = (),
        files: Mapping[str, bytes] | None = None,
        *,
        lease: Lease | None = None,
        read: int = 0,
    ) -> None:
        self._answer("finish")
        await self.save(operation, outgoing, files, lease=lease, read=read)
        await self.release(operation.service, operation.operation)
        self._diary.append("finished")

    async def operation(self, operation: OperationId) -> Operation | None:
        self._answer("operation")
        return self.operations.get(operation)

    async def open_operations(self) -> list[Operation]:
        self._answer("open_operations")
        return [operation for operation in self.operations.values() if operation.closed is None]

    async def open_names(self) -> list[OperationId]:
        self._answer("open_names")
        return [each.operation for each in self.operations.values() if each.closed is None or each.owed]

    async def forget_open(self, operation: OperationId) -> None:
        self._answer("forget_open")
        self.operations.pop(operation, None)

    async def mail(self, operation: OperationId, mail: Mail) -> bool:
        self._answer("mail")
        record = self.operations.get(operation)
        if record is None or record.closed is not None:
            return False
        if mail.id not in self.mailed:
            self.mailed.add(mail.id)
            self.mails.setdefault(operation, []).append(mail)
        for listener in self._mail_listeners:
            listener(operation)
        return True

    async def inbox(self, operation: OperationId) -> list[Mail]:
        self._answer("inbox")
        return list(self.mails.get(operation, []))

    def subscribe_mail(self, listener: Callable[[OperationId], None]) -> None:
        self._mail_listeners.append(listener)

    async def history(self, service: ServiceName, limit: int) -> list[Operation]:
        self._answer("history")
        closed = [op for op in self.operations.values() if op.closed and op.service == service]
        return closed[::-1][:limit]

    async def past(self, service: ServiceName, limit: int) -> list[Past]:
        return [past_of(each, None) for each in await self.history(service, limit)]

    async def address(self, thread: str) -> Address | None:
        self._answer("address")
        return self.addresses.get(thread)

    async def baseline(self, service: ServiceName) -> str | None:
        self._answer("baseline")
        return self.baselines.get(service)

    async def save_baseline(self, service: ServiceName, json: str) -> None:
        self._answer("save_baseline")
        self.baselines[service] = json

    async def setup(self, service: ServiceName) -> str | None:
        self._answer("setup")
        return self.setups.get(service)

    async def save_setup(self, service: ServiceName, json: str) -> None:
        self._answer("save_setup")
        self.setups[service] = json

    async def give_up(self, service: ServiceName, kind: str, why: str) -> None:
        self._answer("give_up")
        self.given_up.append((service, kind, why))

    def texts(self, kind: str = "reply") -> list[str]:
        return [message.text for message in self.queued.values() if message.kind == kind]


class InstantOutbox:
    """Brings every queued root to Slack as soon as it is woken; not at all while Slack is `away`."""

    def __init__(self, store: MemoryStore, diary: list[str]) -> None:
        self.away = False
        self._store, self._diary = store, diary

    def wake(self) -> None:
        for message in self._store.queued.values():
            if message.kind == "root" and not self.away and message.thread not in self._store.addresses:
                ts = f"17{len(self._store.addresses):08d}.000100"
                address = Address(channel=message.channel, ts=MessageTs(ts), permalink=f"https://s/p{ts}")
                self._store.addresses[message.thread] = address
                self._diary.append("posted root")

"""Outgoing messages in Redis: queued once, claimed by one process at a time, removed when Slack has them."""

from __future__ import annotations

import asyncio
import contextlib
import time
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from bot.clients.identity import is_dead
from bot.clients.records import Address, Attempt, Operation, Outgoing, Parked, dump, load
from bot.clients.redis_link import PARKED, THREADS, RedisLink, thread_key, thread_keys
from bot.clients.scripts import (
    ACCEPT,
    ANEW,
    ATTEMPT,
    CLAIM,
    EDITED,
    FORGET,
    LET_GO,
    PARK,
    PUSH,
    RENEW,
    SWAP,
)
from bot.clients.scripts_shared import LANE
from bot.errors import OwnershipLost, RecordUnreadable, StoreEmptied

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bot.clients.store_incidents import IncidentRecord

KEEP = 90 * 24 * 3600  # seconds that addresses and closed operations stay
# A thread stays indexed this long after its last enqueue: the index has a slot of its own, and is written
# just before the messages are.
GRACE = 30.0


@dataclass(frozen=True, slots=True)
class Claim:
    """What one thread has to send, while its lease is ours. The raw forms tell Redis what was read.

    `until`: monotonic time up to which the lease surely is ours, where there is something to send.
    """

    thread: str
    head: Outgoing | None
    head_raw: bytes
    edit: Outgoing | None
    edit_raw: bytes
    address: Address | None
    attempt: Attempt | None
    refused: str | None
    until: float

    @property
    def head_id(self) -> str:
        return self.head.id if self.head else ""

    @property
    def attempted(self) -> Attempt | None:
        """The mark of an earlier try to send the head, whose outcome nobody wrote down."""
        return self.attempt if self.attempt and self.attempt.id == self.head_id else None


class Queue:
    """All methods raise StoreUnavailable; those that write raise OwnershipLost without the thread's lease."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._listeners: list[Callable[[str, bool], None]] = []

    def subscribe(self, listener: Callable[[str, bool], None]) -> None:
        """`listener` hears of each thread something was queued for here, and whether its present alone."""
        self._listeners.append(listener)

    async def push(
        self,
        thread: str,
        messages: Sequence[Outgoing],
        files: Mapping[str, bytes],
        *,
        state: Operation | IncidentRecord | None = None,
        fence: int | None = None,
        serial: int | None = None,
        new: bool = False,
        read: Sequence[bytes] = (),
    ) -> bool:
        """Queue messages of one thread, with its operation's or incident's state, in one transaction.

        `fence`: number of the lease of who runs the operation; with it, OwnershipLost or StoreEmptied.
        `serial`: grows with each save under that lease; what a later one holds is not undone.
        `new`: only when there is no such operation yet, else False. `read`: entries of its inbox that the
        state holds.
        """
        packed = await asyncio.to_thread(_pack, files) if files else {}
        arguments: list[str | bytes] = [*read]
        now = datetime.now(UTC)
        for message in messages:
            record = dump(message.model_copy(update={"queued": message.queued or now}))
            arguments += [message.kind, message.id, record, packed.get(message.id, b"")]
        kind = "closed" if state and state.closed else "new" if new else ""
        if messages:
            await self._link.ask(self._link.redis.zadd(THREADS, {thread: time.time()}))
        record, numbers = (
            dump(state) if state else b"",
            ["" if each is None else each for each in (fence, serial)],
        )
        words = (record, kind, KEEP, *numbers, len(read))
        part = "operation" if state is None or isinstance(state, Operation) else "incident"
        keys = [thread_key(thread, part), *thread_keys(thread)[1:]]
        answer = await self._link.run(PUSH, keys, *words, *arguments)
        if answer == b"exists":
            return False
        check_fence(answer, thread)
        present = all(message.kind == "edit" for message in messages)
        for listener in self._listeners if messages else ():
            listener(thread, present)
        return True

    async def waiting(self, thread: str) -> list[Outgoing]:
        """What the thread has to send, in order, its edit last; entries that cannot be read are left out."""
        redis = self._link.redis
        raw = cast("list[bytes]", await self._link.ask(redis.lrange(thread_key(thread, "queue"), 0, -1)))
        edit = cast("bytes | None", await self._link.ask(redis.get(thread_key(thread, "edit"))))
        found: list[Outgoing] = []
        for entry in [*raw, *([edit] if edit else [])]:
            with contextlib.suppress(RecordUnreadable):  # who sends it sets it aside
                found.append(load(Outgoing, entry, key=thread_key(thread, "queue")))
        return found

    async def suspect(self, message: Outgoing) -> None:
        """Before it is queued again: it may be on its way to Slack, so who sends it looks for it there first.

        Only for the first of a thread that has nothing to send.
        """
        attempt = Attempt(id=message.id, at=message.queued or datetime.now(UTC))
        key = thread_key(message.thread, "attempt")
        await self._link.ask(self._link.redis.set(key, dump(attempt), ex=KEEP))

    async def threads(self) -> list[str]:
        """Threads that may have something to send."""
        members = cast("list[bytes]", await self._link.ask(self._link.redis.zrange(THREADS, 0, -1)))
        return [member.decode() for member in members]

    async def pending(self) -> int:
        """How many messages wait, edits included."""
        redis, link = self._link.redis, self._link
        count = 0
        for thread in await self.threads():
            # An edit may become a reply meanwhile, never the other way round: in this order it is not missed.
            count += cast("int", await link.ask(redis.exists(thread_key(thread, "edit"))))
            count += cast("int", await link.ask(redis.llen(thread_key(thread, "queue"))))
        return count

    async def claim(self, thread: str, owner: str, lease: float) -> Claim | None:
        """None: another process sends this thread; a certainly dead one does not."""
        dead = b""
        while True:
            until = time.monotonic() + lease
            answer = await self._link.run(CLAIM, thread_keys(thread), owner, int(lease * 1000), dead)
            if answer[0] == b"claimed":
                break
            if answer[1] == dead or not is_dead(answer[1].decode()):
                return None
            dead = answer[1]
        _, head, edit, address, attempt, refused = answer
        try:
            return Claim(
                thread=thread,
                head=load(Outgoing, head, key=thread_key(thread, "queue")) if head else None,
                head_raw=head,
                edit=load(Outgoing, edit, key=thread_key(thread, "edit")) if edit else None,
                edit_raw=edit,
                address=load(Address, address, key=thread_key(thread, "address")) if address else None,
                attempt=load(Attempt, attempt, key=thread_key(thread, "attempt")) if attempt else None,
                refused=refused.decode() or None,
                until=until,
            )
        except RecordUnreadable:
            await self._clear_unreadable(thread, head=head)
            return await self.claim(thread, owner, lease)

    async def _clear_unreadable(self, thread: str, *, head: bytes) -> None:
        key = thread_key(thread, "queue")
        try:
            load(Outgoing, head, key=key) if head else None
        except RecordUnreadable as error:
            await self._link.set_aside(key, head, error)
            await self._link.ask(self._link.redis.lrem(key, 1, cast("str", head)))
        for kind, part in ((Outgoing, "edit"), (Address, "address"), (Attempt, "attempt")):
            await self._link.read(kind, thread_key(thread, part))

    async def renew(self, thread: str, owner: str, lease: float) -> float:
        """Monotonic time up to which the lease surely is ours now."""
        until = time.monotonic() + lease
        await self._owned(RENEW, thread, owner, int(lease * 1000))
        return until

    async def take_token(self, lane: str, *, interval: float, burst: int) -> float:
        """0.0: taken; else not, and the seconds after which it is worth asking again.

        At most `burst` at once and one each `interval` seconds from then on, over all processes.
        """
        words = (round(interval * 1_000_000), burst)
        return cast("int", await self._link.run(LANE, [f"kimi:lane:{lane}"], *words)) / 1_000_000

    async def let_go(self, thread: str, owner: str) -> None:
        """Others may send this thread; quietly, when the lease is not ours any more."""
        await self._link.run(LET_GO, thread_keys(thread), owner)

    async def rest(self, thread: str) -> None:
        """The thread had nothing to send: take it out of the index, unless something may be on its way."""
        score = await self._link.ask(self._link.redis.zscore(THREADS, thread))
        if score is not None and float(score) < time.time() - GRACE:
            await self._link.run(FORGET, [THREADS], thread, repr(float(score)))

    async def attempt(self, thread: str, owner: str, attempt: Attempt) -> None:
        """Written before the head goes out; OwnershipLost where another message is the head now."""
        answer = await self._owned(ATTEMPT, thread, owner, dump(attempt), attempt.id)
        if answer == b"late":
            raise OwnershipLost(f"{attempt.id} is not what {thread} has to send next")

    async def withdraw(self, message: Outgoing, owner: str) -> None:
        """It is certain that nothing of the attempt reached Slack."""
        await self._owned(ATTEMPT, message.thread, owner, b"", message.id)

    async def accept(self, claim: Claim, owner: str, address: Address | None = None) -> None:
        """Slack has the head; `address`: where the thread's root, or its present, now is."""
        if address is not None:
            await self.place(claim.thread, address)
        record = dump(address) if address else b""
        await self._owned(ACCEPT, claim.thread, owner, claim.head_raw, claim.head_id, record, KEEP)

    async def edited(self, claim: Claim, owner: str) -> None:
        await self._owned(EDITED, claim.thread, owner, claim.edit_raw)

    async def anew(self, claim: Claim, owner: str, reply: Outgoing) -> bool:
        """`reply` takes over from a message that cannot be edited; False when one already has."""
        answer = await self._owned(ANEW, claim.thread, owner, claim.edit_raw, reply.id, dump(reply))
        return answer == b"queued"

    async def park(self, claim: Claim, owner: str, parked: Parked) -> None:
        """Take the head, or the edit, out of the way, and keep it where `parked()` shows it."""
        edit = parked.outgoing.kind == "edit"
        refused = parked.code if parked.outgoing.kind == "root" else ""
        await self._link.ask(self._link.redis.zadd(PARKED, {claim.thread: time.time()}))
        raw = claim.edit_raw if edit else claim.head_raw
        await self._owned(PARK, claim.thread, owner, raw, dump(parked), refused, KEEP)

    async def parked(self) -> list[Parked]:
        found: list[Parked] = []
        for thread in cast("list[bytes]", await self._link.ask(self._link.redis.zrange(PARKED, 0, -1))):
            key = thread_key(thread.decode(), "parked")
            entries = cast("list[bytes]", await self._link.ask(self._link.redis.lrange(key, 0, -1)))
            for entry in entries:
                try:
                    found.append(load(Parked, entry, key=key))
                except RecordUnreadable as error:
                    await self._link.set_aside(key, entry, error)
                    await self._link.ask(self._link.redis.lrem(key, 1, cast("str", entry)))
        return found

    async def file(self, outgoing: Outgoing) -> bytes | None:
        key = thread_key(outgoing.thread, "files")
        raw = cast("bytes | None", await self._link.ask(self._link.redis.hget(key, outgoing.id)))
        return None if raw is None else await asyncio.to_thread(zlib.decompress, raw)

    async def address(self, thread: str) -> Address | None:
        return await self._link.read(Address, thread_key(thread, "address"))

    async def link_address(self, thread: str, permalink: str) -> None:
        """Add the permalink to the address as it stands, whoever has changed it meanwhile."""
        key = thread_key(thread, "address")
        while raw := cast("bytes | None", await self._link.ask(self._link.redis.get(key))):
            address = load(Address, raw, key=key).model_copy(update={"permalink": permalink})
            if await self._link.run(SWAP, [key], raw, dump(address)):
                return

    async def place(self, thread: str, address: Address) -> None:
        """From now on `thread_at` finds the thread there."""
        key = f"kimi:at:{address.channel}:{address.ts}"
        await self._link.ask(self._link.redis.set(key, thread, ex=KEEP))

    async def thread_at(self, channel: str, ts: str) -> str | None:
        raw = cast("bytes | None", await self._link.ask(self._link.redis.get(f"kimi:at:{channel}:{ts}")))
        return raw.decode() if raw else None

    async def _owned(self, script: str, thread: str, owner: str, *rest: str | bytes | float) -> bytes:
        answer = cast("bytes", await self._link.run(script, thread_keys(thread), owner, *rest))
        if answer == b"lost":
            raise OwnershipLost(f"another process sends the messages of {thread}")
        return answer


def check_fence(answer: bytes, operation: str) -> None:
    """Raises what a write was refused for."""
    if answer == b"lost":
        raise OwnershipLost(f"another process runs {operation}")
    if answer == b"empty":
        raise StoreEmptied(f"Redis came back empty: nothing is known of {operation}")


def new_attempt(outgoing: Outgoing) -> Attempt:
    return Attempt(id=outgoing.id, at=datetime.now(UTC))


def _pack(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name: zlib.compress(content) for name, content in files.items()}

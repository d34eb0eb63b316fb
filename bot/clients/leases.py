"""Who runs what, over all processes: leases with fencing numbers, renewed for as long as the process lives.

An owner may be paused for longer than its lease and wake up believing that it still has it. That is why every
write carries the lease's number, which Redis compares, and why `holds` is asked before anything that Redis
cannot compare. What posts a thread's messages is another lease: that of its sender, see store_queue.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, cast

import structlog

from bot.clients.identity import is_dead, new_owner
from bot.clients.redis_link import thread_key
from bot.clients.scripts_lease import CLAIM_LEASE, FREE_LEASE, LEASE_PARTS, RENEW_LEASE
from bot.clients.store_epoch import Epoch
from bot.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.clients.redis_link import RedisLink

PROCESSES = "kimi:processes"  # sorted set: owners, by their last sign of life in unix seconds
_KEEP = 90 * 24 * 3600  # seconds that a lease nobody renews is remembered
_AT_ONCE = 16  # renewals under way together
_FORGOTTEN = 3600.0  # seconds after which a silent process leaves the list
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Lease:
    """`away`: since the former owner's last sign of life; None: nobody owned it before.

    `clean`: the former owner let go in order, or there was none.
    """

    name: str
    number: int
    away: timedelta | None
    clean: bool


@dataclass(slots=True, eq=False)
class _Held:
    lease: Lease
    confirmed: float  # monotonic, taken before the claim or renewal was sent that Redis confirmed
    tried: float


class Leases:
    """The leases of one process. Methods that ask Redis raise StoreUnavailable; `run` must be running."""

    def __init__(self, link: RedisLink, *, owner: str | None = None, seconds: float = 10.0) -> None:
        """`seconds`: how long a lease lasts without renewal."""
        self.owner = owner or new_owner()
        self.seconds = seconds
        self.epoch = Epoch(link)
        self._link = link
        self._held: dict[str, _Held] = {}
        self._lost: list[Callable[[Lease], None]] = []
        self._emptied: list[Callable[[], None]] = []
        self._told_of: bytes | None = None  # the epoch whose end the listeners have heard of
        self._signed = False
        self._closed = False
        self.counts: Counter[str] = Counter()  # "claimed", "taken_over" (not let go before), "lost", "let_go"
        self.renewed = time.monotonic()  # when all that is held was last renewed
        self.refused: StoreUnavailable | None = None  # what the newest round met; None: it went well

    @property
    def held(self) -> int:
        return len(self._held)

    def subscribe_lost(self, listener: Callable[[Lease], None]) -> None:
        """`listener` hears of each lease that another process took."""
        self._lost.append(listener)

    def subscribe_emptied(self, listener: Callable[[], None]) -> None:
        """`listener` hears once of each time that Redis came back empty; who rebuilds calls `epoch.renew`."""
        self._emptied.append(listener)

    async def claim(self, name: str) -> Lease | None:
        """None: a living process has it. What is ours already stays the same lease."""
        held = self._held.get(name)
        if held is not None:
            await self._renew(held)
            if self._held.get(name) is held:
                return held.lease
        return await self._take(name)

    def holds(self, lease: Lease) -> bool:
        """Whether it surely is ours at this moment; asks nobody."""
        held = self._held.get(lease.name)
        if held is None or held.lease.number != lease.number:
            return False
        return time.monotonic() - held.confirmed < self.seconds

    async def let_go(self, lease: Lease, *, untouched: bool = False) -> None:
        """In order: the next owner is told so. Quietly, when it is not ours any more.

        `untouched`: nothing was done with it, so that the next owner is told of the one before us.
        """
        held = self._held.get(lease.name)
        if held is not None and held.lease.number == lease.number:
            del self._held[lease.name]
            self.counts["let_go"] += 1
        words = (self._value(lease), lease.number, _KEEP, "untouched" if untouched else "")
        await self._link.run(FREE_LEASE, _keys(lease.name), *words)

    async def is_owned(self, name: str) -> bool:
        """Whether some process has it, this one included, that is not certainly dead."""
        value = cast("bytes | None", await self._link.ask(self._link.redis.get(thread_key(name, "owner"))))
        return value is not None and not is_dead(_owner_of(value))

    async def run(self) -> None:
        """Until closed: renews what is held, gives the sign of life, looks whether Redis came back empty."""
        while not self._closed:
            began = time.monotonic()
            try:
                async with asyncio.timeout(self.seconds):
                    await self.renew()
                self.renewed, self.refused = began, None
                pause = self.seconds / 3
            except (StoreUnavailable, TimeoutError) as error:
                self.refused = error if isinstance(error, StoreUnavailable) else None
                log.warning("leases_not_renewed", held=len(self._held), error=str(error) or "timed out")
                pause = self.seconds / 10
            await asyncio.sleep(max(pause - (time.monotonic() - began), 0.01))

    async def renew(self) -> None:
        """One round. StoreUnavailable when something of it did not get through; the rest did."""
        room = asyncio.Semaphore(_AT_ONCE)

        async def one(held: _Held) -> None:
            async with room:
                await self._renew(held)

        # Those that waited longest go first: where a round is cut short, none is passed over for ever.
        held = sorted(self._held.values(), key=lambda each: each.tried)
        answers = await asyncio.gather(
            self._look(), self._sign(), *(one(each) for each in held), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    async def alive(self, owner: str) -> bool:
        """Whether the process gave a sign of life within `seconds` and is not certainly dead."""
        if owner == self.owner:
            return True
        return bool(await self._link.ask(self._link.redis.exists(_process(owner)))) and not is_dead(owner)

    async def processes(self) -> list[str]:
        """The owners that live, in a steady order."""
        redis, link = self._link.redis, self._link
        rows = await link.ask(redis.zrange(PROCESSES, 0, -1, withscores=True))
        found: list[str] = []
        for member, score in cast("list[tuple[bytes, float]]", rows):
            owner = member.decode()
            if await self.alive(owner):
                found.append(owner)
            elif score < time.time() - _FORGOTTEN:
                await link.ask(redis.zrem(PROCESSES, owner))
        return sorted(found)

    async def close(self) -> None:
        """Lets go of everything, and of the sign of life; without a word where Redis is gone."""
        self._closed = True
        signed, self._signed = self._signed, False  # once: each try at a Redis that hangs takes its time
        with suppress(StoreUnavailable):
            for held in list(self._held.values()):
                await self.let_go(held.lease)
            if signed:
                await self._link.ask(self._link.redis.delete(_process(self.owner)))
                await self._link.ask(self._link.redis.zrem(PROCESSES, self.owner))
        self._held.clear()

    async def _take(self, name: str) -> Lease | None:
        dead = b""
        while True:
            before = time.monotonic()
            words = (self.owner, int(self.seconds * 1000), dead, _KEEP)
            answer = cast("list[bytes]", await self._link.run(CLAIM_LEASE, _keys(name), *words))
            if answer[0] == b"claimed":
                return self._keep(name, answer, before)
            if answer[1] == dead or not is_dead(_owner_of(answer[1])):
                return None
            dead = answer[1]

    def _keep(self, name: str, answer: list[bytes], before: float) -> Lease:
        _, number, away, orderly = answer
        gone = timedelta(milliseconds=int(away)) if away else None
        lease = Lease(name, int(number), gone, clean=orderly == b"1")
        self._held[name] = _Held(lease, before, before)
        self.counts["claimed" if lease.clean else "taken_over"] += 1
        return lease

    async def _renew(self, held: _Held) -> None:
        lease, before = held.lease, time.monotonic()
        held.tried = before
        words = (self._value(lease), lease.number, int(self.seconds * 1000), _KEEP)
        answer = await self._link.run(RENEW_LEASE, _keys(lease.name), *words)
        if self._held.get(lease.name) is not held:  # let go meanwhile, and perhaps claimed anew
            return
        if answer == b"renewed":
            held.confirmed = max(held.confirmed, before)
            return
        # Whoever has it since Redis came back empty knows nothing of it: who ran it decides, not this number.
        if answer == b"lost" and not await self.epoch.check():
            answer = b"empty"
        if self._held.get(lease.name) is not held:
            return
        del self._held[lease.name]
        log.warning("lease_gone", name=lease.name, number=lease.number, answer=answer.decode())
        self.counts["lost"] += answer == b"lost"
        for listener in self._lost if answer == b"lost" else ():
            listener(lease)

    async def _look(self) -> None:
        known = self.epoch.known
        if await self.epoch.check() or self._told_of == known or self.epoch.known != known:
            return  # the last: who rebuilds was quicker than this look
        self._told_of = self.epoch.known
        log.error("redis_emptied", held=len(self._held))
        self._held.clear()
        for listener in self._emptied:
            listener()

    async def _sign(self) -> None:
        if self._closed:
            return
        redis, self._signed = self._link.redis, True
        await self._link.ask(redis.set(_process(self.owner), "alive", px=int(self.seconds * 1000)))
        await self._link.ask(redis.zadd(PROCESSES, {self.owner: time.time()}))

    def _value(self, lease: Lease) -> str:
        return f"{self.owner}|{lease.number}"


def _keys(name: str) -> list[str]:
    return [thread_key(name, part) for part in LEASE_PARTS]


def _owner_of(value: bytes) -> str:
    return value.decode().rpartition("|")[0]


def _process(owner: str) -> str:
    return f"kimi:process:{owner}"

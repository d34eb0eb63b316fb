"""Whether this process does its work, part by part: what is amiss, and what only a new process would mend.

Theory. Two questions are asked of a process. Is it alive: would it do its work if all that it needs were
there? Whoever asks this kills the process at a no, so that an outage of Slack or Redis must not be one: a new
process would meet the same outage, having forgotten what this one holds in memory. And is it ready: can it do
its work now? A no takes it out of a load balancer, and stops the pings to the dead man's switch.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Protocol

import structlog

from bot.clients.slack import Outbox
from bot.clients.store import Store
from bot.errors import StoreUnavailable
from bot.startups import Startups

log = structlog.get_logger()

EVERY = 1.0  # seconds between looks
_DEPTH_EVERY = 10.0
_SLOW = 15.0  # seconds without a look: Redis may take five of them
STUCK = 60.0  # seconds after which what goes on by itself will not go on any more
_SETTLED = 60.0  # seconds Redis must have answered before others are judged by what they do with it


class Ears(Protocol):
    async def hear(self) -> tuple[bool, str]:
        """Whether Slack can reach this process, and in which way."""


@dataclass(frozen=True, slots=True)
class Part:
    """`fatal`: it does not do its work, and only a new process will."""

    name: str
    good: bool
    words: str
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    parts: tuple[Part, ...]

    @property
    def alive(self) -> bool:
        return not any(part.fatal for part in self.parts)

    @property
    def ready(self) -> bool:
        return all(part.good for part in self.parts)

    def problems(self, *, fatal: bool = False) -> tuple[str, ...]:
        """What is not good, or `fatal`, one line each."""
        wrong = (part for part in self.parts if (part.fatal if fatal else not part.good))
        return tuple(f"{part.name}: {part.words}" for part in wrong)


@dataclass(frozen=True, slots=True)
class Organs:
    """What is looked at; there from the moment that the process works."""

    store: Store
    outbox: Outbox
    startups: Startups
    ears: Ears


class Vitals:
    """`run` looks for ever; `report` says what it saw, and asks nobody."""

    def __init__(self) -> None:
        self.organs: Organs | None = None
        self.stage = "starting"
        self.lag = 0.0  # seconds that the loop was late at the last look
        self.depth: int | None = None  # messages that wait in Redis, of all processes; None: not known
        self.heard: tuple[bool, str] = (False, "not connected yet")
        self.redis_gone: float | None = None  # monotonic, since when it is of no use
        self._refused = ""  # what it says to who writes, where it answers who reads
        self._redis_back = time.monotonic()
        self._beat = time.monotonic()
        self._measured = float("-inf")

    def attach(self, organs: Organs) -> None:
        self.organs = organs

    async def run(self) -> None:
        """For ever; `attach` comes first."""
        while True:
            await self.look()
            asleep = time.monotonic()
            await asyncio.sleep(EVERY)
            self.lag = max(0.0, time.monotonic() - asleep - EVERY)

    async def look(self) -> None:
        """One round; what is gone is noted, never raised."""
        if self.organs is None:
            raise RuntimeError("nothing is attached")
        self._beat = time.monotonic()
        self.heard = await self.organs.ears.hear()
        if await self._is_of_use(self.organs):
            if self.redis_gone is not None:
                self.redis_gone, self._redis_back = None, time.monotonic()
            return
        if self.redis_gone is None:
            self.redis_gone = time.monotonic()

    async def _is_of_use(self, organs: Organs) -> bool:
        """One that is full, cannot write to its disk, or is a replica answers, and takes nothing."""
        leases, self._refused = organs.store.leases, ""
        try:
            await organs.store.ping()
            await self._measure(organs.outbox)
        except StoreUnavailable:
            self.depth = None
            return False
        if leases.refused is not None and time.monotonic() - leases.renewed >= leases.seconds:
            self._refused = str(leases.refused)
        return not self._refused

    async def _measure(self, outbox: Outbox) -> None:
        now = time.monotonic()
        if self.depth is None or now - self._measured >= _DEPTH_EVERY:
            self.depth, self._measured = await outbox.depth(), now

    def report(self) -> Report:
        now, organs = time.monotonic(), self.organs
        stage = Part("process", good=self.stage == "running", words=self.stage)
        if organs is None:
            return Report((stage,))
        parts = (
            stage,
            self._loop(now),
            self._redis(now),
            self._slack(organs),
            self._outbox(organs, now),
            self._leases(organs, now),
            self._startups(organs, now),
        )
        return Report(parts)

    # Each part.

    def _loop(self, now: float) -> Part:
        age = now - self._beat
        words = f"last looked {age:.1f} s ago" if age > _SLOW else f"late by {self.lag:.2f} s"
        return Part("loop", good=age <= _SLOW, words=words, fatal=age > STUCK)

    def _redis(self, now: float) -> Part:
        if self.redis_gone is None:
            return Part("redis", good=True, words="answers")
        if self._refused:
            words = f"has taken nothing for {now - self.redis_gone:.0f} s: {self._refused}"
            return Part("redis", good=False, words=words)
        return Part("redis", good=False, words=f"has not answered for {now - self.redis_gone:.0f} s")

    def _slack(self, organs: Organs) -> Part:
        good, words = self.heard
        if (code := organs.outbox.locked) is not None:
            return Part("slack", good=False, words=f"refuses the token: {code}")
        return Part("slack", good=good, words=words)

    def _outbox(self, organs: Organs, now: float) -> Part:
        age = now - organs.outbox.beat
        words = f"sends {organs.outbox.busy} threads" if age <= STUCK else f"has not looked for {age:.0f} s"
        return Part("outbox", good=age <= STUCK, words=words, fatal=age > STUCK)

    def _leases(self, organs: Organs, now: float) -> Part:
        leases = organs.store.leases
        age = now - leases.renewed
        fatal = age > STUCK and self._settled(now)
        return Part("leases", good=age < leases.seconds, words=f"renewed {age:.0f} s ago", fatal=fatal)

    def _startups(self, organs: Organs, now: float) -> Part:
        running = organs.startups.running.values()
        # Each takes in something at least once a second, until it has its verdict.
        waiting = [now - run.beat for run in running if run.startup.verdict is None]
        behind, count = max(waiting, default=0.0), len(running)
        if behind <= STUCK:
            return Part("startups", good=True, words=f"{count} under way")
        words = f"one of {count} has taken in nothing for {behind:.0f} s"
        return Part("startups", good=False, words=words, fatal=self._settled(now))

    def _settled(self, now: float) -> bool:
        """Whether Redis is no excuse."""
        return self.redis_gone is None and now - self._redis_back > _SETTLED

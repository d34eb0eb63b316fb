"""The rounds over one host: when each of its services is looked at, what is asked, and who is told of it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import structlog

from bot.core.events import HostName
from bot.core.monitor_events import Checked, DirectAsked, HostChecked
from bot.core.monitor_state import Sight, WatchStanding
from bot.errors import StoreUnavailable
from bot.ground import Ground
from bot.rounds import ask, pace_of, patience_of, see
from bot.watch_entries import FASTEST
from bot.watch_looks import Looks
from bot.watch_machines import Machines

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import ProbeAnswer
    from bot.rounds import Seen
    from bot.watch_entries import Entry

log = structlog.get_logger()

_WHOLE_EVERY = 20  # rounds: how often the model's name and the port's owner are asked for too
_SPREAD, _SPREAD_MOST = 0.05, 1.0  # of `every`, in real seconds: engines of a host are not asked all at once
_OK = 200


@dataclass(slots=True)
class Rounds:
    ground: Ground
    host: HostName
    machines: Machines
    looks: Looks
    count: int = 0  # that are over and told
    _poked: asyncio.Event = field(default_factory=asyncio.Event)

    def poke(self) -> None:
        """Look again what is to be done."""
        self._poked.set()

    async def run(self) -> None:
        """For ever."""
        while True:
            now = time.monotonic()
            entries = self.machines.entries.values()
            ready = [each for each in entries if each.due <= now and not each.busy]
            for entry in ready:
                pause = self._pause(entry)
                entry.busy, entry.began = True, now
                entry.due = (entry.due if now - entry.due < pause / 2 else now) + pause
            if ready:
                self.looks.spawn("round", partial(self._round, ready))
            waits = (entry.due for entry in entries if not entry.busy)
            soonest = min(waits, default=now + 60)
            self._poked.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(soonest - time.monotonic(), 0.01)):
                    await self._poked.wait()

    def _pause(self, entry: Entry) -> float:
        doubt = entry.watch.state.standing is WatchStanding.SUSPECT or self.machines.sight is Sight.DOUBTFUL
        pace = pace_of(entry.every, failures=entry.watch.plan.failures, doubt=doubt)
        return max(pace, FASTEST / 2)

    async def _round(self, entries: list[Entry]) -> None:
        """Never begun for a service whose last one is not over."""
        try:
            asked = self.ground.clock.now()
            within = patience_of(min(entry.every for entry in entries))
            end = time.monotonic() + within
            seen = await see((link for each in entries for link in each.links.values()), within=within)
            error = seen.errors.get(self.host)
            if error is None:
                await self.machines.tell_host(HostChecked(None))
                told = (
                    self._ask_and_tell(entry, seen, asked, end, alone=len(entries) == 1) for entry in entries
                )
                await asyncio.gather(*told)
            else:
                await self._tell_unseen(entries, seen, asked, end, error)
            self.count += 1
        except StoreUnavailable as error:
            log.warning("round_not_told", host=self.host, error=str(error))
        finally:
            for entry in entries:
                entry.busy = False
                # Doubt that this round brought makes the next one come sooner.
                entry.due = min(entry.due, entry.began + self._pause(entry))
            self.poke()

    async def _ask_and_tell(
        self, entry: Entry, seen: Seen, asked: datetime, end: float, *, alone: bool
    ) -> None:
        if not alone:
            await asyncio.sleep(random.uniform(0, min(entry.every * _SPREAD, _SPREAD_MOST)))  # noqa: S311
        answer = await self._ask(entry, seen, end)
        if answer is not None and entry.watch.plan.reach == "direct":
            named = (entry.watch.service,)
            told = DirectAsked(answering=named) if answer.health is not None else DirectAsked(silent=named)
            await self.machines.tell_host(told)
        await self._tell_round(entry, seen, asked, answer, end)

    async def _tell_unseen(
        self, entries: list[Entry], seen: Seen, asked: datetime, end: float, error: str
    ) -> None:
        """SSH tells nothing: what it does instead, and what answers past it, tell whether the host is."""
        answers = await asyncio.gather(*(self._ask(entry, seen, end) for entry in entries))
        pairs = list(zip(entries, answers, strict=True))
        asked_past = [(entry.watch.service, answer) for entry, answer in pairs if answer is not None]
        answering = tuple(service for service, answer in asked_past if answer.health is not None)
        silent = tuple(service for service, answer in asked_past if answer.health is None)
        barred = seen.barred.get(self.host)
        await self.machines.tell_host(HostChecked(error, answering, silent, barred))
        for entry, answer in pairs:
            await self._tell_round(entry, seen, asked, answer, end)

    async def _ask(self, entry: Entry, seen: Seen, end: float) -> ProbeAnswer | None:
        section = self.ground.section(entry.watch.service)
        if section.reach == "ssh" and seen.errors.get(self.host) is not None:
            return None
        runs = tuple(getattr(unit, "invocation", None) for unit in seen.units.values())
        whole = entry.proved != runs or entry.rounds % _WHOLE_EVERY == 0
        entry.rounds += 1
        probe = self.ground.probes[entry.watch.service]
        answer = await ask(probe, whole=whole, within=_left(end), redactor=self.ground.make_redactor())
        if whole:
            good = answer.health == _OK and answer.error is None
            entry.proved = runs if good else ()
        return answer

    async def _tell_round(
        self, entry: Entry, seen: Seen, asked: datetime, answer: ProbeAnswer | None, end: float
    ) -> None:
        inside = None
        failed = answer is not None and answer.health != _OK
        if failed and entry.inside is not None and seen.errors.get(self.host) is None:
            redactor = self.ground.make_redactor()
            inside = await ask(entry.inside, whole=False, within=_left(end), redactor=redactor)
        if entry.is_stale(asked):
            return
        event = Checked(
            probe=answer,
            units={member: seen.units[member] for member in entry.links},
            inside=inside,
            boots={member: boot for member, boot in seen.boots.items() if member in entry.links},
            sight=self.machines.sight,
        )
        await self.machines.tell(entry, event)
        self.looks.begin_due(entry)


def _left(end: float) -> float:
    """Real seconds until then, and one in any case: nothing is judged unasked."""
    return max(end - time.monotonic(), 1.0)

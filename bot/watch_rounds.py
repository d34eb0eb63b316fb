"""The rounds over one host: when each of its services is looked at, what is asked, and who is told of it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from bot.core.events import HostName
from bot.core.monitor_events import Checked, DirectAsked, HostChecked
from bot.core.monitor_state import Sight, WatchStanding
from bot.errors import StoreUnavailable
from bot.ground import Ground
from bot.rounds import Seen, ask, pace_of, patience_of, see
from bot.watch_entries import FASTEST, WHOLE_EVERY
from bot.watch_looks import Looks
from bot.watch_machines import Machines
from bot.watch_times import hasten, take_due

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from bot.core.events import ProbeAnswer, ServiceName
    from bot.sources import Link
    from bot.watch_entries import Entry

log = structlog.get_logger()

_FIRST = 0.5  # at least, of the first pause: hosts that begin together do not go on so
_SPREAD, _SPREAD_MOST = 0.05, 1.0  # of `every`, in real seconds: engines of a host are not asked all at once
_LEAST = 1.0  # real seconds that engines are given in any case: nothing is judged unasked
_OK = 200


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the host. `asked`: when, by the told clock; `end`: until when engines may answer, by ours.

    `far`: what is seen of other hosts, where further members are.
    """

    asked: datetime
    end: float
    seen: Seen
    far: asyncio.Future[Seen]
    alone: bool  # it is for one service only
    least: float  # real seconds that an engine is given, however long its host took to answer

    def error(self, host: HostName) -> str | None:
        return self.seen.errors.get(host)

    @property
    def left(self) -> float:
        """Real seconds for an engine from now on."""
        return max(self.end - time.monotonic(), self.least)


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
        entries = self.machines.entries.values()
        while True:
            now = time.monotonic()
            first = random.uniform(_FIRST, 1)  # noqa: S311 - a jitter
            if ready := take_due(entries, now, pause_of=self._pause, first=first):
                self.looks.spawn("round", partial(self._round, ready))
            waits = (entry.due for entry in entries if not entry.busy)
            soonest = min(waits, default=now + 60)
            self._poked.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(soonest - time.monotonic(), 0.01)):
                    await self._poked.wait()

    def _pause(self, entry: Entry) -> float:
        doubt = entry.watch.state.standing is WatchStanding.SUSPECT or self.machines.sight is Sight.DOUBTFUL
        if not doubt:
            return entry.pace
        pace = pace_of(entry.every, failures=entry.watch.plan.failures, doubt=True)
        return max(pace, FASTEST / 2)

    async def _round(self, entries: list[Entry]) -> None:
        """Never begun for a service whose last one is not over."""
        within = patience_of(min(entry.every for entry in entries))
        links = [link for entry in entries for link in entry.links.values()]
        # What is asked of engines here does not wait for other hosts, which may be gone.
        far = asyncio.ensure_future(see((each for each in links if not self._is_here(each)), within=within))
        try:
            asked, end = self.ground.clock.now(), time.monotonic() + within
            seen = await see((each for each in links if self._is_here(each)), within=within)
            least = within / 2 if seen.errors.get(self.host) is None else _LEAST
            look = Look(asked, end, seen, far, alone=len(entries) == 1, least=least)
            if look.error(self.host) is None:
                await self.machines.tell_host(HostChecked(None))
                parts = [self._ask_and_tell(entry, look) for entry in entries]
            else:
                parts = await self._ask_unseen(entries, look)
            for failure in await asyncio.gather(*parts, return_exceptions=True):
                if failure is not None:
                    raise failure
            self.count += 1
        except StoreUnavailable as error:
            log.warning("round_not_told", host=self.host, error=str(error))
        finally:
            far.cancel()
            for entry in entries:
                entry.busy = False
            hasten(self.machines.entries.values(), pause_of=self._pause)
            self.poke()

    def _is_here(self, link: Link) -> bool:
        return link.host.name == self.host

    async def _ask_and_tell(self, entry: Entry, look: Look) -> None:
        if not look.alone:
            await asyncio.sleep(random.uniform(0, min(entry.every * _SPREAD, _SPREAD_MOST)))  # noqa: S311
        answer = await self._ask(entry, look)
        if answer is not None and entry.watch.plan.reach == "direct":
            await self.machines.tell_host(_past_ssh([(entry, answer)]))
        await self._tell_round(entry, look, answer)

    async def _ask_unseen(self, entries: list[Entry], look: Look) -> list[Coroutine[Any, Any, None]]:
        """SSH tells nothing: what it does instead, and what answers past it, tell whether the host is.

        What is then to be told of each service.
        """
        answers = await asyncio.gather(*(self._ask(entry, look) for entry in entries))
        pairs = list(zip(entries, answers, strict=True))
        past = _past_ssh([(entry, answer) for entry, answer in pairs if answer is not None])
        barred = look.seen.barred.get(self.host)
        muted = self.machines.are_muted(self.ground.clock.now())
        told = HostChecked(
            look.error(self.host), past.answering, past.silent, barred, past.refusing, muted=muted
        )
        await self.machines.tell_host(told)
        return [self._tell_round(entry, look, answer) for entry, answer in pairs]

    async def _ask(self, entry: Entry, look: Look) -> ProbeAnswer | None:
        seen = look.error(self.host) is None
        if entry.watch.plan.reach == "ssh" and not seen:
            return None
        runs = tuple(getattr(look.seen.units.get(member), "invocation", None) for member in entry.links)
        # The whole includes what the host alone can tell.
        whole = seen and (entry.proved != runs or entry.rounds % WHOLE_EVERY == 0)
        entry.rounds += 1
        probe = self.ground.probes[entry.watch.service]
        answer = await ask(probe, whole=whole, within=look.left, redactor=self.ground.make_redactor())
        if whole:
            good = answer.health == _OK and answer.error is None
            entry.proved = runs if good else ()
        return answer

    async def _tell_round(self, entry: Entry, look: Look, answer: ProbeAnswer | None) -> None:
        inside = None
        failed = answer is not None and answer.health != _OK
        if failed and entry.inside is not None and look.error(self.host) is None:
            redactor = self.ground.make_redactor()
            inside = await ask(entry.inside, whole=False, within=look.left, redactor=redactor)
        elsewhere = not all(self._is_here(link) for link in entry.links.values())
        seen = look.seen.joined(await asyncio.shield(look.far)) if elsewhere else look.seen
        event = Checked(
            probe=answer,
            units={member: seen.units[member] for member in entry.links},
            inside=inside,
            boots={member: boot for member, boot in seen.boots.items() if member in entry.links},
            sight=self.machines.sight,
        )
        if await self.machines.tell(entry, event, asked=look.asked):
            self.looks.begin_due(entry)


def _past_ssh(asked: Sequence[tuple[Entry, ProbeAnswer]]) -> DirectAsked:
    """What services that are reached past SSH tell of their host."""
    found: dict[str, list[ServiceName]] = {"answering": [], "silent": [], "refusing": []}
    for entry, answer in asked:
        how = "answering" if answer.health is not None else "refusing" if answer.is_refused else "silent"
        found[how].append(entry.watch.service)
    return DirectAsked(**{how: tuple(services) for how, services in found.items()})

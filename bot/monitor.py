"""Notices what happens between startups: shares the hosts out among the living processes and watches its own.

Each host has a lease, and one process watches all services that belong to it. While several live, each takes
its fair share; a host that nobody has for two lease times anybody takes. A process that reaches none of its
own hosts, while another sees some, leaves them to that one for a while, but for what nobody takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from bot.clients.store_watches import Watches, lease_name
from bot.core.events import HostName, ServiceName
from bot.errors import StoreUnavailable
from bot.ground import Ground
from bot.put_off import PutOff
from bot.watch_elsewhere import Elsewhere
from bot.watch_lines import HostLines
from bot.watch_plans import watched_services
from bot.watch_records import Carry
from bot.watching import Watching

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.clients.leases import Lease
    from bot.core.events import Member, UnitName
    from bot.core.monitor_host import HostWatch

log = structlog.get_logger()

_EVERY = 2.0  # real seconds between looks at who has which host
_SOUND = 60.0  # real seconds after which a watch is held to do its work
_CUT_OFF = 30.0  # real seconds that another process must have seen hosts while we see none
_AWAY = 600.0  # real seconds for which we take no host then
_FORSAKEN = 2  # lease times without a watch, then anybody takes a host
_UNWANTED = 4  # lease times without a watch, then who is away does too


@dataclass(slots=True)
class Monitor:
    """`carry`: carries out what a watch orders, once for each name."""

    ground: Ground
    carry: Carry
    watches: Watches = field(init=False)
    hosts: dict[HostName, list[ServiceName]] = field(init=False)
    watching: dict[HostName, Watching] = field(default_factory=dict)
    _free_since: dict[HostName, float] = field(default_factory=dict)
    _forsaken: dict[HostName, frozenset[str]] = field(default_factory=dict)  # taken so, and who lived then
    _elsewhere: Elsewhere = field(init=False)
    _cut_since: float | None = None
    _away_until: float = 0.0
    _put_off: PutOff = field(default_factory=PutOff)
    _leaving: bool = False

    def __post_init__(self) -> None:
        self.watches = Watches(self.ground.store.link)
        self.hosts = watched_services(self.ground.configuration)
        self._elsewhere = Elsewhere(self.ground, self.watches, self.hosts)
        self.ground.store.leases.subscribe_lost(self._lose)

    async def run(self) -> None:
        """For ever."""
        while True:
            try:
                await self.share_out()
            except StoreUnavailable as error:
                log.warning("hosts_not_shared_out", error=str(error))
            await asyncio.sleep(_EVERY)

    async def share_out(self) -> None:
        """Take what is to be taken, leave what is too much. Raises StoreUnavailable."""
        leases = self.ground.store.leases
        await self._drop_lost()
        living = frozenset(await leases.processes())
        for watching in tuple(self.watching.values()):
            if not leases.holds(watching.lease):  # it is not renewed any more, or Redis does not say so
                await watching.write_anew()
        await self._leave_if_cut_off()
        share = math.ceil(len(self.hosts) / max(len(living), 1))
        away = time.monotonic() < self._away_until
        for host in self.hosts:
            if self._leaving or host in self.watching:
                continue
            if len(self.watching) < share and not away:
                await self._try(host)
            elif await self._is_forsaken(host, _UNWANTED if away else _FORSAKEN):
                self._forsaken[host] = living
                await self._try(host)
        for host in self._surplus(share, living):
            await self._leave(host)

    async def _drop_lost(self) -> None:
        """One that broke is begun anew ever later, unless it lived before; others may have it until then."""
        for host, watching in tuple(self.watching.items()):
            if watching.age >= _SOUND:
                self._put_off.forget(host)
            if not watching.is_lost:
                continue
            del self.watching[host]
            if watching.broken is not None:
                self._defer(host, watching.broken)
                await self._let_go(watching.lease)

    def _defer(self, host: HostName, error: Exception) -> None:
        seconds, news = self._put_off.defer(host), self._put_off.news(host, error)
        self.ground.tallies.put_off["watch"] += 1
        log.error("host_put_off", host=host, seconds=seconds, error=repr(error), exc_info=news)

    async def _let_go(self, lease: Lease) -> None:
        """Renewed for ever, it would keep others from what nobody watches."""
        with contextlib.suppress(StoreUnavailable):
            await self.ground.store.leases.let_go(lease)

    def _surplus(self, share: int, living: frozenset[str]) -> list[HostName]:
        """More than our share. What none of those who live has taken stays, until others live."""
        loose = [host for host in self.watching if self._forsaken.get(host) != living]
        return loose[share:] if len(living) > 1 else []

    async def _is_forsaken(self, host: HostName, times: float) -> bool:
        leases = self.ground.store.leases
        if await leases.is_owned(lease_name(host)):
            self._free_since.pop(host, None)
            return False
        since = self._free_since.setdefault(host, time.monotonic())
        return time.monotonic() - since >= times * leases.seconds

    async def _try(self, host: HostName) -> None:
        """One that cannot be watched, by a fault of ours, holds up no other; it is tried again ever later."""
        if self._put_off.waits(host):
            return
        try:
            await self._take(host)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - logged there
            self._defer(host, error)

    async def _take(self, host: HostName) -> None:
        lease = await self.ground.store.leases.claim(lease_name(host))
        if lease is None:
            return
        self._free_since.pop(host, None)
        watching = Watching(self.ground, self.watches, host, lease, self.carry, neighbours=self._neighbours)
        try:
            await watching.open(self.hosts[host])
        except BaseException:
            await self._let_go(lease)
            raise
        if self._leaving or not self.ground.store.leases.holds(lease):
            await self.ground.store.leases.let_go(lease)
            return
        self.watching[host] = watching
        watching.start()
        for lines in self._lines(watching):
            watching.spawn("lines", lines.follow, vital=True)
        log.info("monitor_watches", host=host, services=len(self.hosts[host]))

    def _neighbours(self) -> Mapping[HostName, HostWatch]:
        """All that is seen, from here and by others: where no host answers, that is told once."""
        return self._elsewhere.beside(self._own())

    def _own(self) -> dict[HostName, HostWatch]:
        return {host: each.host_watch for host, each in self.watching.items() if not each.is_lost}

    async def _leave_if_cut_off(self) -> None:
        """What we do not see others may; what they do not see either they tell of each host."""
        own = self._own()
        await self._elsewhere.look(own)
        if not self._elsewhere.is_reached(own):
            self._cut_since = None
            return
        self._cut_since = self._cut_since or time.monotonic()
        if time.monotonic() - self._cut_since < _CUT_OFF:
            return
        self._cut_since, self._away_until = None, time.monotonic() + _AWAY
        log.warning("hosts_left_to_others", hosts=sorted(own), reason="another process reaches hosts")
        for host in own:
            await self._leave(host)

    def _lines(self, watching: Watching) -> list[HostLines]:
        """One for each host and scope that a member is on."""
        found: dict[tuple[HostName, str], HostLines] = {}
        for service, entry in watching.entries.items():
            for member, link in entry.links.items():
                key = (link.host.name, link.scope)
                if key not in found:
                    redactor = self.ground.make_redactor
                    whose = watching.whose
                    found[key] = HostLines(link.host, link.scope, watching.tell_line, whose, redactor)
                units: dict[UnitName, list[tuple[ServiceName, Member]]] = found[key].units
                units.setdefault(link.unit, []).append((service, member))
        return list(found.values())

    async def _leave(self, host: HostName) -> None:
        watching = self.watching.pop(host)
        await watching.close()
        await self.ground.store.leases.let_go(watching.lease)
        log.info("monitor_leaves", host=host)

    def _lose(self, lease: Lease) -> None:
        for watching in self.watching.values():
            if watching.lease.name == lease.name and watching.lease.number == lease.number:
                watching.lose()

    async def hand_over(self) -> None:
        """Leave all hosts to the next process, in bounded time."""
        self._leaving = True
        watched = tuple(self.watching.values())
        await asyncio.gather(*(each.close() for each in watched))

    def poke(self, host: HostName) -> None:
        """Its watch was told something by a person."""
        if (watching := self.watching.get(host)) is not None:
            watching.poke()

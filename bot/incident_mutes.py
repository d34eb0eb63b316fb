"""What people ask of mutes: said to the watches that keep them, and read back from there.

A host is muted with all that runs on it: its own watch is told, and that of each service with a member there,
so that whoever looks at one of them alone knows. What is muted by its own name beside that stays so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.clients.store_incidents import IncidentStore
from bot.clients.store_watches import Watches
from bot.core.command import Outcome
from bot.core.events import HostName
from bot.core.incident_answers import (
    MutedRow,
    render_host_empty,
    render_host_muted,
    render_host_unmuted,
    render_muted,
    render_unmuted,
)
from bot.core.monitor_events import Muted, Unmuted
from bot.core.monitor_mutes import mutes_of
from bot.ground import Ground
from bot.watch_orders import pack_word
from bot.watch_plans import HOST_STATE, WATCH_STATE, host_of_service, services_on, watched_services

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from bot.core.blocks import Message
    from bot.core.events import ServiceName, UserId
    from bot.core.monitor_state import Mute
    from bot.watch_orders import Said

_MANY = 50  # services: of more, mutes are told of those that are named alone


@dataclass(slots=True)
class Mutes:
    """`poke` hears of each host whose watch was told something."""

    ground: Ground
    poke: Callable[[HostName], None] | None = None
    store: IncidentStore = field(init=False)
    watches: Watches = field(init=False)

    def __post_init__(self) -> None:
        self.store = IncidentStore(self.ground.store.link)
        self.watches = Watches(self.ground.store.link)

    # What is muted.

    async def mute_of(self, service: ServiceName) -> Mute | None:
        """As its watch has it now."""
        return next(iter(await self._mutes_of(service)), None)

    async def _mutes_of(self, service: ServiceName) -> list[Mute]:
        """The longest first: by its own name, and with each host of it."""
        watched = await self.watches.read(host_of_service(self.ground.configuration, service), service)
        with contextlib.suppress(ValueError):
            return self._lasting(mutes_of(WATCH_STATE.validate_json(watched.state)) if watched else [])
        return []

    async def mute_of_host(self, host: HostName) -> Mute | None:
        watched = await self.watches.read(host, None)
        with contextlib.suppress(ValueError):
            mute = HOST_STATE.validate_json(watched.state).mute if watched is not None else None
            return next(iter(self._lasting([mute] if mute is not None else [])), None)
        return None

    def _lasting(self, mutes: Sequence[Mute]) -> list[Mute]:
        return [each for each in mutes if each.until > self.ground.clock.now()]

    async def muted(self, services: Sequence[ServiceName]) -> list[MutedRow]:
        """Of these and their hosts; a host comes for all that is muted with it."""
        if len(services) > _MANY:
            return []
        configuration = self.ground.configuration
        units = [unit for name in services for unit in configuration.services[name].units]
        hosts = dict.fromkeys(HostName(unit.host) for unit in units)
        whole = {host: mute for host in hosts if (mute := await self.mute_of_host(host)) is not None}
        rows = [MutedRow(host, each.until, each.by, each.reason, whole=True) for host, each in whole.items()]
        for name in services:
            alone = [each for each in await self._mutes_of(name) if each.host not in whole]
            rows += [MutedRow(name, each.until, each.by, each.reason) for each in alone[:1]]
        return rows

    # What is done.

    async def mute(
        self, service: ServiceName, lasting: timedelta, *, by: UserId, reason: str, token: str
    ) -> Message:
        until = self.ground.clock.now() + lasting
        await self._say(service, Muted(by, until, reason), name=f"mute:{token}")
        still_open, beside = await self._is_open({service}), await self.mute_of(service)
        longer = beside if beside is not None and beside.host is not None and beside.until > until else None
        return render_muted(
            service, until, still_open=still_open, also_host=self._is_host(service), longer=longer
        )

    async def unmute(self, service: ServiceName, *, by: UserId, token: str) -> tuple[Message, Outcome]:
        mutes = await self._mutes_of(service)
        host = host_of_service(self.ground.configuration, service)
        was = bool(mutes) or await self._is_said(host, service)
        if was:
            await self._say(service, Unmuted(by), name=f"unmute:{token}")
        whole = next((each.host for each in mutes if each.host is not None), None)
        message = render_unmuted(service, was=was, also_host=self._is_host(service), host=whole)
        return message, Outcome.DONE if was else Outcome.NOTHING

    async def mute_host(
        self, host: HostName, lasting: timedelta, *, by: UserId, reason: str, token: str
    ) -> tuple[Message, Outcome]:
        """With all that is watched there."""
        services = services_on(self.ground.configuration, host)
        if not services:
            return render_host_empty(host), Outcome.DECLINED
        until = self.ground.clock.now() + lasting
        await self._say_host(host, Muted(by, until, reason), name=f"mute:{token}")
        for service in services:
            await self._say(service, Muted(by, until, reason, host), name=f"mute:{token}:{service}")
        still_open = await self._is_open({host, *services})
        return render_host_muted(host, services, until, still_open=still_open), Outcome.DONE

    async def unmute_host(self, host: HostName, *, by: UserId, token: str) -> tuple[Message, Outcome]:
        """What is muted by its own name stays so."""
        services = services_on(self.ground.configuration, host)
        mutes = {name: await self._mutes_of(name) for name in services}
        with_it = any(each.host == host for held in mutes.values() for each in held)
        was = with_it or await self.mute_of_host(host) is not None or await self._is_said(host, None)
        if was:
            await self._say_host(host, Unmuted(by), name=f"unmute:{token}")
            for service in services:
                await self._say(service, Unmuted(by, host), name=f"unmute:{token}:{service}")
        still = [name for name, held in mutes.items() if any(each.host is None for each in held)]
        return render_host_unmuted(host, was=was, still=still), Outcome.DONE if was else Outcome.NOTHING

    def _is_host(self, service: ServiceName) -> bool:
        return service in self.ground.configuration.hosts

    async def _is_open(self, subjects: set[str]) -> bool:
        return any(each.over is None and each.subject in subjects for each in await self.store.opened())

    async def _say(self, service: ServiceName, event: Said, *, name: str) -> None:
        """To its watch, whichever process has it."""
        host = host_of_service(self.ground.configuration, service)
        await self.watches.say(host, pack_word(event, service=service, name=name))
        if self.poke is not None:
            self.poke(host)

    async def _say_host(self, host: HostName, event: Said, *, name: str) -> None:
        """To its own watch; where only further members are, there is none."""
        if host not in watched_services(self.ground.configuration):
            return
        await self.watches.say(host, pack_word(event, service=None, name=name))
        if self.poke is not None:
            self.poke(host)

    async def _is_said(self, host: HostName, service: ServiceName | None) -> bool:
        """Whether a mute is on its way to the watch."""
        words = await self.watches.words(host)
        return any(word.service == (service or "") and word.kind == Muted.__name__ for word in words)

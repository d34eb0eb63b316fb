"""What somebody who speaks here means, and whether they may: words to a command, by person and place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bot.core.access import (
    ALWAYS_ALLOWED,
    FOR_STARTERS,
    Asking,
    Denied,
    judge,
    named_groups,
    visible_services,
)
from bot.core.command import Command, Word
from bot.core.events import HostName, ServiceName, UserId
from bot.core.grammar import Misunderstood, parse_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handlers.parts import Incident, Parts
    from handlers.turns import Speaker


class Understanding:
    """Asks Redis for what is under way in a thread, Slack for who is in a group; raises as they do."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def parse(self, text: str, speaker: Speaker) -> Command | Misunderstood | Denied:
        """Where nothing may be heard, nothing is said about what is configured either."""
        denied = await self.judge(Word.HELP, None, speaker)
        if denied is not None:
            return denied
        default = self._parts.configuration.default_service
        visible = self.visible(speaker)
        heard = frozenset(visible)
        every = [ServiceName(name) for name in self._parts.configuration.services]
        incident = await self._thread_incident(speaker)
        return parse_command(
            text,
            services=visible,
            elsewhere=[name for name in every if name not in heard],
            default=ServiceName(default) if default is not None else None,
            here=(incident.service if incident else None) or await self._thread_service(speaker),
            incident=incident.incident if incident is not None else None,
            hosts=self._hosts(visible),
            host=incident.host if incident is not None and incident.service is None else None,
        )

    def visible(self, speaker: Speaker) -> tuple[ServiceName, ...]:
        configuration = self._parts.configuration
        if speaker.channel is None:
            return tuple(ServiceName(name) for name in configuration.services)
        return visible_services(configuration, speaker.channel)

    def _hosts(self, services: Sequence[ServiceName]) -> tuple[HostName, ...]:
        sections = [self._parts.configuration.services[name] for name in services]
        return tuple(dict.fromkeys(HostName(unit.host) for section in sections for unit in section.units))

    async def _thread_service(self, speaker: Speaker) -> ServiceName | None:
        if speaker.channel is None or speaker.thread_ts is None:
            return None
        operation = await self._parts.store.operation_at(speaker.channel, speaker.thread_ts)
        record = None if operation is None else await self._parts.store.operation(operation)
        return None if record is None else record.service

    async def _thread_incident(self, speaker: Speaker) -> Incident | None:
        if speaker.channel is None or speaker.thread_ts is None:
            return None
        return await self._parts.incidents.at(speaker.channel, speaker.thread_ts)

    async def judge(
        self, verb: Word, service: ServiceName | None, speaker: Speaker, *, starter: UserId | None = None
    ) -> Denied | None:
        groups = await self.groups(service) if verb not in ALWAYS_ALLOWED else {}
        asking = Asking(speaker.user, speaker.channel, verb, service, groups, starter)
        return judge(self._parts.configuration, asking)

    async def judge_host(self, verb: Word, host: HostName, speaker: Speaker) -> Denied | None:
        """Who may do it to each service that has a member there, and may name it here."""
        sections = self._parts.configuration.services
        there = [
            name for name, section in sections.items() if any(unit.host == host for unit in section.units)
        ]
        for name in there:
            if (denied := await self.judge(verb, ServiceName(name), speaker)) is not None:
                return denied
        return None if there else await self.judge(verb, None, speaker)

    async def groups(self, service: ServiceName | None) -> Mapping[str, frozenset[UserId]]:
        names = named_groups(self._parts.configuration, service)
        members = await asyncio.gather(*(self._parts.directory.members(name) for name in names))
        return dict(zip(names, members, strict=True))

    async def starter(self, command: Command) -> UserId | None:
        if command.verb not in FOR_STARTERS or command.service is None:
            return None
        held = await self._parts.store.holder(command.service)
        if held is not None or command.verb is Word.UNWATCH:
            return None if held is None else held.by
        newest = await self._parts.store.past(command.service, 1)
        return newest[0].by if newest else None

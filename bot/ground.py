"""What every startup stands on: the parts of the process, handed down once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.clients.directory import People
from bot.clients.probe import Probe
from bot.clients.slack import Outbox
from bot.clients.ssh import Host
from bot.clients.store import Store
from bot.clock import Clock
from bot.core.events import ChannelId, HostName, Member, ServiceName, UnitName
from bot.core.redact import Redactor
from bot.sources import Link
from bot.tallies import Tallies
from bot.tasks import Tasks
from config.engine_file import EngineFile
from config.services import Configuration

if TYPE_CHECKING:
    from config.services import ServiceSection


@dataclass(frozen=True, slots=True)
class Ground:
    configuration: Configuration
    clock: Clock
    tasks: Tasks
    store: Store
    outbox: Outbox
    hosts: Mapping[HostName, Host]
    probes: Mapping[ServiceName, Probe]
    engines: Mapping[ServiceName, EngineFile]
    make_redactor: Callable[[], Redactor]  # one per stream: it remembers an open PEM block
    tallies: Tallies = field(default_factory=Tallies)
    people: People | None = None  # what they are called; without it, by their ids

    def section(self, service: ServiceName) -> ServiceSection:
        return self.configuration.services[service]

    def channel(self, service: ServiceName) -> ChannelId:
        return ChannelId(self.configuration.channel_of(service))

    def links(self, service: ServiceName) -> dict[Member, Link]:
        """Fresh links to the members of `service`, in the order they are configured."""
        section = self.section(service)
        links = [
            Link(
                member=Member(f"{unit.host}/{unit.unit}"),
                unit=UnitName(unit.unit),
                scope=section.scope,
                log_file=section.log_file,
                host=self.hosts[HostName(unit.host)],
            )
            for unit in section.units
        ]
        return {link.member: link for link in links}

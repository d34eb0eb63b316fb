"""Incidents of which nothing is left but their thread in Slack: found by their roots' tags, written anew.

Theory. As with operations (see `recovery`): a process that lives has its incidents in memory and writes them
down again by itself. What Slack shows as open and Redis does not know had a process that died too. After the
time of a lease, in which whoever lives comes for what is theirs, the lease on the incident decides who takes
it up. A mark in Redis tells all processes, and those that start later, that this was done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import structlog

from bot.clients.records import Address
from bot.clients.slack_history import Archive, FoundRoot, Standing
from bot.clients.store_incidents import IncidentRecord, IncidentStore
from bot.core.events import ChannelId, ServiceName
from bot.core.incident_remains import is_open, read_plan, read_state
from bot.core.incident_state import Ending, IncidentId, IncidentPlan
from bot.ground import Ground
from bot.incident_ledger import PLAN, STATE
from bot.incident_messages import read_ending
from bot.watch_plans import make_host_plan, watched_services

if TYPE_CHECKING:
    from bot.clients.leases import Lease

log = structlog.get_logger()

LOOK_BACK = timedelta(days=7)  # how old the root may be of an incident that is still open


@dataclass(frozen=True, slots=True)
class Remains:
    """Every method raises StoreUnavailable and one of the SlackErrors."""

    ground: Ground
    store: IncidentStore
    archive: Archive

    async def lost(self) -> list[FoundRoot]:
        """Roots of open incidents that Redis knows nothing of, oldest first."""
        oldest = datetime.now(UTC) - LOOK_BACK
        roots = await self.archive.readable_roots(self._channels(), oldest=oldest)
        opened = [root for root in roots if is_open(root.tags) and root.id == f"{root.operation}:root"]
        return [root for root in opened if await self.store.read(IncidentId(root.operation)) is None]

    def _channels(self) -> list[ChannelId]:
        configuration = self.ground.configuration
        own = ChannelId(configuration.slack.channel)
        return list(dict.fromkeys([own, *map(self.ground.channel, self.ground.engines)]))

    async def write_anew(self, root: FoundRoot, lease: Lease) -> None:
        """Its record, as far as it is still known. Raises OwnershipLost too."""
        address = Address(channel=root.channel, ts=root.ts)
        standing = await self.archive.read(address)
        address = address.model_copy(update={"present": standing.present})
        plan = self._plan(root)
        ending, ended = _ended(standing)
        numbered = _numbered(standing)
        state = read_state(plan, root.tags, root.body, sequence=numbered, ended=ended, ending=ending)
        record = IncidentRecord(
            incident=plan.incident,
            subject=plan.subject,
            service=plan.service,
            host=plan.host,
            channel=root.channel,
            opened=plan.opened,
            plan=PLAN.dump_json(plan).decode(),
            state=STATE.dump_json(state).decode(),
            severity=str(plan.severity),
            headline=plan.signs[0].sentence,
            over=state.over,
        )
        await self.store.rebuild(record, lease=lease, address=address, known=standing.ids)
        log.info("incident_found", incident=plan.incident, subject=plan.subject, over=state.over is not None)

    def _plan(self, root: FoundRoot) -> IncidentPlan:
        """With what the configuration says now."""
        posted, now = datetime.fromtimestamp(float(root.ts), UTC), self.ground.clock.now()
        plan = read_plan(root.tags, root.body, posted=posted, now=now)
        services = self.ground.configuration.services
        if plan.service is None:
            return self._of_host(plan)
        if plan.service not in services:
            return plan
        monitor = services[plan.service].monitor
        members = tuple(self.ground.links(ServiceName(plan.service)))
        return replace(
            plan, members=members, escalate_after=monitor.escalate_after, group=monitor.escalate_to
        )

    def _of_host(self, plan: IncidentPlan) -> IncidentPlan:
        there = tuple(watched_services(self.ground.configuration).get(plan.host, ()))
        if not there:
            return plan
        host = make_host_plan(self.ground, plan.host, there)
        return replace(plan, affected=there, escalate_after=host.escalate_after, group=host.group)


def _numbered(standing: Standing) -> int:
    """The highest number of a reply that Slack has."""
    names = [name.rpartition(":")[2] for name in standing.ids]
    return max((int(name) for name in names if name.isdecimal()), default=0)


def _ended(standing: Standing) -> tuple[Ending, datetime | None]:
    """How and when the thread was told its end, where the root does not show it yet."""
    tag, ts = standing.course[-1] if standing.course else ("", "0")
    ending = read_ending(tag)
    return ending or Ending.RECOVERED, None if ending is None else datetime.fromtimestamp(float(ts), UTC)

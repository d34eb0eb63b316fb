"""What watches order of incidents: opened here, told wherever they are carried."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from bot.clients.store_incidents import IncidentRecord
from bot.core.events import ChannelId
from bot.core.incident import Incident
from bot.deliveries import owed_of
from bot.errors import OwnershipLost, StoreUnavailable
from bot.incident_carrying import IncidentCarrying
from bot.incident_ledger import PLAN, STATE
from bot.incident_messages import incident_root
from bot.watch_orders import pack_fact

if TYPE_CHECKING:
    from bot.clients.leases import Lease
    from bot.core.incident_events import IncidentEvent
    from bot.core.incident_state import IncidentId, IncidentPlan
    from bot.incident_running import IncidentRunning

log = structlog.get_logger()


@dataclass(slots=True)
class Incidents(IncidentCarrying):
    """Every method that speaks to Redis raises StoreUnavailable."""

    # What begins.

    async def open(self, plan: IncidentPlan) -> None:
        """Once, whichever process does it, and however often.

        It is on record then. Where another process may be writing it, StoreUnavailable asks to look again.
        """
        identity = plan.incident
        if self._leaving:
            raise StoreUnavailable("kimi is being stopped; the next process opens it")
        if await self.store.read(identity) is not None:
            return
        if identity in self._owned:
            raise StoreUnavailable(f"{identity} is just being looked at")
        self._owned.add(identity)
        carried = False
        try:
            lease = await self.ground.store.leases.claim(identity)
            if lease is None:  # of one that died amid this, or that looks whether somebody did
                raise StoreUnavailable(f"another process has {identity}, and has not written it yet")
            running = self._begin(plan, lease)
            view = running.incident.view(self.ground.clock.now())
            root = incident_root(view, channel=running.ledger.record.channel)
            if await self.store.create(running.ledger.record, [root], lease=lease):
                running.ledger.sent.note([root], {})
                self.ground.outbox.wake()
                self._carry(running)
                carried = True
                log.info("incident_opened", incident=identity, subject=plan.subject, severity=plan.severity)
        except OwnershipLost as error:
            raise StoreUnavailable(str(error)) from error
        finally:
            if not carried:
                self._owned.discard(identity)

    def _begin(self, plan: IncidentPlan, lease: Lease) -> IncidentRunning:
        incident = Incident(plan, self._engine(plan.service))
        begun = incident.begin(self.ground.clock.now())
        record = IncidentRecord(
            incident=plan.incident,
            subject=plan.subject,
            service=plan.service,
            host=plan.host,
            channel=self._channel(plan),
            opened=plan.opened,
            plan=PLAN.dump_json(plan).decode(),
            state=STATE.dump_json(incident.state).decode(),
            severity=str(plan.severity),
            headline=plan.signs[0].brief if plan.signs else "",
            owed=owed_of(begun) if self.webhook is not None else (),
        )
        return self._running(record, incident, lease, begun=begun)

    def _channel(self, plan: IncidentPlan) -> ChannelId:
        configuration = self.ground.configuration
        if plan.service is not None and plan.service in configuration.services:
            return self.ground.channel(plan.service)
        return ChannelId(configuration.slack.channel)

    # What happens, and what people ask.

    async def tell(self, incident: IncidentId, event: IncidentEvent, *, name: str) -> bool:
        """For whichever process has it, once for each `name`; False when it is closed or unknown.

        StoreUnavailable also where Redis came back empty and it is not written down again yet.
        """
        if await self.store.tell(incident, pack_fact(event, name=name)):
            return True
        if self.archive is not None and not await self.store.is_rebuilt():
            raise StoreUnavailable("Redis came back empty, and open incidents are not written down again yet")
        return False

    async def opened(self) -> list[IncidentRecord]:
        """Those that are not closed, oldest first."""
        return await self.store.opened()

    def prune_soon(self) -> None:
        """What the schedule calls."""
        self.ground.tasks.spawn("prune incidents", self._prune())

    async def _prune(self) -> None:
        with contextlib.suppress(StoreUnavailable):
            await self.store.prune(self.ground.clock.now())

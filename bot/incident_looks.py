"""What an incident asks hosts and Redis for: the log of a run, what had changed, the threads of starts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import structlog

from bot.baselines import read_last
from bot.core.account import Changed
from bot.core.changes import compare_all, spell_change
from bot.core.events import OperationId, Verb
from bot.core.incident_events import (
    ChangesSeen,
    IncidentEvent,
    RunLogRead,
    ServiceStart,
    StartFollowed,
    StartsSeen,
)
from bot.core.incident_state import IncidentPlan
from bot.errors import HostError, StoreUnavailable
from bot.ground import Ground
from bot.tails import read_end
from bot.watch_orders import read_fact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.clients.store_incidents import Fact
    from bot.core.events import ServiceName
    from bot.core.incident_actions import ReadRunLog
    from bot.core.incident_state import IncidentState
    from bot.sources import Link

log = structlog.get_logger()

_LINK_WITHIN = 10.0  # real seconds that a start's link is waited for: Slack has to answer twice
_MOST_CHANGES = 20


@dataclass(slots=True)
class Looks:
    """`hear`: takes what hosts have answered."""

    ground: Ground
    plan: IncidentPlan
    hear: Callable[[IncidentEvent], None]
    _awaited: dict[OperationId, float] = field(default_factory=dict)  # since when, monotonic

    async def read_log(self, order: ReadRunLog) -> None:
        """What its host hands over; one that does not is an answer too."""
        service = self.plan.service
        link = self.ground.links(service).get(order.member) if service is not None else None
        if service is None or link is None:
            return
        try:
            lines = await read_end(
                link,
                make_redactor=self.ground.make_redactor,
                invocation=order.invocation,
                lines=order.lines,
            )
        except HostError as error:
            log.info("run_log_not_read", incident=self.plan.incident, error=str(error))
            lines = []
        self.hear(RunLogRead(order.member, order.invocation, tuple(lines)))
        if order.changes:
            with contextlib.suppress(HostError, StoreUnavailable):
                await self._read_changes(order, service, link)

    async def _read_changes(self, order: ReadRunLog, service: ServiceName, link: Link) -> None:
        last = await read_last(self.ground.store, service)
        setup = await link.host.setup(link.unit, scope=link.scope, redactor=self.ground.make_redactor())
        if last is not None:
            changes = compare_all(last.setups, {order.member: setup})
            told = tuple(spell_change(each) for each in changes[:_MOST_CHANGES])
            self.hear(ChangesSeen(Changed(told, len(changes) - len(told), last.at)))

    async def link_start(self, event: StartFollowed) -> StartFollowed | None:
        """With the link to its thread and who asked; None: the link is not known yet, and worth waiting for.

        Raises StoreUnavailable.
        """
        if event.link is not None:
            return event
        address = await self.ground.store.address(event.operation)
        link = address.permalink if address is not None else None
        since = self._awaited.setdefault(event.operation, time.monotonic())
        if link is None and time.monotonic() - since < _LINK_WITHIN:
            return None
        del self._awaited[event.operation]
        record = await self.ground.store.operation(event.operation) if event.by is None else None
        by = (record.by or None) if record is not None else event.by
        return replace(event, link=link, by=by)

    async def read(self, facts: Sequence[Fact]) -> tuple[list[IncidentEvent], list[str]]:
        """Those that can be taken now, in their order, and the ids of all that are done with."""
        events: list[IncidentEvent] = []
        heard: list[str] = []
        for fact in facts:
            try:
                event: IncidentEvent | None = read_fact(fact)
                if isinstance(event, StartFollowed):
                    event = await self.link_start(event)
            except StoreUnavailable:
                break
            except ValueError as error:
                log.error("fact_unknown", incident=self.plan.incident, error=str(error))  # noqa: TRY400 - told
                heard.append(fact.id)
                continue
            if event is None:
                break
            heard.append(fact.id)
            events.append(event)
        return events, heard

    async def starts(self, state: IncidentState) -> list[StartsSeen]:
        """Of a host: starts of its services since it went that nobody was told of; empty also without Redis.

        Whoever began them; each once it has a thread.
        """
        known = {each.operation for each in state.starts}
        found: list[ServiceStart] = []
        with contextlib.suppress(StoreUnavailable):
            for service in state.affected if self.plan.service is None else ():
                start = await self._start_of(service)
                found += [start] if start is not None and start.operation not in known else []
        return [StartsSeen(tuple(found))] if found else []

    async def _start_of(self, service: ServiceName) -> ServiceStart | None:
        holder = await self.ground.store.holder(service)
        if holder is None or holder.verb is Verb.STOP or holder.since < self.plan.began:
            return None
        address = await self.ground.store.address(holder.operation)
        link = address.permalink if address is not None else None
        return ServiceStart(service, holder.operation, link) if link is not None else None

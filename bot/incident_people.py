"""Who did what about an incident, from the audit, and what these people are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from bot.core.incident_export import Deed, People, time_of_deeds
from bot.errors import StoreUnavailable

if TYPE_CHECKING:
    from datetime import datetime

    from bot.clients.records import AuditEntry
    from bot.core.incident_state import IncidentPlan, IncidentState
    from bot.ground import Ground

log = structlog.get_logger()

_MOST = 500  # entries of the audit


def _is_of_its_host(entry: AuditEntry, plan: IncidentPlan) -> bool:
    """What was said of a host while its own incident was open stands in the timeline."""
    return entry.host == plan.host and (plan.service is not None or entry.at < plan.opened)


async def read_people(ground: Ground, plan: IncidentPlan, state: IncidentState, now: datetime) -> People:
    """Raises nothing: a Redis that is away, and a Slack that tells no names, cost just that."""
    since, until = time_of_deeds(plan, state, now)
    services = {plan.service} if plan.service is not None else set(state.affected or plan.affected)
    deeds: tuple[Deed, ...] | None = None
    try:
        entries = await ground.store.audits(_MOST, since=since, until=until)
        deeds = tuple(
            Deed(each.at, each.user, each.verb, each.outcome, each.service, each.reason, each.host)
            for each in entries
            if each.service in services or _is_of_its_host(each, plan)
        )
    except StoreUnavailable as error:
        log.warning("audit_not_read", incident=plan.incident, error=str(error))
    people = {deed.by for deed in deeds or ()} | {entry.by for entry in state.timeline}
    people |= {state.acked_by, state.acked_before, state.ended_by}
    known = sorted(user for user in people if user)
    names = await ground.people.names(known) if ground.people is not None else {}
    return People(deeds, names)

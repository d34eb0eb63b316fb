"""What other tools are told of an incident: plain JSON, one object for each thing that happened."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

from bot.core.incident_state import short_id
from bot.core.incident_view import began_of, cause_of, downtime_of, last_healthy_of, times_of

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import UserId
    from bot.core.incident_actions import Told
    from bot.core.incident_state import IncidentPlan, IncidentState, Sign

VERSION = 1


def make_payload(
    plan: IncidentPlan,
    state: IncidentState,
    *,
    told: Told,
    sentence: str,
    now: datetime,
    by: UserId | None = None,
) -> dict[str, Any]:
    """`id`: the same however often it is sent; `sequence` grows with each of an incident.

    Times are ISO 8601 in UTC, durations seconds.
    """
    return {
        "version": VERSION,
        "id": f"{plan.incident}-{state.sequence}",
        "sequence": state.sequence,
        "event": str(told),
        "at": _iso(now),
        "incident": plan.incident,
        "short_id": short_id(plan.incident),
        "subject": plan.subject,
        "service": plan.service,
        "host": plan.host,
        "severity": str(state.severity),
        "status": "resolved" if state.ending is not None else "open",
        "ending": str(state.ending) if state.ending is not None else None,
        "began": _iso(began_of(plan, state)),
        "opened": _iso(plan.opened),
        "ended": _iso(state.over if state.ending is not None else None),
        "last_healthy": _iso(last_healthy_of(plan, state)),
        "downtime_seconds": round(downtime_of(state, now).total_seconds(), 3),
        "times": times_of(plan, state),
        "attempts": state.attempts,
        "cause": cause_of(state) or None,
        "signs": [_sign(each) for each in state.signs[:8]],
        "affected": list(state.affected or plan.affected),
        "acknowledged_by": state.acked_by,
        "by": by,
        "text": sentence,
    }


def _sign(sign: Sign) -> dict[str, Any]:
    return {"kind": str(sign.kind), "at": _iso(sign.at), "text": sign.brief, "member": sign.member}


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat(timespec="milliseconds")

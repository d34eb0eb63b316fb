"""The present of one incident."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.core.incident_actions import IncidentView
from bot.core.incident_attempts import attempts_now
from bot.core.incident_state import OUT_OF_SIGHT, Severity
from bot.core.incident_words import tell_causes

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import ServiceName, UserId
    from bot.core.incident_state import IncidentPlan, IncidentState, RunRead, StartNote

_NEWEST = 3  # signs beside the first


def view_of(plan: IncidentPlan, state: IncidentState, now: datetime) -> IncidentView:
    # What a host's services come to, their own threads tell.
    start = start_under_way(state) if plan.service is not None else None
    attempts = attempts_now(state)
    return IncidentView(
        incident=plan.incident,
        subject=plan.subject,
        service=plan.service,
        host=plan.host,
        severity=state.severity,
        began=began_of(plan, state),
        now=now,
        signs=(*state.signs[:1], *state.signs[1:][-_NEWEST:]),
        host_answers=plan.host_answers,
        last_healthy=last_healthy_of(plan, state),
        restarts_itself=plan.restarts_itself,
        cause=present_cause(state),
        first_cause=first_cause(state),
        attempts=state.attempts,
        last_attempt=replace(attempts[-1]) if attempts else None,
        start=start.operation if start is not None else None,
        start_link=start.link if start is not None else None,
        affected=_affected(plan, state),
        present=state.present,
        worst=worst_of(plan, state),
        was_hidden=was_hidden(plan, state),
        acked_by=state.acked_by,
        acked_before=state.acked_before,
        started_by=_started_by(state),
        muted=state.muted if state.muted is not None and state.muted > now else None,
        escalated=state.escalated,
        times=times_of(plan, state),
        down_since=state.down_since,
        downtime=downtime_of(state, now),
        ending=state.ending,
        ended=state.over,
        ended_by=state.ended_by,
        ended_why=state.ended_why,
        in_channel=state.in_channel,
    )


def _affected(plan: IncidentPlan, state: IncidentState) -> tuple[ServiceName, ...]:
    if state.hidden is not None and state.ending is None:
        return state.hidden
    return state.affected or plan.affected


def began_of(plan: IncidentPlan, state: IncidentState) -> datetime:
    """What made an outage of it may have been seen before what it was opened for."""
    return min([plan.began, *(sign.at for sign in state.signs)])


def last_healthy_of(plan: IncidentPlan, state: IncidentState) -> datetime | None:
    """The last good check before what is wrong now; None: it is not known, of a time behind the first."""
    if state.last_healthy is not None:
        return state.last_healthy
    return plan.last_healthy if state.times == 1 else None


def worst_of(plan: IncidentPlan, state: IncidentState) -> Severity:
    """Of all times together: what was an outage once is told as that, though it was degraded last."""
    if state.downtime or state.down_since is not None:
        return Severity.HOST if plan.service is None else Severity.DOWN
    return state.severity


def times_of(plan: IncidentPlan, state: IncidentState) -> int:
    """How often it was what `worst_of` says."""
    degraded = worst_of(plan, state) is Severity.DEGRADED
    return state.times if degraded else state.falls or state.times


def was_hidden(plan: IncidentPlan, state: IncidentState) -> bool:
    """Of a host: it never was silent, and only told nothing."""
    signs = state.signs or plan.signs
    return bool(signs) and plan.service is None and all(each.kind in OUT_OF_SIGHT for each in signs)


def start_under_way(state: IncidentState) -> StartNote | None:
    return next((each for each in reversed(state.starts) if each.ended is None), None)


def _started_by(state: IncidentState) -> UserId | None:
    """Who in chat starts it at present; once it is over, who was the last to do so."""
    under_way = start_under_way(state)
    if state.ending is None:
        return under_way.by if under_way is not None else None
    return next((each.by for each in reversed(state.starts) if each.by is not None), None)


def downtime_of(state: IncidentState, now: datetime) -> timedelta:
    under_way = now - state.down_since if state.down_since is not None else timedelta()
    return state.downtime + max(under_way, timedelta())


def cause_of(state: IncidentState) -> str:
    """What the log of the run that broke says, else that of the attempts behind it; "" where none does."""
    read = first_read(state)
    return read.cause if read is not None else ""


def first_read(state: IncidentState) -> RunRead | None:
    """The log that says why it broke; None: none does."""
    reads = [state.read, *(each.read for each in reversed(state.last_attempts))]
    return next((read for read in reads if read is not None and read.is_known), None)


def present_cause(state: IncidentState) -> str:
    """Of what is wrong now: what the newest start died of, else what broke this time; "": nobody knows."""
    read = present_read(state)
    return read.cause if read is not None else ""


def present_read(state: IncidentState) -> RunRead | None:
    """The log that says it."""
    reads = [state.newest, *(each.read for each in attempts_now(state))]
    known = [read for read in reads if read is not None and read.is_known]
    if known:
        return known[-1]
    return first_read(state) if state.times == 1 else None


def first_cause(state: IncidentState) -> str:
    """What broke first, where it is now something else, or nobody knows what."""
    first = cause_of(state)
    return first if first != present_cause(state) else ""


def all_causes(state: IncidentState) -> str:
    return tell_causes(present_cause(state), first_cause(state))


def loading_of(state: IncidentState) -> timedelta:
    """How long startups took that were followed while it was down; what proves one healthy comes later.

    Never longer than the thread of that start says.
    """
    over = state.over if state.ending is not None else None
    loading = timedelta()
    for each in state.starts:
        if each.ended is not None:
            until = each.ended if over is None else min(each.ended, over)
            span = max(until - each.began, timedelta())
            loading += span if each.took is None else min(span, each.took)
    return loading

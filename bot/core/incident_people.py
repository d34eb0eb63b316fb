"""People in an incident: who is on it, how long nobody is, who wants to hear nothing.

Nobody has acknowledged an outage for `escalate_after`: the group is called, once. An acknowledgement holds
for the outage it was given in: what goes down again after it was told to be over needs a new one.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from bot.core.incident_actions import AckTold, EscalationTold, MuteTold
from bot.core.incident_events import Acknowledged, IncidentMuted, IncidentUnmuted
from bot.core.incident_state import EntryKind, Severity

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.incident_state import IncidentState
    from bot.core.incident_turn import IncidentTurn

_SAME = timedelta(minutes=1)  # mutes that end so near to each other are one


def take_word(
    turn: IncidentTurn, event: Acknowledged | IncidentMuted | IncidentUnmuted, now: datetime
) -> None:
    state = turn.state
    match event:
        case Acknowledged():
            if state.acked_by is None:
                state.acked_by, state.acked = event.by, now
                ack = AckTold(event.by, now - (state.worse or turn.plan.opened))
                turn.say(ack, EntryKind.PERSON, now, by=event.by)
        case IncidentMuted():
            told = state.muted is not None and abs(event.until - state.muted) < _SAME
            state.muted = event.until
            if told:  # a button that was pressed twice
                return
            reply = MuteTold(event.by, event.until, event.reason)
            turn.say(reply, EntryKind.PERSON, now, by=event.by)
        case IncidentUnmuted():
            if state.muted is not None:
                state.muted = None
                turn.say(MuteTold(event.by, None), EntryKind.PERSON, now, by=event.by)
        case _:
            assert_never(event)


def call_anew(state: IncidentState, now: datetime) -> None:
    """It went down again: who was on it may be asleep again."""
    state.acked_before = state.acked_by or state.acked_before
    state.worse, state.acked_by, state.acked, state.escalated = now, None, None, None


def check_people(turn: IncidentTurn, now: datetime) -> None:
    """What waits for time."""
    state = turn.state
    if state.muted is not None and now >= state.muted:
        state.muted = None
        turn.say(MuteTold(None, None), EntryKind.PERSON, now)
    _check_escalation(turn, now)


def _check_escalation(turn: IncidentTurn, now: datetime) -> None:
    plan, state = turn.plan, turn.state
    settled = state.escalated is not None or state.acked_by is not None or state.muted is not None
    if plan.escalate_after is None or settled:
        return
    if state.severity is Severity.DEGRADED or state.worse is None or now - state.worse < plan.escalate_after:
        return
    state.escalated = now
    told = EscalationTold(plan.group, now - state.worse)
    turn.say(told, EntryKind.ESCALATED, now, loud=True)

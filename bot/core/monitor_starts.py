"""Startups and stops: those of ours, in whose midst nothing is an outage, and those nobody in chat asked for.

A start that systemd makes by itself is followed in a thread of its own, once in an outage. Those that come
after it belong to the incident, which counts them; only one that lives clearly longer than any before has
got further, and is followed again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from bot.core.actions import Verdict
from bot.core.events import Verb
from bot.core.incident_events import AttemptDied, ServiceStopped, SignSeen, StartFollowed, StartOver
from bot.core.incident_state import How, Severity, Sign, SignKind
from bot.core.monitor_events import WatchStart
from bot.core.monitor_outage import fall, recover, settle_stopped, tell
from bot.core.monitor_state import Follow, Under, WatchStanding
from bot.core.words import spell_duration

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import Member, OperationId
    from bot.core.monitor_events import OperationEnded, OperationUnderWay
    from bot.core.monitor_turn import WatchTurn
    from bot.core.monitor_units import RunBegan, RunDied

FORGOTTEN = timedelta(seconds=60)  # an operation that no check finds for so long is over
FOLLOWED_SOON = timedelta(minutes=2)  # by then an operation has answered to what was ordered, or none will
_FURTHER = 1.5
_FURTHER_BY = timedelta(seconds=30)


# ---- runs ------------------------------------------------------------------------------------------------


def take_began(turn: WatchTurn, fact: RunBegan, now: datetime) -> None:
    state = turn.state
    if fact.how is None:
        return
    if fact.died is not None:
        _take_end(turn, fact.died, fact.member, now)
    state.stopped, state.stopped_how = None, ""
    if state.untold is not None and state.untold.member == fact.member:
        state.untold = None
    state.goods, state.good_since, state.fails, state.smoke_fails, state.slow = 0, None, 0, 0, 0
    if state.operation is not None:
        return
    if state.standing is not WatchStanding.DOWN:
        turn.stand(WatchStanding.STARTING, now)
        state.signs = []
    if _is_followed(turn, fact.how, now):
        _follow(turn, fact.member, fact.how, now)


def _is_followed(turn: WatchTurn, how: How, now: datetime) -> bool:
    state = turn.state
    if turn.is_muted(now):
        return False
    if state.follow is not None and now - state.follow.asked < FOLLOWED_SOON:
        return False  # another member of the same start
    if how is How.SYSTEMD:
        return state.severity is Severity.DOWN and state.followed == 0
    return True


def _follow(turn: WatchTurn, name: Member, how: How, now: datetime) -> None:
    state, member = turn.state, turn.state.members[name]
    if member.invocation is None:
        return
    state.follow = Follow(member.invocation, how, now)
    state.followed += how is How.SYSTEMD
    incident = state.incident if state.severity is not None else None
    turn.order(
        WatchStart(turn.plan.service, name, member.invocation, how, member.restarts, incident=incident)
    )


def follow_further(turn: WatchTurn, now: datetime) -> None:
    """A start in a crash loop that lives longer than those before it."""
    state = turn.state
    if state.operation is not None or state.standing is not WatchStanding.DOWN or state.followed == 0:
        return
    if state.severity is not Severity.DOWN or turn.is_muted(now) or not state.longest or state.goods:
        return
    for name, member in state.members.items():
        alive = member.by_itself and member.died != member.invocation and member.since is not None
        asked = state.follow is not None and state.follow.invocation == member.invocation
        if not alive or asked or member.since is None:
            continue
        if now - member.since >= state.longest * _FURTHER + _FURTHER_BY:
            _follow(turn, name, How.SYSTEMD, now)
            return


def take_died(turn: WatchTurn, fact: RunDied, now: datetime) -> None:
    if turn.state.operation is not None:
        turn.state.untold = fact.sign
        return  # its own thread tells it
    _take_end(turn, fact.sign, fact.member, now)


def _take_end(turn: WatchTurn, sign: Sign, name: Member, now: datetime) -> None:
    state = turn.state
    if state.operation is not None:
        return
    if state.standing is not WatchStanding.DOWN or state.severity is not Severity.DOWN:
        fall(turn, sign, now)
        return
    member, since = state.members[name], state.since
    began, run = member.since, member.invocation
    if not member.by_itself or began is None or run is None or since is None or began < since:
        tell(turn, SignSeen(sign))
    elif sign.kind is not SignKind.FATAL:  # what an attempt's log says is read once it has died
        lasted = now - began
        state.longest = max(state.longest, lasted)
        tell(turn, AttemptDied(name, run, max(member.restarts, 1), lasted))


# ---- operations of ours ----------------------------------------------------------------------------------


def take_operation(turn: WatchTurn, event: OperationUnderWay, now: datetime) -> None:
    state = turn.state
    if state.operation is not None and state.operation.operation == event.operation:
        return
    asked = event.by is not None
    how = state.follow.how if state.follow is not None and not asked else None
    state.operation, state.untold = Under(event.operation, event.verb, asked, now, how), None
    state.follow, state.fails, state.goods, state.good_since, state.stopped = None, 0, 0, None, None
    if state.severity is not None:
        tell(turn, StartFollowed(event.operation, event.verb, event.by, how, event.link))
    elif event.verb is not Verb.STOP and state.standing is not WatchStanding.DOWN:
        turn.stand(WatchStanding.STARTING, now)
        state.signs = []


def take_verdict(turn: WatchTurn, event: OperationEnded, now: datetime) -> None:
    state, under = turn.state, turn.state.operation
    if under is not None and under.operation != event.operation:
        return  # another one has taken its place
    asked = under.asked if under is not None else event.by is not None
    how = under.how if under is not None else None
    good_since = state.good_since or now
    state.operation, state.follow = None, None
    state.goods, state.good_since, state.fails, state.smoke_fails = 0, None, 0, 0
    if state.severity is not None and event.verb is not Verb.STOP:
        tell(turn, StartOver(event.operation, event.verdict, event.took, event.cause))
    match event.verdict:
        case Verdict.HEALTHY:
            state.last_healthy = now
            recover(turn, good_since, now)
        case Verdict.STOPPED:
            if state.severity is not None:
                tell(turn, ServiceStopped(now, "it was stopped in chat"))
            settle_stopped(turn, now)
        case Verdict.FAILED if event.verb is not Verb.STOP:
            _take_failed(turn, event, now, asked=asked, how=how)
        case _:
            _look_anew(turn, now)
    state.untold = None


def _take_failed(
    turn: WatchTurn, event: OperationEnded, now: datetime, *, asked: bool, how: How | None
) -> None:
    """Who asked for it in chat has read it there; a start nobody asked for is an outage if it served.

    What had an incident already, being degraded, is told to be down in that.
    """
    state = turn.state
    if state.severity is Severity.DOWN:
        turn.stand(WatchStanding.DOWN, now)
        if how is How.SYSTEMD:
            state.longest = max(state.longest, event.took)
        return
    if asked and state.severity is None:
        state.waived = True
    fall(turn, Sign(SignKind.START, now, event.cause or "the startup came to nothing"), now)


def check_limit(turn: WatchTurn, now: datetime) -> None:
    """A start that nobody follows and that never comes to serve."""
    state = turn.state
    if state.standing is not WatchStanding.STARTING or state.operation is not None or state.since is None:
        return
    if now - state.since >= turn.plan.give_up_after:
        told = f"it was started and does not serve after {spell_duration(now - state.since)}"
        fall(turn, Sign(SignKind.START, state.since, told), now)


def _look_anew(turn: WatchTurn, now: datetime) -> None:
    """Nobody says how it stands: the next checks do, but for an end that was seen and that nobody tells."""
    state = turn.state
    if (sign := state.untold) is not None:
        state.untold = None
        _take_end(turn, sign, sign.member or turn.plan.members[0], now)
        return
    if state.standing in {WatchStanding.STARTING, WatchStanding.SUSPECT, WatchStanding.SERVING}:
        turn.stand(WatchStanding.STARTING, now)


def reconcile(turn: WatchTurn, found: OperationId | None, now: datetime) -> None:
    """What Redis says of operations, where the word about a beginning or an end has not come."""
    under = turn.state.operation
    if under is None:
        return
    if found == under.operation:
        under.missed = None
    elif under.missed is None:
        under.missed = now
    elif now - under.missed >= FORGOTTEN:
        turn.state.operation = None
        if turn.state.severity is not None and under.verb is not Verb.STOP:
            tell(turn, StartOver(under.operation, Verdict.UNWATCHED, under.missed - under.since))
        _look_anew(turn, now)

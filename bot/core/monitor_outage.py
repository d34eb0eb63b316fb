"""When a service is down and when it serves again: what opens an incident, goes into it, and ends it.

There is one open incident at most. What is degraded and then goes down stays the same one; so does what goes
down again within half an hour. An outage of which somebody knows already (a start asked for in chat that
failed, an incident closed by hand) is waived: nothing is opened until the service has served again.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from bot.core.incident_events import (
    DownAgain,
    Recovered,
    ServiceStopped,
    SignSeen,
    StartFollowed,
    Worsened,
)
from bot.core.incident_state import FLAP_WINDOW, IncidentPlan, Severity, Sign, SignKind, incident_of
from bot.core.monitor_closed import Means, meaning_of
from bot.core.monitor_events import OpenIncident, TellIncident, TellStopped
from bot.core.monitor_state import Sight, WatchStanding

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import ProbeAnswer
    from bot.core.incident_events import IncidentEvent
    from bot.core.monitor_events import IncidentClosed, IncidentFound
    from bot.core.monitor_turn import WatchTurn

OK = 200
STOPPED_WAIT = timedelta(seconds=30)  # a restart passes through it, and so does a host that goes down
STEADY = timedelta(minutes=2)  # for each time before that it went down, it must serve so much longer
STEADY_MOST = timedelta(minutes=10)
_MOST_SIGNS = 8
_STARTS_AGAIN = frozenset({"always", "on-failure", "on-abnormal", "on-abort", "on-success", "on-watchdog"})


# ---- what the probe says ---------------------------------------------------------------------------------


def doubt_of(turn: WatchTurn, answer: ProbeAnswer | None) -> str | None:
    """Why this is not the answer of a service that serves; None: it is."""
    if answer is None:
        return "nothing answered"
    if answer.health is None:
        return f"/health: {answer.error or 'no answer'}"
    if answer.health != OK:
        return f"/health answers {answer.health}"
    if answer.listener is False:
        return "another process answers on the port"
    model = turn.plan.model
    if model is not None and answer.models is not None and model not in answer.models:
        return f"it serves {', '.join(answer.models) or 'no model'}, where {model} was expected"
    return None


# ---- down ------------------------------------------------------------------------------------------------


def suspect(turn: WatchTurn, doubt: str, sight: Sight, now: datetime) -> None:
    """One more check that failed; enough of them in a row are an outage."""
    state = turn.state
    state.fails += 1
    sign = Sign(SignKind.PROBE, now, doubt)
    if not state.signs or state.signs[-1].sentence != doubt:
        _add(turn, sign)
    turn.stand(WatchStanding.SUSPECT, now)
    if sight is Sight.GONE:
        state.fails = 0  # it went with its host, which may answer again before its services do
        return
    # With SSH in doubt too, it may be the whole host: its own watch decides, within the same time.
    if state.fails >= turn.plan.failures and sight in {Sight.SEEN, Sight.HALF}:
        state.signs[0] = replace(state.signs[0], sentence=_say_times(state.signs, state.fails))
        fall(turn, None, now)


def _say_times(signs: list[Sign], fails: int) -> str:
    """Of checks that failed each in another way the first is told, and that others failed behind it."""
    first = signs[0].sentence
    if fails == 1:
        return first
    return (
        f"{first}, {fails} times in a row" if len(signs) == 1 else f"{first}, the first of {fails} failures"
    )


def fall(turn: WatchTurn, sign: Sign | None, now: datetime, *, severity: Severity = Severity.DOWN) -> None:
    """It is down. `sign`: what proves it at once; what was suspected before stands beside it."""
    state = turn.state
    if sign is not None:
        _add(turn, sign)
    turn.stand(WatchStanding.DOWN, now)
    state.goods, state.good_since, state.stopped = 0, None, None
    if not state.served:
        state.waived = True
    open_if_due(turn, now, severity=severity)


def _add(turn: WatchTurn, sign: Sign) -> None:
    """The first ones tell what broke first; of those behind them the newest are kept."""
    signs = turn.state.signs
    if len(signs) >= _MOST_SIGNS:
        del signs[_MOST_SIGNS // 2]
    signs.append(sign)


def open_if_due(turn: WatchTurn, now: datetime, *, severity: Severity = Severity.DOWN) -> None:
    """Open what is to be open, unless somebody knows of it or wants to hear nothing."""
    state = turn.state
    if state.standing is not WatchStanding.DOWN or state.waived or not state.signs:
        return
    if state.severity is Severity.DOWN or turn.is_muted(now):
        return
    first, *rest = state.signs
    if state.severity is Severity.DEGRADED and state.incident is not None:
        tell(turn, Worsened(severity, first, state.last_healthy))
        _tell_signs(turn, rest)
        state.times += 1
    elif _is_again(turn, now) and state.incident is not None:
        tell(turn, DownAgain(first.at, first, severity, state.last_healthy))
        _tell_signs(turn, rest)
        state.times += 1
    else:
        _open(turn, severity, now)
    state.severity, state.recovered, state.told = severity, None, now
    state.followed, state.longest = 0, timedelta()


def _tell_signs(turn: WatchTurn, signs: list[Sign]) -> None:
    for sign in signs:
        tell(turn, SignSeen(sign))


def _is_again(turn: WatchTurn, now: datetime) -> bool:
    recovered = turn.state.recovered
    return recovered is not None and now - recovered <= FLAP_WINDOW


def _open(turn: WatchTurn, severity: Severity, now: datetime) -> None:
    state, plan = turn.state, turn.plan
    members = state.members.values()
    opened = IncidentPlan(
        incident=incident_of(plan.service, now),
        subject=plan.service,
        host=plan.host,
        severity=severity,
        began=min(sign.at for sign in state.signs),
        opened=now,
        signs=tuple(state.signs),
        service=plan.service,
        members=plan.members,
        invocations={
            name: run for name, each in state.members.items() if (run := each.broke or each.invocation)
        },
        last_healthy=state.last_healthy,
        restarts_itself=any(each.policy in _STARTS_AGAIN for each in members),
        host_answers=all(each.unseen is None for each in members),
        escalate_after=plan.escalate_after,
        group=plan.group,
    )
    state.incident, state.times = opened.incident, 1
    turn.order(OpenIncident(opened))


def open_degraded(turn: WatchTurn, sign: Sign, now: datetime) -> None:
    """A thread for what is told and pages nobody; within half an hour the one there was."""
    state = turn.state
    if state.incident is not None and _is_again(turn, now):
        tell(turn, DownAgain(sign.at, sign, Severity.DEGRADED, state.last_healthy))
    else:
        suspected, state.signs = state.signs, [sign]
        _open(turn, Severity.DEGRADED, now)
        state.signs, state.times = suspected, 0
    state.severity, state.recovered, state.told = Severity.DEGRADED, None, now


def take_closed(turn: WatchTurn, event: IncidentClosed) -> None:
    """What somebody knows of is not told again before it was well; what is worse than that is."""
    state = turn.state
    match meaning_of(event, incident=state.incident, severity=state.severity, told=state.told):
        case Means.NOTHING:
            pass
        case Means.ANEW:
            turn.begin_anew()
        case Means.KNOWN:
            state.severity, state.recovered = None, None
            state.waived = state.standing is WatchStanding.DOWN
        case means:
            assert_never(means)


def take_found(turn: WatchTurn, event: IncidentFound, now: datetime) -> None:
    """The incident outlived what the watch remembered: it goes on with that one, and opens no other."""
    state = turn.state
    if state.incident == event.incident and state.severity is not None:
        return
    if state.severity is not None or state.incident == event.incident:  # it served in between
        turn.order(TellIncident(event.incident, Recovered(state.recovered or state.last_healthy or now)))
        return
    if state.standing is WatchStanding.STOPPED:
        turn.order(TellIncident(event.incident, ServiceStopped(state.since or now, "it is stopped")))
        return
    state.incident, state.times, state.served, state.waived = event.incident, event.times, True, False
    if event.severity is Severity.DEGRADED:
        state.severity, state.recovered = Severity.DEGRADED, None
        state.worst.setdefault(SignKind.SLOW, now)  # so that it is over once nothing is seen for a while
    elif state.standing in {WatchStanding.SERVING, WatchStanding.SUSPECT}:
        tell(turn, Recovered(state.good_since or now))
        state.recovered = now
    else:
        state.severity, state.recovered = Severity.DOWN, None
        turn.stand(WatchStanding.DOWN, now)
        if (under := state.operation) is not None:
            tell(turn, StartFollowed(under.operation, under.verb, how=under.how))


def tell(turn: WatchTurn, event: IncidentEvent) -> None:
    if turn.state.incident is not None:
        turn.order(TellIncident(turn.state.incident, event))


# ---- up --------------------------------------------------------------------------------------------------


def serve(turn: WatchTurn, now: datetime) -> None:
    """One good check: all units active under the same run, and the probe is what it should be."""
    state = turn.state
    state.goods += 1
    state.good_since = state.good_since or now
    state.fails, state.stopped = 0, None
    state.last_healthy = now
    if state.standing is not WatchStanding.DOWN:
        state.served, state.signs, state.waived = True, [], False
        if state.standing is not WatchStanding.SERVING:
            _revive(turn)
        turn.stand(WatchStanding.SERVING, now)
        return
    if state.goods < turn.plan.successes or now - state.good_since < _steady(turn):
        return
    recover(turn, state.good_since, now)


def _steady(turn: WatchTurn) -> timedelta:
    """What goes down over and over is not told to be well after every few checks."""
    return min(STEADY * max(turn.state.times - 1, 0), STEADY_MOST)


def recover(turn: WatchTurn, since: datetime, now: datetime) -> None:
    state = turn.state
    if state.severity is not None:
        tell(turn, Recovered(since))
        state.severity, state.recovered = None, now
    state.served, state.waived, state.signs, state.fails = True, False, [], 0
    state.worst.clear()
    _revive(turn)
    turn.stand(WatchStanding.SERVING, now)


def _revive(turn: WatchTurn) -> None:
    """A run that was said to have died and serves all the same can die yet."""
    for member in turn.state.members.values():
        if member.died == member.invocation:
            member.died = None
        member.fatal = member.broke = None


# ---- stopped ---------------------------------------------------------------------------------------------


def note_inactive(turn: WatchTurn, sentence: str, now: datetime) -> None:
    """Every unit is inactive. Told once, if it served, after it has stayed so for a while."""
    state = turn.state
    state.goods, state.good_since = 0, None
    if state.standing is WatchStanding.STOPPED:
        return
    state.stopped = state.stopped or now
    state.stopped_how = sentence or state.stopped_how
    if state.standing is WatchStanding.UNKNOWN:
        settle_stopped(turn, now)
    elif now - state.stopped >= STOPPED_WAIT:
        how = state.stopped_how or "someone or something outside chat stopped it"
        if state.severity is not None:
            tell(turn, ServiceStopped(state.stopped, how))
        elif state.served and not turn.is_muted(now):
            told = TellStopped(turn.plan.service, state.stopped, state.last_healthy, how)
            turn.order(told)
        settle_stopped(turn, now)


def settle_stopped(turn: WatchTurn, now: datetime) -> None:
    """Nobody waits for it: its loss is no outage any more, until it has served again."""
    state = turn.state
    turn.stand(WatchStanding.STOPPED, now)
    state.served, state.stopped, state.stopped_how, state.severity = False, None, "", None
    state.signs, state.fails, state.waived, state.recovered, state.incident = [], 0, False, None, None
    state.worst.clear()

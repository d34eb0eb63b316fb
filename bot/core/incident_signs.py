"""What an incident is shown: signs, how it stands now, the log around the moment, what changed.

The first sign of all tells what broke first and stays so. The one that is `present` tells how it stands: what
went down again, or worse, is not told with what once began it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from bot.core.incident_actions import AffectedTold, AgainTold, ChangesTold, RunTold, SignTold, WorsenedTold
from bot.core.incident_attempts import take_read
from bot.core.incident_events import (
    AffectedSeen,
    ChangesSeen,
    DownAgain,
    PresentSeen,
    RunLogRead,
    SignSeen,
    Worsened,
)
from bot.core.incident_log import read_run
from bot.core.incident_people import call_anew
from bot.core.incident_state import EntryKind, Severity, Sign, SignKind

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.incident_state import RunRead
    from bot.core.incident_turn import IncidentTurn

_MOST_SIGNS = 40
_IN_LOG = frozenset({SignKind.PROCESS, SignKind.LOOP, SignKind.FATAL, SignKind.PROBE, SignKind.SMOKE})


# ---- signs ------------------------------------------------------------------------------------------------


def take_sign(
    turn: IncidentTurn, event: SignSeen | PresentSeen | Worsened | DownAgain, now: datetime
) -> None:
    state, sign = turn.state, event.sign
    match event:
        case PresentSeen():
            state.present, turn.changed = sign, True
        case SignSeen():
            _add(turn, sign)
            if turn.plan.service is None:  # of a host, the newest tells how it stands
                state.present = sign
            if sign.kind is SignKind.NETWORK and state.acked_by is not None:
                call_anew(state, now)  # who is on one host may not know that all are away
            turn.say(SignTold(sign), EntryKind.SIGN, now)
        case Worsened() if state.ending is not None:  # closed by hand in the same moment
            _take_again(turn, DownAgain(sign.at, sign, event.severity, event.last_healthy), now)
        case Worsened():
            _take_worse(turn, event, now)
        case DownAgain():
            _take_again(turn, event, now)
        case _:
            assert_never(event)


def _add(turn: IncidentTurn, sign: Sign) -> None:
    """The first half tells what broke first; of the rest the newest stay."""
    kept = [*turn.state.signs, sign]
    if len(kept) > _MOST_SIGNS:
        del kept[_MOST_SIGNS // 2]
    turn.state.signs = kept


def _take_worse(turn: IncidentTurn, event: Worsened, now: datetime) -> None:
    """Who knew that it was degraded may not know of this."""
    state, sign = turn.state, event.sign
    _add(turn, sign)
    state.severity, state.present, state.down_since = event.severity, sign, sign.at
    state.last_healthy = event.last_healthy or state.last_healthy
    state.falls += 1
    state.newest = None
    call_anew(state, now)
    turn.say(WorsenedTold(sign, event.severity), EntryKind.WORSE, now, loud=True)
    ask(turn, now, again=True)


def _take_again(turn: IncidentTurn, event: DownAgain, now: datetime) -> None:
    state, sign, down = turn.state, event.sign, event.severity is not Severity.DEGRADED
    if state.ending is None:  # its end was never heard of
        if down and state.severity is Severity.DEGRADED:
            _take_worse(turn, Worsened(event.severity, sign, event.last_healthy), now)
        else:
            take_sign(turn, SignSeen(sign), now)
        return
    _add(turn, sign)
    served = max(event.since - state.over, timedelta()) if state.over is not None else None
    state.times += 1
    state.falls += down
    state.newest = None  # what it broke of before is no cause of this
    state.severity, state.present = event.severity, sign
    state.ending, state.recovered, state.over = None, None, None
    state.ended_by, state.ended_why = None, ""
    state.last_healthy = event.last_healthy or state.last_healthy
    state.muted = None  # nothing is told of what is muted
    for start in state.starts:  # of one that is still under way the watch would have told nothing else
        start.ended = start.ended or now
    if down:
        state.down_since = event.since
        call_anew(state, now)
    times = state.falls if down else state.times if not state.falls else 1
    turn.say(AgainTold(sign, times, served, event.severity), EntryKind.AGAIN, now)
    ask(turn, now, again=True)


def take_affected(turn: IncidentTurn, event: AffectedSeen, now: datetime) -> None:
    """Told are those that came to it; the root shows those that cannot be seen now."""
    state = turn.state
    turn.changed = turn.changed or state.hidden != event.services
    state.hidden = event.services
    added = tuple(each for each in event.services if each not in state.affected)
    if added:
        state.affected = (*state.affected, *added)
        turn.say(AffectedTold(added, len(event.services)), EntryKind.SIGN, now)


# ---- the log, and what changed ----------------------------------------------------------------------------


def ask(turn: IncidentTurn, now: datetime, *, again: bool = False) -> None:
    """The log of each run that broke, and what the service ran with; `again`: of the run that is new."""
    plan = turn.plan
    if plan.service is None or not any(sign.kind in _IN_LOG for sign in turn.state.signs):
        return
    for member in plan.members:
        run = None if again else plan.invocations.get(member)
        turn.ask(member, run, now, changes=not again)


def ask_anew(turn: IncidentTurn, now: datetime) -> None:
    """What hosts were asked by a process that is no more, and that nothing has been read of."""
    state = turn.state
    if state.ending is not None or (state.read is not None and state.read_time >= state.times):
        return
    again = state.times > 1 or state.worse not in {None, turn.plan.opened}
    if not again:
        state.asked.clear()
    ask(turn, now, again=again)


def take_log(turn: IncidentTurn, event: RunLogRead, now: datetime) -> None:
    state = turn.state
    read = read_run(event.lines, turn.engine, member=event.member, now=now)
    attempt = next((each for each in state.last_attempts if each.invocation == event.invocation), None)
    if attempt is not None:
        take_read(turn, attempt, read, now)
        return
    told = state.newest is not None and state.newest.is_known and state.read_time == state.times
    if not read.excerpt or told or state.ending is not None:
        return  # another member has told it, or there is nothing to show
    if state.times > 1 and state.read is not None and _shows(read) == _shows(state.read):
        return  # nothing was logged since it was down before: that has been told
    state.read_time, state.newest = state.times, read
    state.read = read if state.read is None or not state.read.is_known else state.read
    turn.say(RunTold(read), EntryKind.LOG, now)


def _shows(read: RunRead) -> tuple[object, ...]:
    return read.cause, read.evidence, read.excerpt


def take_changes(turn: IncidentTurn, event: ChangesSeen, now: datetime) -> None:
    if turn.state.changed is None and event.changed.told:
        turn.state.changed = event.changed
        turn.say(ChangesTold(event.changed), EntryKind.CHANGES, now)

"""Starts during an outage: those followed in threads of their own, and a crash loop's, which are counted.

A loop may make thousands of attempts, so after the first few only those are told that die of something else,
or whose number has doubled; the root message always counts them all.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from bot.core.actions import Verdict
from bot.core.incident_actions import AttemptTold, StartLinked, StartOverTold, StartsTold
from bot.core.incident_events import AttemptDied, StartFollowed, StartOver, StartsSeen
from bot.core.incident_state import Attempt, EntryKind, How, RunRead, StartNote

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.incident_state import IncidentState
    from bot.core.incident_turn import IncidentTurn

READ_WITHIN = timedelta(seconds=15)  # without an answer from the log the attempt is told as it is
_FIRST = 3
_KEPT = 8


def take_start(
    turn: IncidentTurn, event: StartFollowed | StartsSeen | StartOver | AttemptDied, now: datetime
) -> None:
    match event:
        case StartsSeen():
            _take_seen(turn, event, now)
        case StartFollowed():
            _take_followed(turn, event, now)
        case StartOver():
            _take_over(turn, event, now)
        case AttemptDied():
            _take_attempt(turn, event, now)
        case _:
            assert_never(event)


def _take_followed(turn: IncidentTurn, event: StartFollowed, now: datetime) -> None:
    starts = turn.state.starts
    if any(each.operation == event.operation for each in starts):
        return
    starts.append(StartNote(event.operation, now, event.by, event.how, event.link))
    reply = StartLinked(event.verb, event.by, event.how, event.link)
    turn.say(reply, EntryKind.START, now, by=event.by)


def _take_seen(turn: IncidentTurn, event: StartsSeen, now: datetime) -> None:
    """What comes of each its own thread tells."""
    starts = turn.state.starts
    known = {each.operation for each in starts}
    fresh = tuple(each for each in event.starts if each.operation not in known)
    if fresh:
        starts += [StartNote(each.operation, now, link=each.link) for each in fresh]
        turn.say(StartsTold(fresh), EntryKind.START, now)


def _take_over(turn: IncidentTurn, event: StartOver, now: datetime) -> None:
    note = next((each for each in turn.state.starts if each.operation == event.operation), None)
    if note is None or note.ended is not None:
        return
    note.ended, note.verdict, note.took = now, str(event.verdict), event.took
    if event.verdict is Verdict.FAILED and note.how is How.SYSTEMD:
        turn.state.attempts += 1
    told = StartOverTold(event.verdict, event.took, event.cause, note.link)
    turn.say(told, EntryKind.START, now, by=note.by)


def _take_attempt(turn: IncidentTurn, event: AttemptDied, now: datetime) -> None:
    state = turn.state
    if any(each.invocation == event.invocation for each in state.last_attempts):
        return
    state.attempts = max(state.attempts + 1, event.number)
    attempt = Attempt(event.number, event.member, event.invocation, now, event.lasted)
    state.last_attempts = [*state.last_attempts, attempt][-_KEPT:]
    turn.changed = True
    if not turn.ask(event.member, event.invocation, now):
        attempt.told = True


def take_read(turn: IncidentTurn, attempt: Attempt, read: RunRead, now: datetime) -> None:
    """Once it is over, nobody needs to be told how an attempt died; the cause may be known from it."""
    attempt.read = read
    if not attempt.told and turn.state.ending is None:
        _tell(turn, attempt, now)


def check_attempts(turn: IncidentTurn, now: datetime) -> None:
    """Those of which the log has not been read in time."""
    for attempt in turn.state.last_attempts:
        if not attempt.told and now - attempt.ended >= READ_WITHIN:
            _tell(turn, attempt, now)


def _tell(turn: IncidentTurn, attempt: Attempt, now: datetime) -> None:
    attempt.told = True
    same = _same(turn, attempt)
    number = attempt.number
    reply = AttemptTold(replace(attempt), same)
    if number <= _FIRST or number & (number - 1) == 0 or same == 1:
        turn.say(reply, EntryKind.ATTEMPT, now)
    else:
        turn.changed = True


def _same(turn: IncidentTurn, attempt: Attempt) -> int:
    """How many in a row, this one with them, died in the same way."""
    same = 1
    before = [each for each in attempts_now(turn.state) if each.told and each is not attempt]
    for each in reversed(before):
        if _key(each) != _key(attempt):
            break
        same += 1
    return same


def attempts_now(state: IncidentState) -> list[Attempt]:
    """The newest since it last went down: what died the time before says nothing of this one."""
    since = state.worse
    return [each for each in state.last_attempts if since is None or each.ended >= since]


def _key(attempt: Attempt) -> tuple[object, ...]:
    read = attempt.read or RunRead()
    return read.cause, read.phase, read.role

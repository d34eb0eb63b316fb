"""What the facts about one member mean: whose a line is, whether a new start began, whether it ended.

A member is one unit on one host. The InvocationID tells its runs apart: what comes from the run before the
verb counts for stopping only, and the failure of an old run is never the failure of the new one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from bot.core.downfall import Said, note_end, note_state, read_manager, say_end, say_loop
from bot.core.events import InvocationId, LogLine, Member, Origin, UnitState, Verb
from bot.core.startup_state import Downfall, MemberState, Plan, Sent

if TYPE_CHECKING:
    from bot.core.events import UnitObserved

CARRIED_OUT_WITHIN = timedelta(seconds=60)  # a verb shows a new start or a job by then, or it did nothing
BEFORE_JUDGING = timedelta(seconds=3)  # an observation may have been under way when the verb was accepted
PAUSE = timedelta(seconds=2)  # a line after such a pause was just written, not read from a backlog
HELD = timedelta(seconds=10)
_MOST_HELD = 256
_LONGEST_HELD = 16_000  # characters of one line: launch arguments are long, and tell the ranks
_SKEW = timedelta(seconds=5)
_LATE = timedelta(seconds=10)
_READING = timedelta(seconds=15)  # after an old line, for the next one of a backlog to come
_WITHOUT_EFFECT = (Sent.ACCEPTED, Sent.UNANSWERED)  # so far
_NONE = timedelta()
_AGAIN = "it runs again under another InvocationID: something else starts it"
_BAD_LOADS = {
    "not-found": "systemd has no such unit",
    "masked": "the unit is masked: `systemctl unmask` allows it to start",
    "bad-setting": "systemd cannot use the unit file (bad-setting)",
    "error": "systemd cannot read the unit file",
}


class Whose(StrEnum):
    """Which run of the unit a line comes from."""

    OLD = "old"  # the run before the verb
    WATCHED = "watched"
    FIRST = "first"  # a run not seen before: the new start
    OTHER = "other"  # yet another one, though the new start is known


@dataclass(frozen=True, slots=True)
class StartSeen:
    """The member has begun its new start; `again`: what was taken for it before belonged to the old run."""

    at: datetime | None  # the host's clock, where it told
    again: bool = False


@dataclass(frozen=True, slots=True)
class StopSeen:
    at: datetime | None


@dataclass(frozen=True, slots=True)
class StopForced:
    """The old process did not end in time and systemd killed it."""


@dataclass(frozen=True, slots=True)
class StopDone:
    pass


@dataclass(frozen=True, slots=True)
class Fell:
    kind: Downfall
    sentence: str
    ended: bool  # nothing more is to come: systemd has said how it ended


@dataclass(frozen=True, slots=True)
class Hopeless:
    """No start can come of this; there is nothing to wait for."""

    sentence: str


Fact: TypeAlias = StartSeen | StopSeen | StopForced | StopDone | Fell | Hopeless


def whose(plan: Plan, member: MemberState, line: LogLine) -> Whose:
    if line.invocation is None:
        return _whose_by_time(member, line)
    if line.invocation == member.invocation:
        return Whose.WATCHED
    if line.invocation in member.old or plan.verb is Verb.STOP:
        return Whose.OLD
    return Whose.FIRST if member.invocation is None or member.provisional else Whose.OTHER


def _whose_by_time(member: MemberState, line: LogLine) -> Whose:
    """Of a log file and of the kernel: what was written since the watched start began belongs to it."""
    if member.invocation is None:
        return Whose.OLD
    if line.at is not None and member.begun is not None:
        return Whose.OLD if line.at < member.begun else Whose.WATCHED
    return Whose.OLD if member.provisional else Whose.WATCHED


def hold(member: MemberState, line: LogLine) -> None:
    """A log file may be faster than systemd's word that a new start began: its last seconds are kept."""
    if line.at is None or line.invocation is not None or member.invocation is not None:
        return
    recent = (each for each in member.held if each.at is not None and each.at > line.at - HELD)
    reading = line.reading[:_LONGEST_HELD]
    member.held = [*recent, replace(line, text=reading, reading=reading)][-_MOST_HELD:]


def let_go(plan: Plan, member: MemberState) -> list[LogLine]:
    """Those of the held lines that turn out to be of the start that is watched."""
    held, member.held = member.held, []
    return [line for line in held if whose(plan, member, line) is Whose.WATCHED]


def read_old_line(plan: Plan, member: MemberState, line: LogLine) -> list[Fact]:
    """The old run's lines: only how it stops."""
    said = read_manager(line) if line.origin is Origin.MANAGER else None
    stops = plan.verb in {Verb.RESTART, Verb.STOP} and not member.boots  # else it was the shutdown's
    if said is Said.STOPPING and stops:
        return [StopSeen(line.at)]
    if said is Said.FORCED and stops:
        return [StopForced()]
    if said is Said.TOO_OFTEN and plan.verb is not Verb.STOP:
        member.result = "start-limit-hit"
        return [Hopeless(say_end(member, member.unit_name))]
    return []


def read_new_line(member: MemberState, line: LogLine) -> list[Fact]:
    """Systemd's lines about the watched start: how it ended, if it did."""
    said = read_manager(line) if line.origin is Origin.MANAGER else None
    if said is None:
        return []
    note_end(member, said, line)
    if member.provisional:
        return []
    match said:
        case Said.RESTARTING:
            return [Fell(Downfall.LOOPING, say_loop(member.counter), ended=True)]
        case Said.EXITED | Said.NOT_STARTED:
            return [Fell(Downfall.DOWN, say_end(member, member.unit_name), ended=False)]
        case Said.FAILED | Said.DEACTIVATED | Said.STOPPED | Said.TOO_OFTEN:
            return [Fell(Downfall.DOWN, say_end(member, member.unit_name), ended=True)]
        case _:
            return []


def note_other(member: MemberState, line: LogLine) -> None:
    """Of the starts that systemd makes by itself after the watched one only that it gave up matters."""
    if line.origin is Origin.MANAGER and read_manager(line) is Said.TOO_OFTEN:
        member.limited = True


def read_unit(plan: Plan, member: MemberState, event: UnitObserved, now: datetime) -> list[Fact]:
    unit = event.unit
    member.unit, member.unit_at = unit, now
    if unit.load in _BAD_LOADS and unit.active != "active":
        return [Hopeless(_BAD_LOADS[unit.load])]
    if plan.verb is Verb.STOP:
        return _read_stop(member, unit, now)
    _settle_verb(member, unit, now)
    return _read_start(plan, member, unit, now)


def _read_stop(member: MemberState, unit: UnitState, now: datetime) -> list[Fact]:
    if member.sent in {Sent.UNDERWAY, Sent.NOT}:
        return []
    if unit.job is not None:
        member.sent, member.sent_at = Sent.ACCEPTED, now
    if unit.active == "deactivating":
        return [StopSeen(None)]
    if unit.down and unit.job is None and not is_between_restarts(unit):
        member.sent = Sent.SETTLED
        return [StopDone()]
    again = unit.invocation is not None and bool(member.old) and unit.invocation not in member.old
    if again and unit.job is None and _waited(member, BEFORE_JUDGING, now):
        why = "host rebooted: the unit came up again with it" if member.boots else _AGAIN
        return [Hopeless(why)]
    return []


def _settle_verb(member: MemberState, unit: UnitState, now: datetime) -> None:
    """A pending job shows that the verb arrived; a start that outlives the verb is the new one."""
    if member.sent in {Sent.ACCEPTED, Sent.UNANSWERED} and unit.job is not None:
        member.sent, member.sent_at = Sent.ACCEPTED, now
    same = unit.invocation is not None and unit.invocation == member.invocation
    quiet = unit.job is None and unit.active != "deactivating"
    waited = member.sent is Sent.NOT or (
        member.sent is not Sent.UNDERWAY and _waited(member, BEFORE_JUDGING, now)
    )
    if member.provisional and same and quiet and waited:
        member.provisional = False
        member.sent = Sent.NOT if member.sent is Sent.NOT else Sent.SETTLED


def _read_start(plan: Plan, member: MemberState, unit: UnitState, now: datetime) -> list[Fact]:
    if unit.active == "deactivating" and (member.invocation is None or member.provisional):
        if plan.verb is Verb.WATCH and unit.invocation is not None and unit.invocation != member.invocation:
            member.old.append(unit.invocation)
        return [StopSeen(None)]
    if _is_new(plan, member, unit):
        began = take_start(plan, member, unit.invocation, _start_time(plan, unit))
        return [began] if member.provisional else [began, *_judge(member, unit)]
    if member.invocation is None:
        return _judge_unstarted(plan, member, unit, now)
    return [] if member.provisional else _judge(member, unit)


def take_start(
    plan: Plan, member: MemberState, invocation: InvocationId | None, at: datetime | None
) -> StartSeen:
    """From now on this is the start that is watched; what was noted about another one's end is forgotten."""
    again = member.invocation is not None
    if member.invocation is not None:
        member.old.append(member.invocation)
    if invocation in member.old:  # a `start` of a unit that was running already
        member.old.remove(invocation)
    member.invocation, member.begun = invocation, at
    member.killed.clear()
    known = invocation is not None and invocation in plan.follows.values()
    unseen = plan.verb is Verb.WATCH and member.unit is None and not known
    member.provisional = member.sent is Sent.UNDERWAY or unseen
    if member.sent in {Sent.ACCEPTED, Sent.UNANSWERED} and not member.provisional:
        member.sent = Sent.SETTLED
    member.restarts = member.counter = member.exit = member.result = None
    member.stopping = member.limited = False
    member.rebooted = None
    return StartSeen(at, again=again)


def _is_new(plan: Plan, member: MemberState, unit: UnitState) -> bool:
    if unit.invocation is None or unit.invocation == member.invocation:
        return False
    if member.invocation is not None and not member.provisional:
        return False
    if unit.invocation not in member.old:
        return not (plan.verb is Verb.WATCH and unit.down)
    sent = member.sent in {Sent.ACCEPTED, Sent.UNANSWERED}
    return plan.verb is Verb.START and sent and unit.active == "active" and unit.job is None


def _start_time(plan: Plan, unit: UnitState) -> datetime | None:
    """When it became active, unless that is still the time of the run before."""
    since = unit.active_since if unit.active == "active" else None
    if since is not None and plan.verb is not Verb.WATCH and since < plan.began - _SKEW:
        return None
    return since


def _judge_unstarted(plan: Plan, member: MemberState, unit: UnitState, now: datetime) -> list[Fact]:
    """No new start yet: a unit that cannot have one."""
    idle = unit.down and unit.job is None and not is_between_restarts(unit)
    if plan.verb is Verb.WATCH:
        if not idle or unit.invocation in member.old or member.rebooted is not None:
            return []
        return [Hopeless(f"the unit is {unit.active}: there is no startup to follow")]
    sent = member.sent in {Sent.ACCEPTED, Sent.UNANSWERED}
    if idle and sent and unit.result == "start-limit-hit" and _waited(member, BEFORE_JUDGING, now):
        member.result = unit.result
        return [Hopeless(say_end(member, member.unit_name))]
    return []


def _judge(member: MemberState, unit: UnitState) -> list[Fact]:
    """Whether the watched start has ended."""
    if unit.invocation is not None and unit.invocation != member.invocation:
        return [] if unit.invocation in member.old else [_replaced(member, unit)]
    if member.restarts is None:
        member.restarts = unit.restarts
    if is_between_restarts(unit) or unit.restarts > member.restarts:
        note_state(member, unit)
        return [Fell(Downfall.LOOPING, say_loop(member.counter), ended=member.result is not None)]
    if unit.down and unit.job is None:
        note_state(member, unit)
        ended = member.exit is not None or member.result is not None
        return [Fell(Downfall.DOWN, say_end(member, member.unit_name), ended=ended)]
    return []


def _replaced(member: MemberState, unit: UnitState) -> Fell:
    if is_between_restarts(unit) or unit.restarts > (member.restarts or 0):
        member.counter = max(unit.restarts, member.counter or 0)
        return Fell(Downfall.LOOPING, say_loop(member.counter), ended=True)
    return Fell(
        Downfall.REPLACED, "it was started anew outside chat while this start was watched", ended=True
    )


def is_between_restarts(unit: UnitState) -> bool:
    """Crashed and waiting for systemd's next attempt; systemd ≥ 254 names it `…-before-auto-restart` too."""
    return unit.looping or unit.sub.endswith("before-auto-restart")


def not_carried_out(member: MemberState, now: datetime) -> bool:
    """A minute after the verb went out the unit is seen, and neither a start nor a job shows."""
    if member.unit is None or member.lost is not None or member.sent not in _WITHOUT_EFFECT:
        return False
    if member.rebooted is not None:  # that has a minute of its own
        return False
    # Seen then, not only before: a process that was starved of time must look once more before it judges.
    seen = member.unit_at is not None and _waited(member, CARRIED_OUT_WITHIN, member.unit_at)
    return seen and member.unit.job is None and _waited(member, CARRIED_OUT_WITHIN, now)


def learn_offset(plan: Plan, member: MemberState, line: LogLine, now: datetime) -> None:
    """Estimate the difference between our clock and the host's from the arrival of a line.

    A line after a pause was just written, so the difference is skew and latency; the least one seen is best.
    Before such a line, the clocks are believed to agree unless the line shows they cannot: it comes from our
    future, or from before the command.
    """
    paused = member.heard is not None and now - member.heard >= PAUSE
    member.heard = now
    if line.at is None:
        return
    difference = now - line.at
    if paused or difference < _NONE or member.offset is not None:
        member.offset = difference if member.offset is None else min(member.offset, difference)
    elif plan.verb is not Verb.WATCH and line.at < plan.began - _SKEW:
        member.offset = plan.began - line.at
    member.late = difference - (member.offset or _NONE) > _LATE


def reads_on(member: MemberState, now: datetime) -> bool:
    """Whether its log tells of what is past: the phase that it is in may be long over."""
    return member.late and member.heard is not None and now - member.heard < _READING


def _waited(member: MemberState, span: timedelta, now: datetime) -> bool:
    return member.sent_at is not None and now - member.sent_at >= span


def name_member(plan: Plan, member: Member, sentence: str) -> str:
    """The sentence, with the member's name before it where there are several."""
    return sentence if len(plan.members) == 1 else f"{member}: {sentence}"

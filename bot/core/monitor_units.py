"""What a unit's state and systemd's lines mean for the watch: a start, an end, a stop, a boot.

A run is known by its InvocationID, and its end is noticed once, whoever tells it first: a line, the state of
the unit, or the next run. Whatever comes from a run before the present one is old and tells nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias, assert_never

from bot.core.events import InvocationId, Member, UnitState
from bot.core.incident_state import How, Sign, SignKind
from bot.core.monitor_lines import Ailing, Began, Died, Ended, Restarting, Stopping, read_telling, say_death
from bot.core.monitor_state import WatchStanding

if TYPE_CHECKING:
    from bot.core.events import LogLine
    from bot.core.monitor_state import MemberWatch
    from bot.core.monitor_turn import WatchTurn

COMES_UP_WITHIN = timedelta(seconds=60)  # systemd queues what a boot starts before anybody can log in
_REMEMBERED = 8  # runs before the present one
_CODES = {1: "exited", 2: "killed", 3: "dumped"}


@dataclass(frozen=True, slots=True)
class RunBegan:
    """A run that was not there before. `how` None: it may be older than this watch."""

    member: Member
    invocation: InvocationId
    how: How | None
    died: Sign | None = None  # the end of the run before, where nothing else told it


@dataclass(frozen=True, slots=True)
class RunDied:
    member: Member
    invocation: InvocationId | None
    sign: Sign


@dataclass(frozen=True, slots=True)
class RunStopped:
    """It is inactive, and nothing says that it should not be. `sentence`: how it ended, told once."""

    member: Member
    sentence: str


@dataclass(frozen=True, slots=True)
class Ails:
    sign: Sign


UnitFact: TypeAlias = RunBegan | RunDied | RunStopped | Ails


# ---- what `systemctl show` says --------------------------------------------------------------------------


def read_state(
    turn: WatchTurn, name: Member, unit: UnitState, boot: str | None, now: datetime
) -> list[UnitFact]:
    """The facts in the order in which they happened."""
    member = turn.state.members[name]
    facts: list[UnitFact] = []
    rebooted = _note_boot(member, boot, now)
    if unit.invocation is not None and unit.invocation != member.invocation and not _is_old(member, unit):
        facts.append(_begin(turn, name, unit.invocation, rebooted=rebooted, counter=unit.restarts, now=now))
        member.begun = unit.active_since
    elif unit.invocation is None and member.invocation is None and unit.active == "inactive":
        member.idle = True
    member.restarts, member.policy = unit.restarts, unit.restart_policy
    if unit.active == "deactivating" and member.died != member.invocation and not _ended(unit):
        member.stopping = True
    if _is_dead(unit):
        facts.extend(_take_death(turn, name, unit, now))
    elif unit.active == "inactive" and unit.job is None and not unit.sub.startswith("dead-before"):
        facts.extend(_take_inactive(turn, name, unit, now))
    elif unit.active == "active":
        member.booted = None
    return facts


def _note_boot(member: MemberWatch, boot: str | None, now: datetime) -> bool:
    """Whether the host was booted since it was last asked: what ran before is gone with it."""
    if boot is None or boot == member.boot:
        return False
    rebooted, member.boot = member.boot is not None, boot
    if rebooted:
        member.died, member.stopping, member.booted = member.invocation, False, now
    return rebooted


def _is_old(member: MemberWatch, unit: UnitState) -> bool:
    """A state that was asked for before a line told of the present run."""
    return unit.invocation in member.old


def _ended(unit: UnitState) -> bool:
    """The main process is gone already: systemd only clears up behind it."""
    return unit.main_pid == 0 and unit.exec_code != 0


def _is_dead(unit: UnitState) -> bool:
    """`failed`, or about to be started again; the states that newer versions show only in passing too."""
    return unit.active == "failed" or unit.looping or unit.sub.startswith("dead-before-auto-restart")


def _begin(
    turn: WatchTurn, name: Member, invocation: InvocationId, *, rebooted: bool, counter: int, now: datetime
) -> RunBegan:
    member = turn.state.members[name]
    before, first = member.invocation, member.invocation is None and not member.idle
    by_itself = counter > member.restarts
    how = How.BOOT if rebooted or member.booted else How.SYSTEMD if by_itself else How.OUTSIDE
    died = None
    if before is not None and how is How.SYSTEMD and member.died != before and not member.stopping:
        told = turn.said_of(name, "process ended, and systemd has started it again")
        died = Sign(SignKind.PROCESS, now, told, name)
    if before is not None:
        member.old = [*member.old, before][-_REMEMBERED:]
        member.died = before if died is None else member.died
        member.broke = before if died is not None else member.broke
    member.invocation, member.since, member.begun = invocation, now, None
    member.by_itself, member.stopping = how is How.SYSTEMD, False
    member.booted, member.absent, member.scheduled, member.idle = None, False, None, False
    return RunBegan(name, invocation, None if first else how, died)


def _take_death(turn: WatchTurn, name: Member, unit: UnitState, now: datetime) -> list[UnitFact]:
    member = turn.state.members[name]
    member.booted = None
    if member.died is not None and member.died == member.invocation:
        # An engine that was stopped and killed itself stays failed: each look finds it stopped.
        return [RunStopped(name, "")] if member.stopping and not unit.looping else []
    member.died = member.invocation
    exited = f"{_CODES[unit.exec_code]} {unit.exec_status}" if unit.exec_code in _CODES else None
    if member.stopping and not unit.looping:
        return [RunStopped(name, _say_stop(say_death(exited, unit.result)))]
    kind = SignKind.LOOP if unit.result == "start-limit-hit" else SignKind.PROCESS
    told = say_death(None, unit.result) if kind is SignKind.LOOP else _say_best(exited, unit.result)
    evidence = (f"systemd: {unit.active} ({unit.sub}), result {unit.result}",)
    return [RunDied(name, member.invocation, Sign(kind, now, turn.said_of(name, told), name, evidence))]


def _say_best(exited: str | None, result: str) -> str:
    return say_death(None if result in {"oom-kill", "timeout", "watchdog"} else exited, result)


def _take_inactive(turn: WatchTurn, name: Member, unit: UnitState, now: datetime) -> list[UnitFact]:
    member = turn.state.members[name]
    if member.booted is not None:
        if now - member.booted < COMES_UP_WITHIN:
            return []
        member.booted = None
        if turn.state.standing is WatchStanding.STOPPED:
            return [RunStopped(name, "")]  # as it was before the boot
        member.absent = True
        told = turn.said_of(name, "the host was booted anew and the unit did not come up with it")
        evidence = (f"systemd: {unit.active} ({unit.sub})",)
        return [RunDied(name, member.invocation, Sign(SignKind.REBOOT, now, told, name, evidence))]
    if member.absent:
        return []
    if member.died is not None and member.died == member.invocation:
        return [RunStopped(name, "")]
    member.died = member.invocation
    return [RunStopped(name, _say_stop("") if member.stopping else _OF_ITSELF)]


_OF_ITSELF = "its main process ended without an error; nobody was seen to ask systemd for that"


def _say_stop(rest: str) -> str:
    told = "someone or something outside chat asked systemd to stop it"
    return f"{told}; {rest}" if rest else told


# ---- what lines say --------------------------------------------------------------------------------------


def read_line(turn: WatchTurn, name: Member, line: LogLine, now: datetime) -> list[UnitFact]:
    told = read_telling(line, turn.engine)
    if isinstance(told, Began):
        return _take_began(turn, name, line, now)
    if isinstance(told, Ailing):
        return [Ails(Sign(told.kind, now, turn.said_of(name, told.sentence), name, (told.evidence,)))]
    if told is None or not _is_present(turn.state.members[name], line):
        return []
    return _take_end(turn, name, told, now)


def _take_end(
    turn: WatchTurn, name: Member, told: Stopping | Ended | Restarting | Died, now: datetime
) -> list[UnitFact]:
    member = turn.state.members[name]
    match told:
        case Stopping():
            member.stopping = member.died is None or member.died != member.invocation
            return []
        case Ended():
            return []  # the unit's state tells, a round later, whether it stays so
        case Restarting():
            return _take_restarting(turn, name, told, now)
        case Died():
            return _take_died(turn, name, told, now)
        case _:
            assert_never(told)


def _is_present(member: MemberWatch, line: LogLine) -> bool:
    """Of the run that is known to be the present one; a kernel's line and a log file's name none."""
    return line.invocation is None or line.invocation == member.invocation


def _take_began(turn: WatchTurn, name: Member, line: LogLine, now: datetime) -> list[UnitFact]:
    member = turn.state.members[name]
    invocation = line.invocation
    if invocation is None or invocation == member.invocation or invocation in member.old:
        return []
    if member.invocation is None:
        return []  # the unit's state introduces it
    if line.at is not None and member.begun is not None and line.at < member.begun:
        return []  # read late: an old one
    rebooted = line.boot is not None and _note_boot(member, line.boot, now)
    counter = member.restarts if member.scheduled is None else max(member.scheduled, member.restarts + 1)
    fact = _begin(turn, name, invocation, rebooted=rebooted, counter=counter, now=now)
    member.restarts, member.begun = counter, line.at
    return [fact]


def _take_restarting(turn: WatchTurn, name: Member, told: Restarting, now: datetime) -> list[UnitFact]:
    """It is started again after whatever end; one that went in order is told by this alone."""
    member = turn.state.members[name]
    member.scheduled, member.stopping = told.counter, False
    if member.died is not None and member.died == member.invocation:
        return []
    member.died = member.invocation
    sentence = turn.said_of(name, "process ended, and systemd starts it again")
    sign = Sign(SignKind.PROCESS, now, sentence, name, (told.evidence,))
    return [RunDied(name, member.invocation, sign)]


def _take_died(turn: WatchTurn, name: Member, told: Died, now: datetime) -> list[UnitFact]:
    member = turn.state.members[name]
    if member.stopping or (member.died is not None and member.died == member.invocation):
        return []
    if told.kind is SignKind.FATAL:
        if member.fatal is not None and member.fatal == member.invocation:
            return []  # each rank says it
        member.fatal = member.invocation
    else:
        member.died = member.invocation
    sign = Sign(told.kind, now, turn.said_of(name, told.sentence), name, (told.evidence,))
    return [RunDied(name, member.invocation, sign)]

"""What a line changes: whose it is, what the tracker finds in it, whether it is news."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, assert_never

from bot.core.actions import Noticed, Verdict
from bot.core.baseline import phase_key
from bot.core.events import LogLine, Member, Origin, PhaseId, Rank, Role, Verb
from bot.core.evidence import read_model_path
from bot.core.findings import (
    ONLY_NOISE,
    FailureSaid,
    Finding,
    NoiseRead,
    PhaseBegan,
    PhaseEnded,
    ProgressMade,
    ReadySaid,
)
from bot.core.startup_end import fail_with, finish, take_fall
from bot.core.startup_kernel import take_kernel
from bot.core.startup_markers import read_marker
from bot.core.startup_members import (
    Fact,
    Fell,
    Hopeless,
    StartSeen,
    StopDone,
    StopForced,
    StopSeen,
    Whose,
    hold,
    learn_offset,
    let_go,
    note_other,
    read_new_line,
    read_old_line,
    take_start,
    whose,
)
from bot.core.startup_proof import forget_answer, take_ready
from bot.core.startup_scene import host_now
from bot.core.startup_setup import read_setup
from bot.core.startup_state import Downfall, Sent, StartupState
from bot.core.words import name_doing

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.startup_turn import Turn

_FATAL = "the engine reported an error that it does not survive"
_ANEW = "another start of the unit took the place of this one"
_FORCED = "The old process did not end in time: systemd killed it"
_LAST_LINES = 8
_LINE_LENGTH = 300
_SHAPE = 40  # characters, in which two states of one bar are alike
_NUMBERS = re.compile(r"[\d\s.]+")
# Asked of every line; in Python 3.11 an enumeration looks a member up at each mention.
_KERNEL, _MANAGER, _WATCHED = Origin.KERNEL, Origin.MANAGER, Whose.WATCHED


def take_line(turn: Turn, name: Member, line: LogLine, now: datetime) -> None:
    member = turn.state.members[name]
    if line.origin is _KERNEL:
        if fell := take_kernel(turn, name, line, now):
            take_fall(turn, fell, name=name, now=now)
        return
    learn_offset(turn.plan, member, line, now)
    belongs = whose(turn.plan, member, line)
    if belongs is _WATCHED:  # nearly every line
        _take_new(turn, name, line, now)
    else:
        _take_other(turn, name, line, belongs, now)


def _take_other(turn: Turn, name: Member, line: LogLine, belongs: Whose, now: datetime) -> None:
    """A line that is not, or not yet, of the watched start."""
    member = turn.state.members[name]
    if belongs is Whose.FIRST:
        take_facts(turn, name, [take_start(turn.plan, member, line.invocation, line.at)], now)
    match belongs:
        case Whose.FIRST | Whose.WATCHED:
            _take_new(turn, name, line, now)
        case Whose.OLD:
            _take_old(turn, name, line, now)
        case Whose.OTHER:
            note_other(member, line)
            if turn.state.fall is None:
                take_fall(turn, Fell(Downfall.REPLACED, _ANEW, ended=False), name=name, now=now)
        case _:
            assert_never(belongs)


def _take_old(turn: Turn, name: Member, line: LogLine, now: datetime) -> None:
    member = turn.state.members[name]
    hold(member, line)
    take_facts(turn, name, read_old_line(turn.plan, member, line), now)
    if member.invocation is None and turn.state.silence.is_new_line(None, line.reading):
        turn.progress(line.reading[:_LINE_LENGTH], now)


def _take_new(turn: Turn, name: Member, line: LogLine, now: datetime) -> None:
    state, at = turn.state, line.at or host_now(turn.state, now)
    read_setup(turn, name, line)
    read_marker(turn, line, now)
    state.weights = state.weights or read_model_path(line.reading)
    for kept in turn.recognise(line, member=name, at=at):
        _read(turn, kept.member, kept.line, at=kept.at, now=now)
    findings = _read(turn, name, line, at=at, now=now)
    rank = turn.tracker.spoke
    state.lines += not line.partial
    if line.origin is _MANAGER:
        take_facts(turn, name, read_new_line(state.members[name], line), now)
    if findings is ONLY_NOISE:
        return
    if state.verdict is None and not _holds(findings, NoiseRead):
        _take_reading(turn, rank, line, now)
    if _holds(findings, ProgressMade):
        _renew_bar(state, line.reading[:_LINE_LENGTH])


def _holds(findings: tuple[Finding, ...], kind: type[Finding]) -> bool:
    return any(isinstance(each, kind) for each in findings)


def _read(turn: Turn, name: Member, line: LogLine, *, at: datetime, now: datetime) -> tuple[Finding, ...]:
    before = turn.tracker.current()
    findings = turn.tracker.read(line, member=name, at=at)
    quiet = not findings or findings is ONLY_NOISE
    phase, role = before if quiet else _place(turn, findings, before)
    if line.origin is not _MANAGER:
        turn.suspects.note(line, findings, phase=phase, role=role, rank=turn.tracker.spoke)
    for finding in () if quiet else findings:
        _take_finding(turn, finding, name, at=at, now=now)
    return findings


def _place(turn: Turn, findings: tuple[Finding, ...], current: tuple[PhaseId, Role]) -> tuple[PhaseId, Role]:
    """Where the rank that reports a failure was; between phases, and of any other line, where all were."""
    ranks = {each.rank for each in findings if isinstance(each, FailureSaid)}
    places = turn.tracker.places() if ranks else ()
    within = ((each.phase, each.role) for each in places if each.rank in ranks and not each.ended)
    return next(within, current)


def _take_finding(turn: Turn, finding: Finding, name: Member, *, at: datetime, now: datetime) -> None:
    match finding:
        case PhaseBegan() | PhaseEnded():
            turn.note_phases((finding,), now)
        case ProgressMade():
            bar, doing = finding.progress, name_doing(finding.phase, finding.role)
            if turn.state.silence.is_grown_bar(phase_key(finding.phase, finding.role), bar):
                turn.progress(f"{bar.done} of {bar.total} {doing}", now)
        case ReadySaid():
            take_ready(turn, at, now)
        case FailureSaid():
            if finding.fatal:
                take_fall(turn, Fell(Downfall.FATAL, _FATAL, ended=False), name=name, now=now)
        case NoiseRead():
            pass
        case _:
            assert_never(finding)


def _take_reading(turn: Turn, rank: Rank, line: LogLine, now: datetime) -> None:
    """A line never seen before is progress; any line is a sign of life."""
    state, reading = turn.state, line.reading[:_LINE_LENGTH]
    state.silence.sign = now
    if line.partial or not reading.strip():
        return
    if state.silence.is_new_line(rank, reading):
        state.last_lines = [*state.last_lines, reading][-_LAST_LINES:]
        turn.progress(reading, now)


def _renew_bar(state: StartupState, reading: str) -> None:
    """Of a bar that grows, the last lines hold its newest state, not the one in which it was new."""
    shape = _shape(reading)
    others = [told for told in state.last_lines if _shape(told) != shape]
    if len(others) < len(state.last_lines):
        state.last_lines = [*others, reading]


def _shape(reading: str) -> str:
    return _NUMBERS.sub("0", reading)[:_SHAPE]


def take_facts(turn: Turn, name: Member, facts: list[Fact], now: datetime) -> None:
    """What became known about one member."""
    for fact in facts:
        if turn.is_over:
            return
        match fact:
            case StartSeen():
                _take_start(turn, fact, now)
                for line in let_go(turn.plan, turn.state.members[name]):
                    _take_new(turn, name, line, now)
            case StopSeen():
                _take_stop(turn, fact.at, now)
            case StopForced():
                turn.state.notes.append(_FORCED)
                turn.say(Noticed(f"{_FORCED}."))
            case StopDone():
                _take_stopped(turn, now)
            case Fell():
                take_fall(turn, fact, name=name, now=now)
            case Hopeless():
                fail_with(turn, fact.sentence, now, name=name)
            case _:
                assert_never(fact)


def _take_stop(turn: Turn, at: datetime | None, now: datetime) -> None:
    """`at`: as systemd's line tells; without one, since the verb was asked for."""
    begun = [record for record in turn.tracker.phases() if record.phase is PhaseId.STOPPING]
    if not begun:
        asked = turn.plan.began if turn.plan.ran else now
        turn.begin_phase(PhaseId.STOPPING, at or host_now(turn.state, asked), now)
    elif at is not None and (len(turn.state.members) == 1 or at < begun[-1].began):
        turn.tracker.redate(PhaseId.STOPPING, at)


def _take_stopped(turn: Turn, now: datetime) -> None:
    members = turn.state.members
    if any(member.sent is not Sent.SETTLED for member in members.values()):
        return
    units = [member.unit for member in members.values() if member.unit is not None]
    results = dict.fromkeys(unit.result for unit in units if unit.active == "failed")
    turn.state.notes.extend(f"systemd's result of the stop: {result}" for result in results)
    finish(turn, Verdict.STOPPED, now)


def _take_start(turn: Turn, fact: StartSeen, now: datetime) -> None:
    """The new run begins; the old one is over when every member has begun anew."""
    at = fact.at or host_now(turn.state, now)
    if fact.again and len(turn.state.members) == 1:
        turn.forget_run()
    if turn.plan.verb is not Verb.WATCH or any(member.old for member in turn.state.members.values()):
        forget_answer(turn, now)
    if turn.plan.verb is Verb.RESTART and turn.plan.ran:
        # Where systemd's state is read before its journal, the lines that tell of the stop are still to come.
        _take_stop(turn, None, now)
    if all(member.invocation is not None for member in turn.state.members.values()):
        turn.end_phase(PhaseId.STOPPING, at, now)
    if all(record.phase is not PhaseId.PROCESS for record in turn.tracker.phases()):
        turn.begin_phase(PhaseId.PROCESS, at, now)
    turn.changed = True

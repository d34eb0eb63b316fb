"""What is said at the end: the cause of a failure, the durations of a success, a finished phase."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.core.actions import PhaseFinished, RankTime
from bot.core.baseline import WHOLE, Usual, phase_key
from bot.core.cause import Cause
from bot.core.downfall import is_crash, say_end, say_limit, say_loop
from bot.core.events import MAIN_RANK, PhaseId, Rank, Role, Verb
from bot.core.ranks import in_order
from bot.core.startup_members import name_member
from bot.core.startup_state import Downfall, Fall, MemberState, Plan, StartupState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bot.core.findings import PhaseRecord

SHORT = timedelta(seconds=2)  # a phase shorter than this is told in the table alone
_ALWAYS_TOLD = frozenset({PhaseId.WEIGHTS, PhaseId.GRAPHS})
_NEVER_TOLD = frozenset({PhaseId.SMOKE, PhaseId.READY})  # the verdict tells them
_APART = timedelta(seconds=10)
_APART_SHARE = 0.2
_UNLEARNED = frozenset({PhaseId.READY})  # a wait of our own choice
_NO_CAUSE = "unknown"
_ADVICE = {
    Downfall.VANISHED: "`journalctl -k` on the host may tell who ended the process; then restart.",
}


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Why a startup failed and where."""

    cause: str
    phase: PhaseId
    role: Role
    root_error: str | None = None
    rank: Rank | None = None
    speaker: Rank | None = None  # who wrote `root_error`, where that is not `rank`
    advice: str | None = None
    found: Cause | None = None  # what the log tells, whole
    loops: bool = False  # systemd starts it again by itself, until someone stops it


def conclude(
    plan: Plan, state: StartupState, *, fall: Fall, found: Cause | None, current: tuple[PhaseId, Role]
) -> Conclusion:
    """Put together what was seen: the log's first root error, how the unit ended, what systemd does next."""
    member = state.members[fall.member] if fall.member is not None else None
    if fall.kind is Downfall.SMOKE:
        return _conclude_smoke(fall, found)
    if member is not None and _is_host_word(member, fall):
        found = None  # systemd knows better than a log that was cut short
    sentence = _sentence(fall, member, found)
    loops = fall.kind is Downfall.LOOPING and not (member and member.limited)
    if loops:
        sentence = f"{sentence}; {say_loop(member.counter if member else None)}"
    if member is not None and member.limited and member.result != "start-limit-hit":
        sentence = f"{sentence}; {say_limit(member.unit_name)}"
    if fall.member is not None:
        sentence = name_member(plan, fall.member, sentence)
    if found is None:
        advice = _ADVICE.get(fall.kind)
        return Conclusion(sentence, *current, rank=_gone(member, fall), advice=advice, loops=loops)
    return Conclusion(
        cause=sentence,
        phase=found.phase,
        role=found.role,
        root_error=found.evidence[0] if found.evidence else None,
        rank=found.rank if found.rank != MAIN_RANK else None,
        speaker=found.speaker,
        advice=found.advice or None,
        found=found,
        loops=loops,
    )


def _gone(member: MemberState | None, fall: Fall) -> Rank | None:
    """Of the ranks whose processes vanished, the one that went first."""
    if member is None or fall.kind is not Downfall.VANISHED:
        return None
    return min(member.trace.gone, key=lambda rank: (member.trace.gone[rank], in_order(rank)), default=None)


def _conclude_smoke(fall: Fall, found: Cause | None) -> Conclusion:
    """The engine lives on; what its log said meanwhile stands beside what the test got for an answer."""
    told = Conclusion(fall.sentence, PhaseId.SMOKE, Role.TARGET)
    if found is None or found.phase is not PhaseId.SMOKE:
        return told
    rank = found.rank if found.rank != MAIN_RANK else None
    evidence = found.evidence[0] if found.evidence else None
    told = replace(told, root_error=evidence, rank=rank, speaker=found.speaker)
    return replace(told, advice=found.advice or None, found=found)


def _is_host_word(member: MemberState, fall: Fall) -> bool:
    stopped = member.stopping and fall.kind is not Downfall.FATAL
    return (member.result == "oom-kill" and not member.killed) or stopped or fall.kind is Downfall.REBOOTED


def _sentence(fall: Fall, member: MemberState | None, found: Cause | None) -> str:
    if fall.kind in {Downfall.REPLACED, Downfall.REBOOTED}:
        return fall.sentence
    if found is not None and found.id != _NO_CAUSE:
        return found.title
    if fall.kind is Downfall.VANISHED:
        return fall.sentence
    if member is None or (fall.kind is Downfall.FATAL and member.exit is None and member.result is None):
        return fall.sentence
    if found is not None and not is_crash(member):
        return "an error ended the engine"  # which one, the quoted line tells
    return say_end(member, member.unit_name)  # by now systemd may have said more than when it fell


def finished_reply(record: PhaseRecord, usual: Usual) -> PhaseFinished | None:
    """The reply for a phase that ended; None for what the table tells well enough."""
    took = record.took
    if took is None or record.phase in _NEVER_TOLD or (took < SHORT and record.phase not in _ALWAYS_TOLD):
        return None
    slowest, fastest = _spread(record)
    return PhaseFinished(
        phase=record.phase,
        role=record.role,
        took=took,
        usual=usual.of(record.phase, record.role),
        slowest=slowest,
        fastest=fastest,
        progress=record.progress,
    )


def _spread(record: PhaseRecord) -> tuple[RankTime | None, RankTime | None]:
    """The slowest and the fastest rank, where they are apart enough to matter."""
    times = [
        RankTime(rank, span.ended - span.began)
        for rank, span in record.ranks.items()
        if span.ended is not None
    ]
    if len(times) < 2:  # noqa: PLR2004 - one alone is neither slow nor fast
        return None, None
    slowest = max(times, key=lambda each: each.took)
    fastest = min(times, key=lambda each: each.took)
    if slowest.took - fastest.took <= max(_APART, slowest.took * _APART_SHARE):
        return None, None
    return slowest, fastest


def durations_of(plan: Plan, records: Iterable[PhaseRecord], *, took: timedelta) -> dict[str, float]:
    """Seconds by phase key, and of the whole, about which a watch that came later teaches nothing."""
    durations: dict[str, float] = {}
    for record in records:
        if record.took is None or record.phase in _UNLEARNED:
            continue
        key = phase_key(record.phase, record.role)
        durations[key] = round(durations.get(key, 0.0) + max(record.took.total_seconds(), 0.0), 3)
    if plan.verb is Verb.RESTART or plan.verb is Verb.START:
        durations[WHOLE] = round(took.total_seconds(), 3)
    return durations

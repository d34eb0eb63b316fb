"""What the end of one run's log tells: the phase it was in, the cause, and the lines before the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.core.diagnosis import Suspects
from bot.core.events import Origin, PhaseId, Role
from bot.core.findings import ONLY_NOISE
from bot.core.incident_state import RunRead
from bot.core.phases import Tracker
from bot.core.recognition import recognise
from config.engine_file import AUTO

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from bot.core.cause import Cause
    from bot.core.events import LogLine, Member
    from bot.core.findings import Finding
    from config.engine_file import EngineFile

EXCERPT = 20  # lines before the end
_LONGEST = 400  # characters of one of them
_MOST_EVIDENCE = 4


def read_run(lines: Sequence[LogLine], engine: EngineFile, *, member: Member, now: datetime) -> RunRead:
    """`lines`: oldest first; of a long run its end alone. Nothing in them: nothing is told."""
    whole = [line for line in lines if not line.partial]
    if not whole:
        return RunRead()
    if engine.name == AUTO:
        engine = recognise(whole, lead=1)
    tracker, suspects = Tracker(engine), Suspects(engine=engine)
    telling: list[LogLine] = []
    for line in whole:
        findings = tracker.read(line, member=member, at=line.at or now)
        phase, role = _phase_of(tracker) or (PhaseId.READY, Role.TARGET)
        suspects.note(line, findings, phase=phase, role=role, rank=tracker.spoke)
        if not _is_noise(findings):
            telling.append(line)
    found = _cause_of(suspects, tracker)
    said = _phase_of(tracker)
    excerpt = tuple(line.reading.strip("\n")[:_LONGEST] for line in (telling or whole)[-EXCERPT:])
    if found is None:
        where = said[0] if said is not None else None
        role = said[1] if said is not None else Role.TARGET
        return RunRead(phase=where, role=role, excerpt=excerpt, lasted=_lasted(whole))
    served = tracker.state.ready or said is None
    return RunRead(
        cause=found.title,
        means=found.means,
        advice=found.advice,
        evidence=tuple(each[:_LONGEST] for each in found.evidence[:_MOST_EVIDENCE]),
        phase=None if served else found.phase,
        role=found.role,
        rank=found.rank if found.rank != "main" else None,
        excerpt=excerpt,
        lasted=_lasted(whole),
    )


def _phase_of(tracker: Tracker) -> tuple[PhaseId, Role] | None:
    """None: it served, or the lines show nothing of a start."""
    if tracker.state.ready or not tracker.state.spans.records:
        return None
    return tracker.current()


def _is_noise(findings: tuple[Finding, ...]) -> bool:
    return findings is ONLY_NOISE or (bool(findings) and all(each is ONLY_NOISE[0] for each in findings))


def _cause_of(suspects: Suspects, tracker: Tracker) -> Cause | None:
    if not (suspects.is_proven or suspects.is_likely):
        return None
    return suspects.cause(ranks=[each.rank for each in tracker.places()])


def _lasted(lines: Sequence[LogLine]) -> timedelta | None:
    """By the host's clock, of what the service itself wrote."""
    times = [line.at for line in lines if line.at is not None and line.origin is Origin.SERVICE]
    return times[-1] - times[0] if len(times) > 1 else None

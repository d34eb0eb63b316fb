"""The present of one startup as it is shown: times, the estimate to ready, evidence in words."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from bot.core.actions import Pace, StartupView
from bot.core.events import PhaseId, Verb
from bot.core.readiness import missing_proof
from bot.core.startup_scene import (
    current_phase,
    elapsed,
    host_of,
    pace,
    record_of,
    time_in_phase,
)
from bot.core.startup_way import (
    READS,
    estimate,
    estimate_after,
    estimate_phase,
    estimate_span,
    phases_of,
)
from bot.core.trace import is_idle, is_spinning, say_evidence, say_reading
from bot.core.words import name_ranks, spell_duration

if TYPE_CHECKING:
    from bot.core.startup_scene import Scene
    from bot.core.startup_state import MemberState

_COLLECTIVE = frozenset(
    {PhaseId.DISTRIBUTED, PhaseId.GRAPHS, PhaseId.WARMUP}
)  # where ranks wait for each other
_GIB = 2**30


def view_of(scene: Scene) -> StartupView:
    plan, state = scene.plan, scene.state
    phase, role = current_phase(scene)
    sign = state.silence.sign
    return StartupView(
        operation=plan.operation,
        service=plan.service,
        verb=plan.verb,
        hosts=tuple(dict.fromkeys(host_of(member) for member in plan.members)),
        by=plan.by,
        reason=plan.reason,
        began=plan.began,
        elapsed=elapsed(scene),
        phase=phase,
        role=role,
        in_phase=time_in_phase(scene),
        pace=pace(scene),
        phases=phases_of(scene),
        ranks=scene.tracker.places(),
        expected_ranks=plan.ranks,
        eta=estimate(scene),
        eta_span=estimate_span(scene),
        eta_after=estimate_after(scene),
        eta_phase=estimate_phase(scene),
        last_sign=None if sign is None else max(scene.now - sign, timedelta()),
        usual=plan.usual.whole if plan.verb is not Verb.STOP else None,
        usual_phase=plan.usual.of(phase, role),
        lost=_lost(scene),
        measured=_measured(scene),
        share=_share(scene),
        notes=notes_of(scene),
        verdict=state.verdict,
        cause=state.cause,
    )


def _measured(scene: Scene) -> str:
    """What is read from disk while weights load, host by host where there are several."""
    if current_phase(scene) != READS or scene.state.verdict is not None:
        return ""
    several = len(scene.plan.members) > 1
    told = {name: say_reading(scene.state.members[name].trace) for name in scene.plan.members}
    named = [f"{host_of(name)}: {words}" if several else words for name, words in told.items() if words]
    return "; ".join(named)


def _share(scene: Scene) -> float | None:
    """How much of the weights was read; only where the log shows no bar that says it better."""
    here = current_phase(scene)
    record = record_of(scene, *here)
    if here != READS or (record is not None and record.progress is not None):
        return None
    shares = [member.trace.share for member in scene.state.members.values()]
    known = [share for share in shares if share is not None]
    return min(known) if known and len(known) == len(shares) else None


def _lost(scene: Scene) -> str | None:
    for name in scene.plan.members:
        member = scene.state.members[name]
        if member.lost is not None:
            since = member.lost_since or scene.now
            age = spell_duration(scene.now - since)
            return f"{host_of(name)} cannot be seen for {age}: {member.lost}"
    return None


def notes_of(scene: Scene) -> tuple[str, ...]:
    """Evidence in words: what the proof still waits for once the engine says ready, and what was remarked."""
    state, notes = scene.state, list(scene.state.notes)
    if state.verdict is None and state.proof.since is not None:
        left = spell_duration(scene.plan.stable_for)
        notes.append(f"ready is proven; it must hold for {left}")
    elif state.verdict is None and state.proof.said is not None:
        missing = missing_proof(scene.plan, state, current_phase(scene)[0])
        notes.append(f"the engine says ready; {missing}" if missing else "the engine says ready")
    if state.proof.since is not None and state.proof.answer and state.proof.answer.listener is None:
        notes.append("the host does not tell whose socket listens on the port")
    notes += [*_missed(scene), *_quiet_notes(scene)]
    if any(each.unit is not None and each.unit.need_daemon_reload for each in state.members.values()):
        notes.append("the unit file changed on disk and systemd has not read it anew (daemon-reload)")
    if state.verdict is None and (unseen := _unseen(scene)):
        notes.append(f"the host does not tell: {', '.join(unseen)}")
    return tuple(dict.fromkeys(notes))


def _missed(scene: Scene) -> list[str]:
    missed = [rank for member in scene.state.members.values() for rank in member.trace.missed]
    verb = "is" if len(missed) == 1 else "are"
    gone = missed and scene.state.verdict is None
    return [f"{name_ranks(missed)} {verb} gone: no process of that name is left"] if gone else []


def _quiet_notes(scene: Scene) -> list[str]:
    """While nothing new is logged: what the host measures meanwhile."""
    if scene.state.verdict is not None or pace(scene) is not Pace.QUIET:
        return []
    several = [say_evidence(member.trace)[:3] for member in scene.state.members.values()]
    told = [sentence for sentences in several for sentence in sentences]
    silent = spell_duration(scene.state.silence.lasts(scene.now))
    return [f"nothing new for {silent}: {'; '.join(told)}"] if told else []


def _unseen(scene: Scene) -> list[str]:
    samples = (member.trace.sample for member in scene.state.members.values())
    return list(dict.fromkeys(why for sample in samples if sample is not None for why in sample.refused))


def evidence_of(scene: Scene) -> tuple[str, ...]:
    """What systemd's counters say about the silence: numbers to judge a stall by."""
    told: list[str] = []
    for name in scene.plan.members:
        where = f"{host_of(name)}: " if len(scene.plan.members) > 1 else ""
        member = scene.state.members[name]
        measured = [f"{each[0].upper()}{each[1:]}" for each in say_evidence(member.trace)]
        told += [f"{where}{sentence}" for sentence in measured or _counters(member)]
    waits = current_phase(scene)[0] in _COLLECTIVE
    if waits and any(is_spinning(member.trace) for member in scene.state.members.values()):
        told.append("It looks like a collective that waits for a rank")
    traces = [each.trace for each in scene.state.members.values() if each.trace.cores is not None]
    if traces and all(is_idle(each) for each in traces):
        told.append("Nothing computes: it waits for something else, a disk, another host or a lock")
    return tuple(told)


def _counters(member: MemberState) -> list[str]:
    unit, before = member.unit, member.marked
    if unit is None:
        return []
    told = [f"systemd says {unit.active} ({unit.sub})" + (f", {unit.tasks} tasks" if unit.tasks else "")]
    if before is None or member.unit_at is None or member.marked_at is None:
        return told
    span = (member.unit_at - member.marked_at).total_seconds()
    if span > 0 and unit.cpu is not None and before.cpu is not None:
        cores = max((unit.cpu - before.cpu).total_seconds(), 0.0) / span
        told.append(f"CPU: {cores:.1f} cores busy on average since the last progress")
    if unit.memory is not None and before.memory is not None:
        told.append(f"memory: {unit.memory / _GIB:.1f} GiB, {_change(unit.memory - before.memory)}")
    if unit.read is not None and before.read is not None:
        told.append(f"read from disk since the last progress: {(unit.read - before.read) / _GIB:.1f} GiB")
    return told


def _change(amount: int) -> str:
    shown = f"{abs(amount) / _GIB:.1f}"
    if shown == "0.0":
        return "unchanged since the last progress"
    return f"{shown} GiB {'more' if amount > 0 else 'less'} than at the last progress"

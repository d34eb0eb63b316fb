"""The present of one startup: phases with marks, times, the estimate to ready, evidence in words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from bot.core.actions import Mark, Pace, PhaseView, StartupView, Verdict
from bot.core.baseline import WHOLE, phase_key
from bot.core.events import PHASE_ORDER, HostName, Member, PhaseId, Role, Verb
from bot.core.patience import pace_of, patience_of
from bot.core.phases import Tracker
from bot.core.readiness import missing_proof
from bot.core.startup_state import Plan, StartupState
from bot.core.trace import is_idle, is_spinning, left_to_read, say_evidence, say_reading
from bot.core.words import name_ranks, spell_duration
from config.engine_file import EngineFile

if TYPE_CHECKING:
    from bot.core.findings import PhaseRecord
    from bot.core.startup_state import MemberState

_ORDER = {phase: index for index, phase in enumerate(PHASE_ORDER)}
# Shown ahead only on grounds: not every start goes through them.
_UNANNOUNCED = frozenset({PhaseId.STOPPING, PhaseId.COMPILE, PhaseId.SMOKE, PhaseId.READY})
_READS = (PhaseId.WEIGHTS, Role.TARGET)  # the phase whose way is measured on the disk
_COLLECTIVE = frozenset(
    {PhaseId.DISTRIBUTED, PhaseId.GRAPHS, PhaseId.WARMUP}
)  # where ranks wait for each other
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Scene:
    """All a view is made from."""

    plan: Plan
    engine: EngineFile
    state: StartupState
    tracker: Tracker
    now: datetime


def host_of(member: Member) -> HostName:
    return HostName(member.rpartition("/")[0] or member)


def unit_of(member: Member) -> str:
    return member.rpartition("/")[2]


def host_now(state: StartupState, now: datetime) -> datetime:
    """Our `now` on the host's clock, as far as the arrival of its lines tells the difference."""
    offsets = [each.offset for each in state.members.values() if each.offset is not None]
    return now - min(offsets) if offsets else now


def current_phase(scene: Scene) -> tuple[PhaseId, Role]:
    """The phase under way; before the log says anything, the one the verb begins with."""
    if scene.tracker.phases():
        return scene.tracker.current()
    rebooted = any(member.boots for member in scene.state.members.values())
    stopping = scene.plan.verb is Verb.STOP or (scene.plan.verb is Verb.RESTART and not rebooted)
    return (PhaseId.STOPPING if stopping else PhaseId.PROCESS), Role.TARGET


def record_of(scene: Scene, phase: PhaseId, role: Role) -> PhaseRecord | None:
    found = (each for each in reversed(scene.tracker.phases()) if (each.phase, each.role) == (phase, role))
    return next(found, None)


def time_in_phase(scene: Scene) -> timedelta:
    record = record_of(scene, *current_phase(scene))
    if record is None:
        boots = [each.rebooted for each in scene.state.members.values() if each.rebooted is not None]
        return max(_end(scene) - max((scene.plan.began, *boots)), timedelta())
    return _took(scene, record)


def _end(scene: Scene) -> datetime:
    return scene.state.ended or scene.now


def _took(scene: Scene, record: PhaseRecord) -> timedelta:
    ended = record.ended or host_now(scene.state, _end(scene))
    return max(ended - record.began, timedelta())


def elapsed(scene: Scene) -> timedelta:
    """Since the command; of a watch, since the process that is watched began, until it said ready.

    A watch that finds a service ready whose log no longer tells when it became so, tells its own time.
    """
    process, proof = record_of(scene, PhaseId.PROCESS, Role.TARGET), scene.state.proof
    late = proof.smoke_asked is not None or proof.since is not None
    if scene.plan.verb is not Verb.WATCH or process is None or (late and proof.said is None):
        return max(_end(scene) - scene.plan.began, timedelta())
    until = proof.said_on_host or host_now(scene.state, _end(scene))
    return max(until - process.began, timedelta())


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


def patience_now(scene: Scene) -> timedelta:
    phase, role = current_phase(scene)
    return patience_of(
        phase,
        declared=scene.plan.patience,
        engine=scene.engine.patience_of(phase),
        longest=scene.plan.usual.longest_silence(phase, role),
    )


def last_moved(state: StartupState) -> datetime | None:
    """When evidence last showed work that is more than a busy CPU, on any host."""
    return max((each.trace.moved for each in state.members.values() if each.trace.moved), default=None)


def pace(scene: Scene) -> Pace:
    phase, role = current_phase(scene)
    if scene.state.proof.since is not None:
        return Pace.MOVING  # what is left is waiting that we chose ourselves
    return pace_of(
        scene.state.silence,
        patience=patience_now(scene),
        in_phase=time_in_phase(scene),
        usual=scene.plan.usual.of(phase, role),
        span=scene.plan.usual.span_of(phase, role),
        now=scene.now,
    )


def phases_of(scene: Scene) -> tuple[PhaseView, ...]:
    """What was, is and is to come, in the order of display; the draft model's phases follow the target's."""
    begun = _begun(scene)
    current = current_phase(scene)
    if current not in begun and scene.state.verdict is None:
        begun[current] = PhaseView(*current, mark=Mark.NOW, usual=scene.plan.usual.of(*current))
    ahead = {
        key: PhaseView(*key, mark=Mark.AHEAD, usual=scene.plan.usual.of(*key))
        for key in _expected(scene)
        if key not in begun and scene.state.verdict is None and not _is_passed(key, current)
    }
    return tuple(view for _, view in sorted((begun | ahead).items(), key=lambda item: _place(item[0])))


def _begun(scene: Scene) -> dict[tuple[PhaseId, Role], PhaseView]:
    """One view a phase; where it occurred more than once, the latest one's with the time of all."""
    begun: dict[tuple[PhaseId, Role], PhaseView] = {}
    for record in scene.tracker.phases():
        key = (record.phase, record.role)
        view, before = _phase_view(scene, record), begun.get(key)
        earlier = before.took if before is not None else None
        begun[key] = view if earlier is None or view.took is None else replace(view, took=view.took + earlier)
    return begun


def _place(key: tuple[PhaseId, Role]) -> tuple[int, int]:
    phase, role = key
    order = _ORDER[phase]
    return (_ORDER[PhaseId.GRAPHS], 1 + order) if role is Role.DRAFT else (order, 0)


def _is_passed(key: tuple[PhaseId, Role], current: tuple[PhaseId, Role]) -> bool:
    """An engine that prints no line for a phase has left it behind, not ahead."""
    return key[1] is Role.TARGET and _place(key) < _place(current) and current[1] is Role.TARGET


def _phase_view(scene: Scene, record: PhaseRecord) -> PhaseView:
    return PhaseView(
        phase=record.phase,
        role=record.role,
        mark=_mark(scene, record),
        took=_took(scene, record),
        usual=scene.plan.usual.of(record.phase, record.role),
        progress=record.progress,
    )


def _mark(scene: Scene, record: PhaseRecord) -> Mark:
    state, key = scene.state, phase_key(record.phase, record.role)
    if state.verdict is Verdict.FAILED and key == state.failed_phase:
        return Mark.FAILED
    if record.ended is not None or state.verdict in {Verdict.HEALTHY, Verdict.STOPPED}:
        return Mark.DONE
    stalled = state.silence.stalled and (record.phase, record.role) == current_phase(scene)
    return Mark.STALLED if stalled else Mark.NOW


def _expected(scene: Scene) -> list[tuple[PhaseId, Role]]:
    """What is likely to come: what healthy starts went through; before the first one, what the engine has."""
    if scene.plan.verb is Verb.STOP:
        return []
    usual = scene.plan.usual
    keys = [(phase, role) for role in Role for phase in PHASE_ORDER if usual.expects(phase, role)]
    if not keys:
        keys = [(PhaseId(rule.id), Role.TARGET) for rule in scene.engine.phase]
        keys = [key for key in keys if key[0] not in _UNANNOUNCED]
    unfit = {PhaseId.READY, PhaseId.STOPPING, PhaseId.SMOKE}
    keys = [key for key in keys if key[0] not in unfit]
    return [*keys, (PhaseId.SMOKE, Role.TARGET)] if scene.plan.smoke else keys


def estimate(scene: Scene) -> timedelta | None:
    """To ready: what is left of this phase, by its bar or its usual time, and the usual of those ahead."""
    guesses = _guesses_here(scene) if _may_be_estimated(scene) else []
    return guesses[0] + _ahead(scene) if guesses else None


def estimate_after(scene: Scene) -> timedelta | None:
    """What comes after this phase, where the phase outlasts every guess: nobody knows when it ends."""
    known = scene.plan.usual.of(*current_phase(scene)) is not None
    outlasted = known and _may_be_estimated(scene) and not _guesses_here(scene)
    return (_ahead(scene) or None) if outlasted else None


def estimate_phase(scene: Scene) -> timedelta | None:
    """What is left of this phase by its bar or the disk's rate: all that a first start can be told."""
    known = WHOLE in scene.plan.usual.samples
    return None if known or _is_standing(scene) else _left_by_bar(scene)


def _may_be_estimated(scene: Scene) -> bool:
    return not _is_standing(scene) and WHOLE in scene.plan.usual.samples


def _is_standing(scene: Scene) -> bool:
    """It is over, or does not move, or goes another way: there is nothing to wait for."""
    state = scene.state
    over = state.verdict is not None or state.silence.stalled or state.proof.since is not None
    return over or scene.plan.verb is Verb.STOP


def _ahead(scene: Scene) -> timedelta:
    ahead = (view.usual or timedelta() for view in phases_of(scene) if view.mark is Mark.AHEAD)
    return sum(ahead, timedelta())


def estimate_span(scene: Scene) -> tuple[timedelta, timedelta] | None:
    """Between what and what: this phase by its bar and the usual, those ahead as half of the starts went."""
    middle = estimate(scene)
    if middle is None:
        return None
    guesses = _guesses_here(scene)
    least, most = min(guesses), max(guesses)
    for view in phases_of(scene):
        ahead = scene.plan.usual.span_of(view.phase, view.role) if view.mark is Mark.AHEAD else None
        if ahead is not None:
            least, most = least + ahead[0], most + ahead[1]
    return min(least, middle), max(most, middle)


def _guesses_here(scene: Scene) -> list[timedelta]:
    """What may be left of this phase, the best guess first: by its bar, its usual time, its usual span.

    A start that took less than this one has by now tells nothing any more.
    """
    usual, here, spent = scene.plan.usual, current_phase(scene), time_in_phase(scene)
    by_bar, middle = _left_by_bar(scene), usual.of(*here)
    known = () if middle is None else (middle, *reversed(usual.span_of(*here) or ()))
    left = [each - spent for each in known if each > spent]
    return left if by_bar is None else [by_bar, *left]


def _left_by_bar(scene: Scene) -> timedelta | None:
    """By the bar's rate, or by that of the disk; a full bar is not the end of the phase."""
    here = current_phase(scene)
    record = record_of(scene, *here)
    bar = record.progress if record is not None else None
    if bar is None and here == _READS:
        left = [left_to_read(each.trace) for each in scene.state.members.values()]
        return max((each for each in left if each), default=None)
    if bar is None or not 0 < bar.done < bar.total:
        return None
    return time_in_phase(scene) * ((bar.total - bar.done) / bar.done)


def _measured(scene: Scene) -> str:
    """What is read from disk while weights load, host by host where there are several."""
    if current_phase(scene) != _READS or scene.state.verdict is not None:
        return ""
    several = len(scene.plan.members) > 1
    told = {name: say_reading(scene.state.members[name].trace) for name in scene.plan.members}
    named = [f"{host_of(name)}: {words}" if several else words for name, words in told.items() if words]
    return "; ".join(named)


def _share(scene: Scene) -> float | None:
    """How much of the weights was read; only where the log shows no bar that says it better."""
    here = current_phase(scene)
    record = record_of(scene, *here)
    if here != _READS or (record is not None and record.progress is not None):
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

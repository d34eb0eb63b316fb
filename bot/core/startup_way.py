"""The way to ready: the phases that were, are and are to come, and how long what is left may take."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.core.actions import Mark, PhaseView, Verdict
from bot.core.baseline import WHOLE, phase_key
from bot.core.events import PHASE_ORDER, PhaseId, Role, Verb
from bot.core.startup_scene import current_phase, record_of, time_in_phase, took_by
from bot.core.trace import left_to_read

if TYPE_CHECKING:
    from bot.core.findings import PhaseRecord
    from bot.core.startup_scene import Scene

READS = (PhaseId.WEIGHTS, Role.TARGET)  # the phase whose way is measured on the disk
_ORDER = {phase: index for index, phase in enumerate(PHASE_ORDER)}
# Shown ahead only on grounds: not every start goes through them.
_UNANNOUNCED = frozenset({PhaseId.STOPPING, PhaseId.COMPILE, PhaseId.SMOKE, PhaseId.READY})


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
        took=took_by(scene, record),
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
    if bar is None and here == READS:
        left = [left_to_read(each.trace) for each in scene.state.members.values()]
        return max((each for each in left if each), default=None)
    if bar is None or not 0 < bar.done < bar.total:
        return None
    return time_in_phase(scene) * ((bar.total - bar.done) / bar.done)

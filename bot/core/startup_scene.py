"""Where a startup stands: its phase, how long it has taken, how it moves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from bot.core.actions import Pace
from bot.core.events import HostName, Member, PhaseId, Role, Verb
from bot.core.patience import pace_of, patience_of
from bot.core.phases import Tracker
from bot.core.startup_state import Plan, StartupState
from config.engine_file import EngineFile

if TYPE_CHECKING:
    from bot.core.findings import PhaseRecord


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
    return took_by(scene, record)


def _end(scene: Scene) -> datetime:
    return scene.state.ended or scene.now


def took_by(scene: Scene, record: PhaseRecord) -> timedelta:
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

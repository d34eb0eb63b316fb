"""The working set of one startup and one turn of it: what is known, what is ordered, what is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.core.actions import Action, EditRoot, MovedAgain, PostReply, Reply, UploadTail
from bot.core.baseline import phase_key
from bot.core.conclusion import finished_reply
from bot.core.diagnosis import Suspects
from bot.core.events import PhaseId, Role, Verb
from bot.core.findings import Finding, PhaseBegan, PhaseEnded
from bot.core.marker import Markers, MarkerState
from bot.core.phases import Tracker
from bot.core.recognition import Recognition
from bot.core.startup_scene import Scene, current_phase, host_now, patience_now
from bot.core.startup_state import Moved, Plan, Proof, SetupState, StartupState
from bot.core.startup_view import view_of
from bot.core.suspect import SuspectsState
from bot.core.words import name_doing
from config.engine_file import AUTO

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from bot.core.events import LogLine, Member
    from bot.core.recognition import Kept
    from bot.core.whereabouts import TrackerState
    from config.engine_file import EngineFile


class Turn:
    """Everything the parts of the machine share. Only `state` outlives the process."""

    def __init__(self, plan: Plan, engine: EngineFile, state: StartupState) -> None:
        self.plan = plan
        self.recognition = Recognition(state.recognition) if engine.name == AUTO else None
        self.engine = (self.recognition and self.recognition.engine) or engine
        self.state = state
        self.tracker = self._track(state.tracker)
        self.suspects = Suspects(state.suspects, engine=self.engine)
        self.markers = Markers(plan.markers, state.markers)
        self.changed = False  # the present should be shown
        self._out: list[Action] = []
        self._scene: Scene | None = None
        self._patience: dict[tuple[PhaseId, Role], timedelta] = {}

    @property
    def is_over(self) -> bool:
        return self.state.verdict is not None

    def open(self) -> None:
        self._out, self.changed = [], False

    def close(self, now: datetime) -> list[Action]:
        """The orders of this turn; the present comes first, so that it is never older than what is said."""
        shown: list[Action] = [EditRoot(view_of(self.scene(now)))] if self.changed else []
        return [*shown, *self._out]

    def scene(self, now: datetime) -> Scene:
        """The present, to be looked at; the same one for all who look at the same moment."""
        scene = self._scene
        if scene is None or scene.now != now or scene.tracker is not self.tracker:
            scene = self._scene = Scene(self.plan, self.engine, self.state, self.tracker, now)
        return scene

    def current(self, now: datetime) -> tuple[PhaseId, Role]:
        if self.tracker.state.spans.records:
            return self.tracker.current()
        return current_phase(self.scene(now))

    def patience(self, now: datetime) -> timedelta:
        """Of the current phase; the same for all of it, and asked for with each line."""
        key = self.current(now)
        known = self._patience.get(key)
        if known is None:
            known = self._patience[key] = patience_now(self.scene(now))
        return known

    # ---- orders -------------------------------------------------------------------------------------------

    def order(self, action: Action) -> None:
        self._out.append(action)

    def say(self, reply: Reply, *, broadcast: bool = False) -> None:
        self.changed = True
        self.state.sequence += 1
        self.order(PostReply(self.state.sequence, reply, broadcast=broadcast))

    def upload(self, why: str) -> None:
        self.state.sequence += 1
        self.order(UploadTail(self.state.sequence, why))

    # ---- which engine it is -------------------------------------------------------------------------------

    def recognise(self, line: LogLine, *, member: Member, at: datetime) -> tuple[Kept, ...]:
        """Where no engine is named: once this line tells it, those that came before are to be read anew."""
        recognition = self.recognition
        if recognition is None or self.engine.name != AUTO:
            return ()
        engine = recognition.feed(line)
        if engine is None:
            recognition.keep(line, member=member, at=at)
            return ()
        self._take_engine(engine)
        return recognition.release()

    def _take_engine(self, engine: EngineFile) -> None:
        """Phases that were begun from outside the log stay; what was suspected is found anew, and better."""
        state = self.state
        self.engine, state.suspects = engine, SuspectsState()
        self._patience.clear()
        self.tracker = self._track(state.tracker)
        self.suspects = Suspects(state.suspects, engine=engine)
        self.changed = True

    def _track(self, state: TrackerState | None = None) -> Tracker:
        lone = len(self.plan.members) == 1
        return Tracker(self.engine, ranks=self.plan.ranks, lone=lone, state=state)

    # ---- progress and phases ------------------------------------------------------------------------------

    def progress(self, sign: str, now: datetime) -> None:
        """Something new came; it ends a stall that was told."""
        silence = self.state.silence
        told = silence.told
        silent = silence.break_off(now)
        silence.key = phase_key(*self.current(now))
        for member in self.state.members.values():
            member.marked, member.marked_at = member.unit, member.unit_at
            member.trace.mark(now)
        if told:
            self.state.moved = Moved(now, *self.current(now), silent, sign)

    def tell_moved(self) -> None:
        """Before anything else that shows it; a stall that ends in a failure is told as that alone."""
        moved, self.state.moved = self.state.moved, None
        if moved is not None:
            self.say(MovedAgain(moved.phase, moved.role, moved.silent, moved.sign))

    def begin_phase(self, phase: PhaseId, at: datetime, now: datetime) -> None:
        self.note_phases(self.tracker.begin(phase, at), now)

    def end_phase(self, phase: PhaseId, at: datetime, now: datetime) -> None:
        self.note_phases(self.tracker.end(phase, at), now)

    def note_phases(self, findings: tuple[Finding, ...], now: datetime) -> None:
        """A phase that begins or ends is progress, and an end is told."""
        for finding in findings:
            match finding:
                case PhaseBegan():
                    self.changed = True
                    self.progress(f"began {name_doing(finding.phase, finding.role)}", now)
                case PhaseEnded():
                    self.changed = True
                    self.progress(f"finished {name_doing(finding.phase, finding.role)}", now)
                    self._say_end(finding)
                case _:
                    pass

    def _say_end(self, finding: PhaseEnded) -> None:
        reply = finished_reply(finding.record, self.plan.usual)
        if reply is not None and self.plan.verb is not Verb.STOP:
            self.tell_moved()
            self.say(reply)

    def close_phases(self, now: datetime) -> None:
        """Whatever the log left open is over; nobody saw its end, so no reply tells it."""
        at = host_now(self.state, now)
        for record in self.tracker.phases():
            if record.ended is None:
                self.tracker.end(record.phase, max(at, record.began), record.role)

    def forget_run(self) -> None:
        """What was read came from a run that systemd itself had begun just before the verb."""
        state = self.state
        self.tracker = self._track()
        self.suspects = Suspects(engine=self.engine)
        state.tracker, state.suspects = self.tracker.state, self.suspects.state
        state.fall, state.proof, state.lines = None, Proof(), 0
        state.last_lines.clear()
        state.setup, state.markers = SetupState(), MarkerState()
        self.markers = Markers(self.plan.markers, state.markers)
        state.recognition.kept.clear()

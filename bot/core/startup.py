"""One startup as a pure state machine: facts and `now` in, orders out, a verdict at the end.

How it works
============

A startup has one life line per member (a unit on a host) and one proof for the service as a whole.

    begin ──► verb ordered ──► verb carried out ──► new InvocationID ──► phases ──► proof ──► verdict
              (never twice)    (or: a job shows)    (old lines end)      (tracker)  (readiness)

* **Verb.** `begin` orders it once for each member. Refused: failed. Unanswered: never repeated; the unit's
  InvocationID or a pending job tells, within a minute of the host being seen again. Under way in a process
  that died: settled first; only what never reached systemd, and no longer can, is ordered by the next one.
* **Start.** A new InvocationID, from a unit's state or from a line, ends the old run. Only lines of the new
  one reach the tracker and the suspects; the old run's count for stopping. See `startup_members`.
* **Proof.** See `readiness` and `startup_proof`. A line that says ready orders a probe at once. With unit,
  socket, health and model proven, the smoke test runs once; `stable_for` later, all still true: healthy. What
  stops being true sets the count back.
* **Fall.** See `startup_end`. Evidence of failure does not end it at once: for up to ten seconds the rest of
  the story may come (the first root error, systemd's result, a crash behind a failed smoke test), less when
  systemd has said how the unit ended. Then: failed. What proves at once that nothing can come of it (a verb
  refused, a unit masked, the wrong model) does not wait.
* **Evidence.** See `trace` and `startup_evidence`. Samples of the hosts show progress that the log does not,
  excuse silence for a while, and tell of a rank that vanished.
* **Gaps.** See `startup_gaps`. kimi itself away, a host out of sight, a reboot, lines that the log no longer
  holds: each told once, and nothing concluded from not seeing.
* **Patience.** See `patience` and `startup_waits`. Silence is counted by our clock at arrival and stands
  still while a host is out of sight. A stall is told once, its end too. `give_up_after` ends the watch as
  failed; the service is left alone.

Every event is handled in the same steps: take the fact in, let what waits for time look again, show the
present if it changed or time passed. What matters later is all in `state`, so that a copy of it goes on just
the same. After the verdict nothing new is ordered any more.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, assert_never

from bot.core.actions import Action, Noticed, RunSmoke, SendVerb, SettleVerb, StartupView, Verdict
from bot.core.events import (
    Event,
    EvidenceSampled,
    HostLost,
    HostRestored,
    LineRead,
    LogMissed,
    Member,
    PatienceExtended,
    PhaseId,
    ProbeAnswered,
    SetupSeen,
    SmokeFinished,
    Superseded,
    Ticked,
    UnitObserved,
    UnwatchAsked,
    Verb,
    VerbMissed,
    VerbRefused,
    VerbSent,
    VerbUnanswered,
)
from bot.core.patience import Silence
from bot.core.startup_account import account_startup, picture_startup
from bot.core.startup_end import check_fall, fail_with, finish, order_end
from bot.core.startup_evidence import check_ranks, check_slowness, take_sample
from bot.core.startup_gaps import check_reboot, check_sight, note_boot, take_sight, tell_resumed
from bot.core.startup_lines import take_facts, take_line
from bot.core.startup_markers import check_markers
from bot.core.startup_members import read_unit
from bot.core.startup_proof import check_ready, probe, take_answer, take_smoke
from bot.core.startup_scene import host_of, unit_of
from bot.core.startup_setup import ask_again, check_setup, setups_to_keep, take_setup
from bot.core.startup_state import MemberState, Plan, Sent, StartupState
from bot.core.startup_turn import Turn
from bot.core.startup_view import view_of
from bot.core.startup_waits import check_limit, check_moved, check_silence, check_verb
from bot.core.suspect import SuspectsState
from bot.core.whereabouts import TrackerState
from bot.core.words import spell_duration

if TYPE_CHECKING:
    from bot.core.account import Account
    from bot.core.picture import Waterfall
    from bot.core.setup import Setup
    from config.engine_file import EngineFile

LOG_FIRST = timedelta(seconds=20)  # after a resume: an engine that is up answers before its log is read
WANTED_FOR = timedelta(minutes=5)  # nobody expects a restart long after it was asked for
CATCHING_UP = timedelta(minutes=2)  # after a resume: what was written meanwhile is read before it is judged

_CHECKS = (
    check_setup,
    check_markers,
    check_ranks,
    check_fall,
    check_ready,
    check_verb,
    check_reboot,
    check_limit,
    check_slowness,
    check_moved,
    check_silence,
    check_sight,
)


class Startup:
    """The machine. The carrier feeds it facts, saves `state` after each, and carries out what it orders."""

    def __init__(self, plan: Plan, engine: EngineFile, state: StartupState | None = None) -> None:
        self.plan = plan
        self._turn = Turn(plan, engine, state or fresh_state(plan))

    @property
    def state(self) -> StartupState:
        return self._turn.state

    @property
    def verdict(self) -> Verdict | None:
        return self._turn.state.verdict

    def phase(self, now: datetime) -> PhaseId:
        """The one under way, or the one it ended in."""
        return self._turn.current(now)[0]

    def view(self, now: datetime) -> StartupView:
        return view_of(self._turn.scene(now))

    def account(self, now: datetime) -> Account:
        """What stays known of it once it is over."""
        return account_startup(self._turn.scene(now))

    def waterfall(self, now: datetime) -> Waterfall | None:
        """Where the time went, to be drawn; None before the first phase."""
        return picture_startup(self._turn.scene(now))

    def setups(self) -> dict[Member, Setup]:
        """What the next start is to be compared with, once this one is healthy."""
        return setups_to_keep(self.plan, self.state)

    def begin(self, now: datetime) -> list[Action]:
        """The root message, then the verb, once for each member; a watch asks the engine instead."""
        turn = self._turn
        turn.open()
        turn.changed = True
        if self.plan.verb is Verb.WATCH:
            probe(turn, now)
            return turn.close(now)
        for name, member in turn.state.members.items():
            member.sent, member.sent_at = Sent.UNDERWAY, now
            turn.order(SendVerb(name, self.plan.verb))
        return turn.close(now)

    def resume(self, now: datetime, *, away: timedelta | None = None, clean: bool = False) -> list[Action]:
        """After the process that carried this out died: what was ordered and never reported back.

        `away`: since that process was last alive, told once; None: not known. `clean`: it let go in order.

        A verb is not among it: whether it arrived is to be settled first. A probe and a smoke test are only
        questions, and are asked anew. After the verdict: its last orders, of which none is done twice.
        """
        turn = self._turn
        turn.open()
        if turn.is_over:
            order_end(turn, now)
            return turn.close(now)
        tell_resumed(turn, away, clean=clean, now=now)
        turn.state.silence.bear(now + CATCHING_UP)
        turn.state.silence.unsure = True
        for name, member in turn.state.members.items():
            if member.sent is Sent.UNDERWAY:
                turn.order(SettleVerb(name))
        turn.state.proof.out = False
        if turn.state.proof.since is None:
            turn.state.proof.log_first = now + LOG_FIRST
        if self.plan.verb is not Verb.STOP:
            probe(turn, now)
        if turn.state.proof.smoke_asked is not None and turn.state.proof.smoke is None:
            turn.order(RunSmoke())
        ask_again(turn)
        turn.changed = True
        return turn.close(now)

    def handle(self, event: Event, now: datetime) -> list[Action]:
        """One fact; after the verdict there is nothing to do."""
        turn = self._turn
        if turn.is_over:
            return []
        turn.open()
        self._take(event, now)
        self._look_again(now)
        return turn.close(now)

    def _take(self, event: Event, now: datetime) -> None:
        turn = self._turn
        match event:
            case LineRead():
                note_boot(turn, event.member, event.line.boot, now, line=event.line)
                take_line(turn, event.member, event.line, now)
            case UnitObserved():
                note_boot(turn, event.member, event.boot, now)
                member = turn.state.members[event.member]
                take_facts(turn, event.member, read_unit(self.plan, member, event, now), now)
            case EvidenceSampled() | SetupSeen():
                self._take_look(event, now)
            case ProbeAnswered():
                take_answer(turn, event.answer, now, asked=event.asked)
            case SmokeFinished():
                take_smoke(turn, event.result, now)
            case Ticked():
                turn.changed = True
            case VerbSent() | VerbRefused() | VerbMissed() | VerbUnanswered():
                self._take_verb(event, now)
            case HostLost() | HostRestored() | LogMissed():
                take_sight(turn, event, now)
            case PatienceExtended() | UnwatchAsked() | Superseded():
                self._take_word(event, now)
            case _:
                assert_never(event)

    def _take_look(self, event: EvidenceSampled | SetupSeen, now: datetime) -> None:
        """What was seen on a host."""
        if isinstance(event, SetupSeen):
            take_setup(self._turn, event)
        else:
            take_sample(self._turn, event.member, event.sample, now)

    def _take_word(self, event: PatienceExtended | UnwatchAsked | Superseded, now: datetime) -> None:
        """What a person said."""
        match event:
            case PatienceExtended():
                self.state.silence.extend(event.until)
                longer = spell_duration(event.until - now)
                self._turn.say(Noticed(f"Keeps waiting {longer} longer, whatever the log does.", by=event.by))
            case UnwatchAsked():
                finish(self._turn, Verdict.UNWATCHED, now, by=event.by)
            case Superseded():
                finish(self._turn, Verdict.SUPERSEDED, now, by=event.by)
            case _:
                assert_never(event)

    # ---- the verb -----------------------------------------------------------------------------------------

    def _take_verb(self, event: VerbSent | VerbRefused | VerbMissed | VerbUnanswered, now: datetime) -> None:
        member = self.state.members[event.member]
        match event:
            case VerbSent():
                started = member.invocation is not None and not member.provisional
                member.sent, member.sent_at = (Sent.SETTLED if started else Sent.ACCEPTED), now
            case VerbUnanswered():
                self._take_unanswered(event.member, event.error, now)
            case VerbMissed():
                self._take_missed(event, now)
            case VerbRefused():
                sentence = f"the {self.plan.verb} was not carried out: {event.error}"
                fail_with(self._turn, sentence, now, name=event.member)
            case _:
                assert_never(event)

    def _take_missed(self, event: VerbMissed, now: datetime) -> None:
        """For the host it is the first time."""
        if self.state.members[event.member].sent is not Sent.UNDERWAY:
            return
        if event.asked - self.plan.began < WANTED_FOR:
            member = self.state.members[event.member]
            member.sent, member.sent_at = Sent.UNDERWAY, now
            self._turn.order(SendVerb(event.member, self.plan.verb))
            return
        late = spell_duration(event.asked - self.plan.began)
        sentence = (
            f"the {self.plan.verb} was not carried out: kimi went away before it reached "
            f"{host_of(event.member)}, and {late} later nobody expects it any more; ask again if it is wanted"
        )
        fail_with(self._turn, sentence, now, name=event.member)

    def _take_unanswered(self, name: Member, error: str, now: datetime) -> None:
        member = self.state.members[name]
        member.sent, member.sent_at = Sent.UNANSWERED, now
        told = (
            f"The {self.plan.verb} went out to {host_of(name)} and no answer came back ({error}). "
            "It is not sent again: the unit's InvocationID will tell whether it arrived."
        )
        self._turn.say(Noticed(told))

    def _look_again(self, now: datetime) -> None:
        turn, state = self._turn, self._turn.state
        for check in _CHECKS:  # twelve for each line of a log: each looks first at what costs least to see
            if state.verdict is not None:
                return
            check(turn, now)


def fresh_state(plan: Plan) -> StartupState:
    """The state of an operation that has not begun."""
    members = {name: _fresh_member(plan, name) for name in plan.members}
    return StartupState(TrackerState(), SuspectsState(), Silence(since=plan.began), members)


def _fresh_member(plan: Plan, name: Member) -> MemberState:
    before = plan.before.get(name) if plan.verb is not Verb.WATCH else None
    return MemberState(unit_name=unit_of(name), old=[before] if before is not None else [])

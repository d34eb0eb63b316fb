"""One incident as a pure state machine: facts and `now` in, orders out, closed with facts at the end.

How it works
============

    opened ──► developments ──► over (recovered · closed by hand · stopped) ──► closed
                    ▲                     │
                    └──── down again ◄────┘ within half an hour

* **Opened** by a watch, with the signs so far. The log around the moment is asked for, and what it says names
  the cause (`incident_log`).
* **Developments** are replies, each once: a sign of another kind, a start and what came of it, people's
  words. The root message is edited to the present. Starts have threads of their own, which are linked and not
  repeated; a crash loop's attempts are counted (`incident_attempts`).
* **Escalation.** Nobody has acknowledged an outage for `escalate_after`: the group is called, once each time
  it goes down (`incident_people`). Nothing degraded calls anybody, and nothing that is muted.
* **Over.** The watch has seen enough good checks, or an operation's verdict: told with the downtime, how much
  of it startups took, the cause, and the whole timeline as a file. What goes down again soon goes on in the
  same thread.
* **In the channel** itself stand two messages at most: the root and one more, whichever comes first of what
  people there must know: it became an outage, it was escalated, it is over.

Every line of the timeline is in `state`, so the export can be made at any time, and a copy of the state goes
on just the same.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from bot.core.events import Ticked
from bot.core.incident_actions import (
    AffectedTold,
    AgainTold,
    ChangesTold,
    CloseIncident,
    EndTold,
    GapTold,
    IncidentAction,
    IncidentEnded,
    IncidentView,
    RunTold,
    SignTold,
    Told,
    UploadTimeline,
    WorsenedTold,
)
from bot.core.incident_attempts import check_attempts, take_read, take_start
from bot.core.incident_events import (
    Acknowledged,
    AffectedSeen,
    AttemptDied,
    ChangesSeen,
    DownAgain,
    IncidentEvent,
    IncidentMuted,
    IncidentUnmuted,
    Recovered,
    ResolvedByHand,
    RunLogRead,
    ServiceStopped,
    SignSeen,
    StartFollowed,
    StartOver,
    StartsSeen,
    Worsened,
)
from bot.core.incident_log import read_run
from bot.core.incident_people import call_anew, check_people, take_word
from bot.core.incident_state import (
    LINGER,
    Ending,
    EntryKind,
    IncidentPlan,
    IncidentState,
    Severity,
    Sign,
    SignKind,
)
from bot.core.incident_turn import IncidentTurn
from bot.core.incident_view import cause_of, downtime_of, loading_of, view_of

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import UserId
    from config.engine_file import EngineFile

_MOST_SIGNS = 40
_IN_LOG = frozenset({SignKind.PROCESS, SignKind.LOOP, SignKind.FATAL, SignKind.PROBE, SignKind.SMOKE})
# Once it is over; of a host, what was on it may start only then.
_STILL_TAKEN = (DownAgain, Ticked, StartOver, StartsSeen, RunLogRead, ChangesSeen)


class Incident:
    """The machine. The carrier feeds it facts, saves `state` after each, and carries out what it orders."""

    def __init__(self, plan: IncidentPlan, engine: EngineFile, state: IncidentState | None = None) -> None:
        self._turn = IncidentTurn(plan, engine, state or fresh_state(plan))

    @property
    def plan(self) -> IncidentPlan:
        return self._turn.plan

    @property
    def state(self) -> IncidentState:
        return self._turn.state

    @property
    def is_closed(self) -> bool:
        return self.state.closed

    def view(self, now: datetime) -> IncidentView:
        return view_of(self.plan, self.state, now)

    def begin(self, now: datetime) -> list[IncidentAction]:
        """The root message, and the questions about what happened."""
        turn = self._turn
        turn.open()
        turn.changed = True
        for sign in self.plan.signs:
            turn.note(EntryKind.SIGN, sign.brief, sign.at, evidence=sign.evidence)
        turn.note(EntryKind.OPENED, f"the incident is opened ({self.state.severity})", now)
        turn.send(Told.OPENED, self.plan.signs[0].brief if self.plan.signs else "", now)
        self._ask(now)
        return turn.close(now)

    def resume(self, now: datetime) -> list[IncidentAction]:
        """Taken up by the next process: the present is shown, and what hosts were asked is asked anew."""
        turn = self._turn
        turn.open()
        if self.is_closed:
            return []
        turn.changed = True
        if self.state.lost:
            self.state.lost = False
            turn.say(GapTold(), EntryKind.GAP, now)
        if self.state.read is None and self.state.ending is None:
            self.state.asked.clear()
            self._ask(now)
        return turn.close(now)

    def handle(self, event: IncidentEvent, now: datetime) -> list[IncidentAction]:
        turn, state = self._turn, self.state
        if state.closed or (state.ending is not None and not isinstance(event, _STILL_TAKEN)):
            return []
        turn.open()
        self._take(event, now)
        if state.ending is None:
            check_attempts(turn, now)
            check_people(turn, now)
        elif state.recovered is not None and now - state.recovered >= LINGER:
            state.closed = True
            turn.order(CloseIncident())
        return turn.close(now)

    def _take(self, event: IncidentEvent, now: datetime) -> None:
        match event:
            case SignSeen() | Worsened() | DownAgain():
                self._take_sign(event, now)
            case RunLogRead():
                self._take_log(event, now)
            case ChangesSeen():
                self._take_changes(event, now)
            case AttemptDied() | StartFollowed() | StartsSeen() | StartOver():
                take_start(self._turn, event, now)
            case Acknowledged() | IncidentMuted() | IncidentUnmuted() | ResolvedByHand():
                if isinstance(event, ResolvedByHand):
                    self._end(Ending.BY_HAND, now, by=event.by)
                else:
                    take_word(self._turn, event, now)
            case Recovered() | ServiceStopped() | AffectedSeen() | Ticked():
                self._take_course(event, now)
            case _:
                assert_never(event)

    def _take_course(self, event: Recovered | ServiceStopped | AffectedSeen | Ticked, now: datetime) -> None:
        match event:
            case Recovered():
                self._end(Ending.RECOVERED, now, since=event.since)
            case ServiceStopped():
                self._end(Ending.STOPPED, now, since=event.since, sentence=event.sentence)
            case AffectedSeen():
                self._take_affected(event, now)
            case Ticked():
                self._turn.changed = self.state.ending is None
            case _:
                assert_never(event)

    # ---- what is seen -------------------------------------------------------------------------------------

    def _ask(self, now: datetime, *, again: bool = False) -> None:
        """The log of each run that broke, and what the service ran with; `again`: of the run that is new."""
        if self.plan.service is None or not any(sign.kind in _IN_LOG for sign in self.state.signs):
            return
        for member in self.plan.members:
            run = None if again else self.plan.invocations.get(member)
            self._turn.ask(member, run, now, changes=not again)

    def _take_sign(self, event: SignSeen | Worsened | DownAgain, now: datetime) -> None:
        turn, state, sign = self._turn, self.state, event.sign
        state.signs = _with(state.signs, sign)
        match event:
            case SignSeen():
                turn.say(SignTold(sign), EntryKind.SIGN, now, evidence=sign.evidence)
            case Worsened():
                state.severity, state.worse, state.down_since = event.severity, now, sign.at
                told = WorsenedTold(sign)
                turn.say(told, EntryKind.WORSE, now, evidence=sign.evidence, loud=True)
                self._ask(now, again=True)
            case DownAgain():
                self._take_again(event, now)
            case _:
                assert_never(event)

    def _take_again(self, event: DownAgain, now: datetime) -> None:
        turn, state = self._turn, self.state
        served = event.since - state.recovered if state.recovered is not None else None
        if state.ending is None:
            turn.say(SignTold(event.sign), EntryKind.SIGN, now, evidence=event.sign.evidence)
            return
        state.times += 1
        state.severity, state.ending, state.recovered, state.ended_by = event.severity, None, None, None
        if event.severity is not Severity.DEGRADED:
            state.down_since = event.since
            call_anew(state, now)
        told = AgainTold(event.sign, state.times, served)
        turn.say(told, EntryKind.AGAIN, now, evidence=event.sign.evidence)
        self._ask(now, again=True)

    def _take_affected(self, event: AffectedSeen, now: datetime) -> None:
        state = self.state
        added = tuple(each for each in event.services if each not in state.affected)
        if added:
            state.affected = (*state.affected, *added)
            self._turn.say(AffectedTold(added, len(state.affected)), EntryKind.SIGN, now)

    def _take_log(self, event: RunLogRead, now: datetime) -> None:
        turn, state = self._turn, self.state
        read = read_run(event.lines, turn.engine, member=event.member, now=now)
        attempts = state.last_attempts
        attempt = next((each for each in attempts if each.invocation == event.invocation), None)
        if attempt is not None:
            take_read(turn, attempt, read, now)
            return
        told = state.read is not None and state.read.is_known and state.read_time == state.times
        if not read.excerpt or told or state.ending is not None:
            return  # another member has told it, or there is nothing to show
        state.read_time = state.times
        state.read = read if state.read is None or not state.read.is_known else state.read
        turn.say(RunTold(read), EntryKind.LOG, now, evidence=read.excerpt)

    def _take_changes(self, event: ChangesSeen, now: datetime) -> None:
        if self.state.changed is None and event.changed.told:
            self.state.changed = event.changed
            self._turn.say(ChangesTold(event.changed), EntryKind.CHANGES, now, evidence=event.changed.told)

    # ---- the end ------------------------------------------------------------------------------------------

    def _end(
        self,
        ending: Ending,
        now: datetime,
        *,
        since: datetime | None = None,
        sentence: str = "",
        by: UserId | None = None,
    ) -> None:
        turn, state = self._turn, self.state
        state.downtime = downtime_of(state, max(since or now, self.plan.began))
        state.down_since, state.ending, state.recovered, state.ended_by = None, ending, now, by
        state.over = since or now
        told = EndTold(
            ending=ending,
            severity=state.severity,
            after=max(state.over - self.plan.began, timedelta()),
            downtime=state.downtime,
            loading=loading_of(state) or None,
            since=since if ending is Ending.RECOVERED else None,
            times=state.times,
            cause=cause_of(state),
            by=by,
            sentence=sentence,
        )
        kind = EntryKind.RECOVERED if ending is Ending.RECOVERED else EntryKind.CLOSED
        turn.say(told, kind, now, by=by, loud=True, told=Told.RESOLVED)
        state.sequence += 1
        turn.order(UploadTimeline(state.sequence))
        turn.order(IncidentEnded(ending, by))


def fresh_state(plan: IncidentPlan) -> IncidentState:
    """The state of an incident that has not begun."""
    down = plan.severity is not Severity.DEGRADED
    return IncidentState(
        severity=plan.severity,
        signs=list(plan.signs),
        affected=plan.affected,
        muted=plan.muted,
        worse=plan.opened if down else None,
        down_since=plan.began if down else None,
    )


def _with(signs: list[Sign], sign: Sign) -> list[Sign]:
    """The first half tells what broke first; of the rest the newest stay."""
    kept = [*signs, sign]
    if len(kept) > _MOST_SIGNS:
        del kept[_MOST_SIGNS // 2]
    return kept

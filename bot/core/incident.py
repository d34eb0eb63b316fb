"""One incident as a pure state machine: facts and `now` in, orders out, closed with facts at the end.

How it works
============

    opened ──► developments ──► over (recovered · closed by hand · stopped · unwatched) ──► closed
                    ▲                     │
                    └──── down again ◄────┘ within half an hour

* **Opened** by a watch, with the signs so far. The log around the moment is asked for, and what it says names
  the cause (`incident_log`).
* **Developments** are replies, each once: a sign of another kind, a start and what came of it, people's
  words. The root message is edited to the present (`incident_signs`). Starts have threads of their own, which
  are linked and not repeated; a crash loop's attempts are counted (`incident_attempts`).
* **Escalation.** Nobody has acknowledged an outage for `escalate_after`: the group is called, once each time
  it goes down (`incident_people`). Nothing degraded calls anybody, and nothing that is muted.
* **Over.** The watch has seen enough good checks, or an operation's verdict: told with the downtime, how much
  of it startups took, the cause, and the whole timeline as a file. What goes down again soon goes on in the
  same thread. One that nobody watches any more ends with just that, for nobody knows how it is.
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
    CloseIncident,
    EndTold,
    GapTold,
    IncidentAction,
    IncidentEnded,
    IncidentView,
    Told,
    UploadTimeline,
)
from bot.core.incident_attempts import check_attempts, take_start
from bot.core.incident_events import (
    Acknowledged,
    AffectedSeen,
    AttemptDied,
    ChangesSeen,
    DownAgain,
    IncidentEvent,
    IncidentMuted,
    IncidentUnmuted,
    PresentSeen,
    Recovered,
    ResolvedByHand,
    RunLogRead,
    ServiceStopped,
    SignSeen,
    StartFollowed,
    StartOver,
    StartsSeen,
    WatchEnded,
    Worsened,
)
from bot.core.incident_people import check_people, take_word
from bot.core.incident_signs import ask, ask_anew, take_affected, take_changes, take_log, take_sign
from bot.core.incident_state import (
    LINGER,
    Ending,
    EntryKind,
    IncidentPlan,
    IncidentState,
    Severity,
)
from bot.core.incident_turn import IncidentTurn
from bot.core.incident_view import (
    all_causes,
    began_of,
    downtime_of,
    loading_of,
    times_of,
    view_of,
    was_hidden,
    worst_of,
)
from bot.core.incident_words import tell_state
from bot.core.times import bring_back

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import UserId
    from config.engine_file import EngineFile

# Once it is over; of a host, what was on it may start only then.
_STILL_TAKEN = (DownAgain, Worsened, Ticked, StartOver, StartsSeen, RunLogRead, ChangesSeen)


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
            turn.note(EntryKind.SIGN, sign.brief, sign.at)
        what = tell_state(self.state.severity, hidden=was_hidden(self.plan, self.state))
        turn.note(EntryKind.OPENED, f"the incident is opened ({what})", now)
        turn.send(Told.OPENED, self.plan.signs[0].brief if self.plan.signs else "", now)
        ask(turn, now)
        return turn.close(now)

    def resume(self, now: datetime) -> list[IncidentAction]:
        """Taken up by the next process: the present is shown, and what hosts were asked is asked anew."""
        turn = self._turn
        turn.open()
        if self.is_closed:
            return []
        turn.changed = True
        bring_back(self.state, now)  # whoever wrote it may have a clock that is ahead
        if self.state.lost:
            self.state.lost = False
            turn.say(GapTold(), EntryKind.GAP, now)
        ask_anew(turn, now)
        return turn.close(now)

    def handle(self, event: IncidentEvent, now: datetime) -> list[IncidentAction]:
        turn, state = self._turn, self.state
        if state.closed or (state.ending is not None and not isinstance(event, _STILL_TAKEN)):
            return []
        turn.open()
        if state.ending is not None and state.recovered is not None and now - state.recovered >= LINGER:
            state.closed = True  # whatever comes now: its watch counts on that
            turn.order(CloseIncident())
            return turn.close(now)
        self._take(event, now)
        if state.ending is None:
            check_attempts(turn, now)
            check_people(turn, now)
        return turn.close(now)

    def _take(self, event: IncidentEvent, now: datetime) -> None:
        match event:
            case SignSeen() | PresentSeen() | Worsened() | DownAgain():
                take_sign(self._turn, event, now)
            case RunLogRead():
                take_log(self._turn, event, now)
            case ChangesSeen():
                take_changes(self._turn, event, now)
            case AttemptDied() | StartFollowed() | StartsSeen() | StartOver():
                take_start(self._turn, event, now)
            case Acknowledged() | IncidentMuted() | IncidentUnmuted() | ResolvedByHand():
                if isinstance(event, ResolvedByHand):
                    self._end(Ending.BY_HAND, now, by=event.by)
                else:
                    take_word(self._turn, event, now)
            case Recovered() | ServiceStopped() | WatchEnded() | AffectedSeen() | Ticked():
                self._take_course(event, now)
            case _:
                assert_never(event)

    def _take_course(
        self, event: Recovered | ServiceStopped | WatchEnded | AffectedSeen | Ticked, now: datetime
    ) -> None:
        match event:
            case Recovered():
                self._end(Ending.RECOVERED, now, since=event.since)
            case ServiceStopped():
                self._end(Ending.STOPPED, now, since=event.since, sentence=event.sentence)
            case WatchEnded():
                self.state.ended_why = event.sentence
                self._end(Ending.UNWATCHED, now, sentence=event.sentence)
            case AffectedSeen():
                take_affected(self._turn, event, now)
            case Ticked():
                self._turn.changed = self.state.ending is None
            case _:
                assert_never(event)

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
        state.downtime = downtime_of(state, max(since or now, began_of(self.plan, state)))
        state.down_since, state.ending, state.recovered, state.ended_by = None, ending, now, by
        state.over = since or now
        told = EndTold(
            ending=ending,
            severity=state.severity,
            after=max(state.over - began_of(self.plan, state), timedelta()),
            downtime=state.downtime,
            loading=loading_of(state) or None,
            since=since if ending is Ending.RECOVERED else None,
            times=times_of(self.plan, state),
            worst=worst_of(self.plan, state),
            hidden=was_hidden(self.plan, state),
            cause=all_causes(state),
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
        falls=int(down),
        worse=plan.opened if down else None,
        down_since=plan.began if down else None,
    )

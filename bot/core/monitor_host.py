"""The watch over one host: whether it is there, in half, or gone as a whole with all that runs on it.

SSH is the way to most services, so a host whose SSH tells nothing is out of sight, and one incident tells
that for all of them (`monitor_sight`). Only one that does not answer at all is gone. One that is there, while
something on it still answers past SSH, is told as degraded and pages nobody. One that is there and on which
nothing is seen to serve pages as one that is gone does, in words of its own: it may be well, and nobody can
tell. Nothing is told of a host that was never seen. Where no host at all answers, one of them tells it for
all (`monitor_network`), and the others wait: what is still silent once one of them answers is counted anew,
and then told of each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from bot.core.events import Ticked
from bot.core.incident_events import (
    AffectedSeen,
    DownAgain,
    IncidentMuted,
    IncidentUnmuted,
    PresentSeen,
    Recovered,
    SignSeen,
    Worsened,
)
from bot.core.incident_state import FLAP_WINDOW, IncidentPlan, Severity, Sign, incident_of
from bot.core.monitor_closed import Means, meaning_of
from bot.core.monitor_events import (
    DirectAsked,
    HostAction,
    HostChecked,
    HostEvent,
    IncidentClosed,
    IncidentFound,
    Muted,
    OpenIncident,
    TellIncident,
    Unmuted,
)
from bot.core.monitor_sight import note_answers, note_seen, note_unseen
from bot.core.monitor_state import HostPlan, HostState, Mute, Sight
from bot.core.times import bring_back
from bot.core.words import join_names

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.incident_events import IncidentEvent
    from bot.core.monitor_sight import Shown


class HostWatch:
    """Told of each round before the services of the host are; `sight` is what they are told with it."""

    def __init__(self, plan: HostPlan, state: HostState | None = None) -> None:
        self.plan = plan
        self.state = state or HostState()
        self.dirty = False
        self._begun = False
        self._out: list[HostAction] = []

    @property
    def sight(self) -> Sight:
        return self.state.sight

    def handle(self, event: HostEvent, now: datetime) -> list[HostAction]:
        if not self._begun:  # whoever wrote the state may have a clock that is ahead
            self._begun = True
            bring_back(self.state, now)
        self._out = []
        before = self._kept()
        self._check_mute(now)
        match event:
            case HostChecked() if event.error is None:
                self._take_seen(now)
            case HostChecked():
                note_answers(self.state, event, now)
                self._take_unseen(event, now)
            case DirectAsked():
                note_answers(self.state, event, now)
            case Muted() | Unmuted():
                self._take_mute(event)
            case IncidentClosed():
                self._take_closed(event)
            case IncidentFound():
                self._take_found(event, now)
            case Ticked():
                pass
            case _:
                assert_never(event)
        self.dirty = before != self._kept()
        return self._out

    def _kept(self) -> tuple[object, ...]:
        """What must be on record; counts of rounds may begin anew."""
        state = self.state
        told = (len(state.told), state.headline, state.affected)
        waived = (state.waived, state.waives, state.leads, state.waits)
        mute = state.mute and (state.mute.until, state.mute.by)
        return (state.sight, state.seen, state.incident, state.severity, state.recovered, waived, told, mute)

    # ---- what is seen -------------------------------------------------------------------------------------

    def _take_seen(self, now: datetime) -> None:
        state = self.state
        note_seen(self.plan, state, now)
        if state.severity is not None and state.goods < self.plan.successes:
            return
        if state.severity is not None:
            self._tell(Recovered(state.good_since or now))
            state.recovered = now
        state.sight, state.severity, state.waived, state.waives = Sight.SEEN, None, False, None
        state.leads = state.waits = False

    def _take_unseen(self, event: HostChecked, now: datetime) -> None:
        state = self.state
        shown = note_unseen(self.plan, state, event, now)
        if state.fails < self.plan.failures:
            state.sight = state.sight if state.severity is not None else Sight.DOUBTFUL
            return
        state.sight = shown.sight
        muted = event.muted or state.mute is not None
        if muted and state.severity not in {shown.severity, Severity.HOST}:
            return  # what is still so when that ends is told then
        if self._waits(event, shown):
            return
        if state.seen and not self._is_waived(shown.severity):
            self._take_loss(shown, now)

    def _waits(self, event: HostChecked, shown: Shown) -> bool:
        """Whether the incident of another host tells it, or did a moment ago."""
        state, waited = self.state, self.state.waits
        leader = event.dark.leader if event.dark is not None and not shown.alive else None
        state.waits = leader not in {None, self.plan.host} and state.severity is not Severity.HOST
        if waited and not state.waits:
            # A look that was under way as the network came back proves nothing. Or who leads is not here yet.
            state.fails = 0
            return True
        return state.waits

    def _is_waived(self, severity: Severity) -> bool:
        """Somebody knows of it. That a host refuses SSH is no word about its being gone later."""
        state = self.state
        return state.waived and not (state.waives is Severity.DEGRADED and severity is Severity.HOST)

    def _take_mute(self, event: Muted | Unmuted) -> None:
        """The whole host is; its services have been told of it beside."""
        state, was = self.state, self.state.mute is not None
        if isinstance(event, Muted):
            state.mute = Mute(event.until, event.by, event.reason)
        else:
            state.mute = None
        if state.severity is None:
            return
        if isinstance(event, Muted):
            self._tell(IncidentMuted(event.by, event.until, event.reason))
        elif was:
            self._tell(IncidentUnmuted(event.by))

    def _check_mute(self, now: datetime) -> None:
        if self.state.mute is not None and now >= self.state.mute.until:
            self.state.mute = None
            if self.state.severity is not None:
                self._tell(IncidentUnmuted())

    def _take_closed(self, event: IncidentClosed) -> None:
        state = self.state
        match meaning_of(event, incident=state.incident, severity=state.severity, told=state.told_at):
            case Means.NOTHING:
                pass
            case Means.ANEW:
                self.state = HostState(mute=state.mute)
            case Means.KNOWN:
                state.waives, state.waived = state.severity, True
                state.severity, state.recovered = None, None
            case means:
                assert_never(means)

    def _take_found(self, event: IncidentFound, now: datetime) -> None:
        """It outlived what this watch remembered: how it goes on, the next rounds tell."""
        state = self.state
        if state.incident == event.incident and state.severity is not None:
            return
        if state.severity is not None or state.incident == event.incident:  # it was seen in between
            self._out.append(
                TellIncident(event.incident, Recovered(state.recovered or state.last_seen or now))
            )
            return
        state.incident, state.severity = event.incident, event.severity
        state.seen, state.recovered, state.waived, state.waives = True, None, False, None
        state.told, state.headline = [], ""

    # ---- what is told -------------------------------------------------------------------------------------

    def _take_loss(self, shown: Shown, now: datetime) -> None:
        state, severity = self.state, shown.severity
        sign = self._sign(shown, now)
        since = state.failing_since or now
        began = replace(sign, at=since)
        state.leads = bool(shown.hosts)
        if state.severity is severity or (state.severity is Severity.HOST and severity is Severity.DEGRADED):
            self._tell_change(sign, shown)
            return
        if state.severity is not None:
            self._tell(Worsened(severity, sign, state.last_seen))
            state.told.append(shown.what)
        elif state.incident is not None and state.recovered and now - state.recovered <= FLAP_WINDOW:
            self._tell(DownAgain(since, began, severity, state.last_seen))
            state.told = [shown.what]
        else:
            self._open(severity, began, shown, now)
            state.told, state.affected = [shown.what], shown.hidden
        state.severity, state.recovered, state.headline = severity, None, shown.sentence
        state.told_at = now
        state.waived, state.waives = False, None
        self._tell_affected(shown)

    def _tell_change(self, sign: Sign, shown: Shown) -> None:
        """A host that was gone may come back and refuse SSH for good: each such thing is told once.

        What it did before and does again is shown, but not told again.
        """
        state = self.state
        if not shown.hosts and (shown.what != state.shows or state.alike < self.plan.failures):
            return
        if shown.sentence != state.headline:
            fresh = bool(state.told) and shown.what not in state.told  # of one that was found, all was told
            state.headline = shown.sentence
            state.told += [shown.what] if shown.what not in state.told else []
            self._tell(SignSeen(sign) if fresh else PresentSeen(sign))
        self._tell_affected(shown)

    def _tell_affected(self, shown: Shown) -> None:
        if set(shown.hidden) != set(self.state.affected):
            self.state.affected = shown.hidden
            self._tell(AffectedSeen(shown.hidden))

    def _tell(self, event: IncidentEvent) -> None:
        if self.state.incident is not None:
            self._out.append(TellIncident(self.state.incident, event))

    def _sign(self, shown: Shown, now: datetime) -> Sign:
        """What the host answered stands with it, in its own words."""
        state = self.state
        at = state.shows_since if shown.what == state.shows else None
        every = (f"no answer from {join_names(shown.hosts)}",) if shown.hosts else ()
        evidence = (*every, state.error) if state.error else every
        return Sign(shown.kind, at or now, shown.sentence, evidence=evidence)

    def _open(self, severity: Severity, sign: Sign, shown: Shown, now: datetime) -> None:
        plan = self.plan
        opened = IncidentPlan(
            incident=incident_of(plan.host, now),
            subject=plan.host,
            host=plan.host,
            severity=severity,
            began=sign.at,
            opened=now,
            signs=(sign,),
            affected=shown.hidden,
            last_healthy=self.state.last_seen,
            host_answers=shown.alive,
            escalate_after=plan.escalate_after,
            group=plan.group,
        )
        self.state.incident = opened.incident
        self._out.append(OpenIncident(opened))

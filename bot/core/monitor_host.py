"""The watch over one host: whether it is there, in half, or gone as a whole with all that runs on it.

SSH is the way to most services, so a host whose SSH tells nothing is out of sight, and one incident tells
that for all of them. Only one that does not answer at all may be gone: not where SSH is refused, and not
where something on it still answers past SSH, as far as the newest looks tell. Such a host lives: that is told
as degraded, as what it is, and pages nobody. Nothing is told of a host that was never seen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from bot.core.events import Ticked
from bot.core.incident_events import AffectedSeen, DownAgain, Recovered, SignSeen, Worsened
from bot.core.incident_state import FLAP_WINDOW, IncidentPlan, Severity, Sign, SignKind, incident_of
from bot.core.monitor_events import (
    DirectAsked,
    HostAction,
    HostChecked,
    HostEvent,
    IncidentClosed,
    IncidentFound,
    OpenIncident,
    TellIncident,
)
from bot.core.monitor_state import HostPlan, HostState, Sight
from bot.core.words import count

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import ServiceName
    from bot.core.incident_events import IncidentEvent


_APART = 0.5  # of `every`: looks that count
_FRESH = 1.5  # times the `every` of whom was asked: so long an answer tells that the host is there
_SILENT = "the host does not answer SSH"
_NO_SSH = "SSH does not answer"


class HostWatch:
    """Told of each round before the services of the host are; `sight` is what they are told with it."""

    def __init__(self, plan: HostPlan, state: HostState | None = None) -> None:
        self.plan = plan
        self.state = state or HostState()
        self.dirty = False
        self._out: list[HostAction] = []

    @property
    def sight(self) -> Sight:
        return self.state.sight

    def handle(self, event: HostEvent, now: datetime) -> list[HostAction]:
        self._out = []
        before = self._kept()
        match event:
            case HostChecked() if event.error is None:
                self._take_seen(now)
            case HostChecked():
                self._note_answers(event, now)
                self._take_unseen(event, now)
            case DirectAsked():
                self._note_answers(event, now)
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
        told = (len(state.told), state.affected)
        return (state.sight, state.seen, state.incident, state.severity, state.recovered, state.waived, told)

    # ---- what is seen -------------------------------------------------------------------------------------

    def _take_seen(self, now: datetime) -> None:
        state = self.state
        if state.goods == 0 or state.good is None or now - state.good >= self.plan.every * _APART:
            state.goods, state.good = state.goods + 1, now
        state.good_since = state.good_since or now
        state.seen, state.last_seen, state.fails, state.failing_since = True, now, 0, None
        state.barred, state.barred_at, state.shows, state.alike = "", None, "", 0
        if state.severity is not None and state.goods < self.plan.successes:
            return
        if state.severity is not None:
            self._tell(Recovered(state.good_since))
            state.recovered = now
        state.sight, state.severity, state.waived = Sight.SEEN, None, False

    def _note_answers(self, event: HostChecked | DirectAsked, now: datetime) -> None:
        """Each service is asked in its own time, so what the others last answered is remembered."""
        answers = self.state.answers
        for service in event.silent:
            answers.pop(service, None)
        answers.update(dict.fromkeys(event.answering, now))

    def _answering(self, now: datetime) -> tuple[ServiceName, ...]:
        direct, answers = self.plan.direct, self.state.answers
        return tuple(
            service
            for service, at in answers.items()
            if now - at <= direct.get(service, self.plan.every) * _FRESH
        )

    def _barred(self, now: datetime) -> str:
        """What SSH does instead of not answering; "" where nothing does."""
        at = self.state.barred_at
        return self.state.barred if at is not None and now - at <= self.plan.every * _FRESH else ""

    def _take_unseen(self, event: HostChecked, now: datetime) -> None:
        state = self.state
        if event.barred is not None:
            state.barred, state.barred_at = event.barred, now
        answering, barred = self._answering(now), self._barred(now)
        half = bool(answering or barred)
        shows = barred or (_NO_SSH if half else _SILENT)
        # Each service is looked at in its own time; ten of them in one second are one look at the host.
        if state.fails == 0 or state.failed is None or now - state.failed >= self.plan.every * _APART:
            state.fails, state.failed = state.fails + 1, now
            state.alike = state.alike + 1 if shows == state.shows else 1
            state.shows_since = state.shows_since if shows == state.shows else now
            state.shows = shows
        state.goods, state.good_since = 0, None
        state.failing_since = state.failing_since or now
        state.error = event.error or ""
        if state.fails < self.plan.failures:
            state.sight = state.sight if state.severity is not None else Sight.DOUBTFUL
            return
        state.sight = Sight.HALF if half else Sight.GONE
        if state.seen and not state.waived:
            self._take_loss(Severity.DEGRADED if half else Severity.HOST, shows, len(answering), now)

    def _take_closed(self, event: IncidentClosed) -> None:
        if event.incident == self.state.incident and self.state.severity is not None:
            self.state.severity, self.state.recovered, self.state.waived = None, None, True

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
        state.seen, state.recovered, state.waived, state.told = True, None, False, []

    # ---- what is told -------------------------------------------------------------------------------------

    def _take_loss(self, severity: Severity, shows: str, answering: int, now: datetime) -> None:
        state = self.state
        affected = self._affected(severity)
        at = state.shows_since if shows == state.shows else None
        sign = self._sign(severity, shows, answering, len(affected), at or now)
        since = state.failing_since or now
        began = replace(sign, at=since)
        if state.severity is severity or (state.severity is Severity.HOST and severity is Severity.DEGRADED):
            self._tell_change(sign, shows)
            return
        if state.severity is not None:
            self._tell(Worsened(severity, sign))
            state.told.append(shows)
        elif state.incident is not None and state.recovered and now - state.recovered <= FLAP_WINDOW:
            self._tell(DownAgain(since, began, severity))
            state.told = [shows]
        else:
            self._open(severity, began, affected, now)
            state.told, state.affected = [shows], affected
        state.severity, state.recovered = severity, None
        self._tell_affected(affected)

    def _tell_change(self, sign: Sign, shows: str) -> None:
        """A host that was gone may come back and refuse SSH for good: each such thing is told once."""
        state = self.state
        if not state.told:  # it was found: its thread has told the first
            state.told.append(shows)
        if shows in state.told or shows != state.shows or state.alike < self.plan.failures:
            return
        state.told.append(shows)
        self._tell(SignSeen(sign))

    def _affected(self, severity: Severity) -> tuple[ServiceName, ...]:
        """The services that cannot be seen: those reached past SSH only where the whole host is gone."""
        plan = self.plan
        hidden = (each for each in plan.services if severity is Severity.HOST or each not in plan.direct)
        return tuple(dict.fromkeys((*hidden, *plan.others)))

    def _tell_affected(self, affected: tuple[ServiceName, ...]) -> None:
        """Where there are more than were told."""
        if set(affected) - set(self.state.affected):
            self.state.affected = affected
            self._tell(AffectedSeen(affected))

    def _tell(self, event: IncidentEvent) -> None:
        if self.state.incident is not None:
            self._out.append(TellIncident(self.state.incident, event))

    def _sign(self, severity: Severity, shows: str, answering: int, hidden: int, at: datetime) -> Sign:
        """What the host answered stands with it, in its own words."""
        told = shows
        if severity is Severity.DEGRADED and answering:
            told += f", though {count(answering, 'service')} on it can be reached another way"
        elif severity is Severity.DEGRADED and hidden:
            told += f", so {count(hidden, 'service')} there cannot be seen"
        evidence = (self.state.error,) if self.state.error else ()
        return Sign(SignKind.SIGHT, at, told, evidence=evidence)

    def _open(self, severity: Severity, sign: Sign, affected: tuple[ServiceName, ...], now: datetime) -> None:
        plan = self.plan
        opened = IncidentPlan(
            incident=incident_of(plan.host, now),
            subject=plan.host,
            host=plan.host,
            severity=severity,
            began=sign.at,
            opened=now,
            signs=(sign,),
            affected=affected,
            last_healthy=self.state.last_seen,
            host_answers=severity is Severity.DEGRADED,
            escalate_after=plan.escalate_after,
            group=plan.group,
        )
        self.state.incident = opened.incident
        self._out.append(OpenIncident(opened))

"""The watch over one host: whether it is there, in half, or gone as a whole with all that runs on it.

SSH is the way to most services, so a host that SSH does not reach is out of sight, and one incident tells
that for all of them. Where something on it still answers past SSH, the host lives: that is told as degraded
and pages nobody. Nothing is told of a host that was never seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from bot.core.events import Ticked
from bot.core.incident_events import DownAgain, Recovered, Worsened
from bot.core.incident_state import FLAP_WINDOW, IncidentPlan, Severity, Sign, SignKind, incident_of
from bot.core.monitor_events import (
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


_APART = 0.5  # of `every`: failures that count


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
                self._take_unseen(event, now)
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
        return (state.sight, state.seen, state.incident, state.severity, state.recovered, state.waived)

    def _take_seen(self, now: datetime) -> None:
        state = self.state
        state.goods += 1
        state.good_since = state.good_since or now
        state.seen, state.last_seen, state.fails, state.failing_since = True, now, 0, None
        if state.severity is not None and state.goods < self.plan.successes:
            return
        if state.severity is not None and state.incident is not None:
            self._out.append(TellIncident(state.incident, Recovered(state.good_since)))
            state.recovered = now
        state.sight, state.severity, state.waived = Sight.SEEN, None, False

    def _take_unseen(self, event: HostChecked, now: datetime) -> None:
        state = self.state
        # Each service is looked at in its own time; ten of them in one second are one look at the host.
        if state.fails == 0 or state.failed is None or now - state.failed >= self.plan.every * _APART:
            state.fails, state.failed = state.fails + 1, now
        state.goods, state.good_since = 0, None
        state.failing_since = state.failing_since or now
        state.error = event.error or ""
        if state.fails < self.plan.failures:
            state.sight = state.sight if state.severity is not None else Sight.DOUBTFUL
            return
        half = bool(event.answering)
        state.sight = Sight.HALF if half else Sight.GONE
        if state.seen and not state.waived:
            self._tell(Severity.DEGRADED if half else Severity.HOST, event, now)

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
        state.seen, state.recovered, state.waived = True, None, False

    def _tell(self, severity: Severity, event: HostChecked, now: datetime) -> None:
        state = self.state
        if state.severity is severity or (state.severity is Severity.HOST and severity is Severity.DEGRADED):
            return
        sign = self._sign(severity, event, now)
        since = state.failing_since or now
        if state.severity is not None and state.incident is not None:
            self._out.append(TellIncident(state.incident, Worsened(severity, sign)))
        elif state.incident is not None and state.recovered and now - state.recovered <= FLAP_WINDOW:
            self._out.append(TellIncident(state.incident, DownAgain(since, sign, severity)))
        else:
            self._open(severity, sign, now)
        state.severity, state.recovered = severity, None

    def _sign(self, severity: Severity, event: HostChecked, now: datetime) -> Sign:
        since = self.state.failing_since or now
        if severity is Severity.DEGRADED:
            answering = count(len(event.answering), "service")
            told = f"SSH does not answer, though {answering} on it can be reached another way"
        else:
            told = "the host does not answer SSH"
        return Sign(SignKind.SIGHT, since, told, evidence=(self.state.error,) if self.state.error else ())

    def _open(self, severity: Severity, sign: Sign, now: datetime) -> None:
        plan = self.plan
        opened = IncidentPlan(
            incident=incident_of(plan.host, now),
            subject=plan.host,
            host=plan.host,
            severity=severity,
            began=sign.at,
            opened=now,
            signs=(sign,),
            affected=plan.services,
            last_healthy=self.state.last_seen,
            host_answers=False,
            escalate_after=plan.escalate_after,
            group=plan.group,
        )
        self.state.incident = opened.incident
        self._out.append(OpenIncident(opened))

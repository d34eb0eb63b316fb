"""One incident as its watch and people tell it, twice, with a reckoning of its own, and what hosts show."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from pydantic import TypeAdapter

from bot.core.events import (
    HostName,
    ProbeAnswer,
    ServiceName,
    UnitState,
    UserId,
)
from bot.core.incident import Incident
from bot.core.incident_actions import (
    CloseIncident,
    IncidentAction,
)
from bot.core.incident_events import (
    DownAgain,
    IncidentEvent,
    Recovered,
    ResolvedByHand,
    ServiceStopped,
    WatchEnded,
    Worsened,
)
from bot.core.incident_state import LINGER, IncidentPlan, IncidentState, Severity
from bot.core.monitor_state import HostState, WatchState
from config.engine_file import load_engine

BEGAN = datetime(2026, 5, 29, 3, 0, tzinfo=UTC)
SERVICE, HOST, FAR = ServiceName("kimi-k2.5"), HostName("llm-two"), HostName("llm-three")
EVERY = timedelta(seconds=15)
WHO = UserId("U0123")
ENGINE = load_engine("sglang")
WATCH, HOST_WATCH, INCIDENT = TypeAdapter(WatchState), TypeAdapter(HostState), TypeAdapter(IncidentState)
GOOD = ProbeAnswer(health=200, models=("kimi",), listener=True)
PROBES = {"good": GOOD, "busy": ProbeAnswer(health=503), "refused": ProbeAnswer(error="connection refused")}
RUNNING = UnitState("loaded", "active", "running", main_pid=7, restart_policy="always")
UNITS = {
    "running": RUNNING,
    "failed": replace(RUNNING, active="failed", sub="failed", result="signal", exec_code=2, exec_status=11),
    "looping": replace(
        RUNNING, active="activating", sub="auto-restart", result="signal", exec_code=2, exec_status=11
    ),
    "stopping": replace(RUNNING, active="deactivating", sub="stop-sigterm"),
    "stopped": replace(RUNNING, active="inactive", sub="dead", main_pid=0, exec_code=1),
}
LINES = {
    "died": "u.service: Main process exited, code=killed, status=11/SEGV",
    "failed": "u.service: Failed with result 'signal'.",
    "restarting": "u.service: Scheduled restart job, restart counter is at {}.",
    "stopping": "Stopping u.service - U...",
    "stopped": "Stopped u.service - U.",
    "started": "Started u.service - U.",
}


@dataclass
class Story:
    """One incident, twice, and a reckoning of its own of how long it was down."""

    plan: IncidentPlan
    incident: Incident
    twin: Incident
    actions: list[IncidentAction] = field(default_factory=list)
    down_since: datetime | None = None
    downtime: timedelta = timedelta()
    closed: bool = False

    @property
    def state(self) -> IncidentState:
        return self.incident.state

    def begin(self, now: datetime) -> list[IncidentAction]:
        begun = self.incident.begin(now)
        assert self.twin.begin(now) == begun
        if self.plan.severity is not Severity.DEGRADED:
            self.down_since = self.plan.began
        return self.take(begun)

    def tell(self, event: IncidentEvent, now: datetime) -> list[IncidentAction]:
        self.reckon(event, now)
        self.twin = Incident(self.plan, ENGINE, INCIDENT.validate_json(INCIDENT.dump_json(self.twin.state)))
        told = self.incident.handle(event, now)
        assert self.twin.handle(event, now) == told
        return self.take(told)

    def take(self, actions: list[IncidentAction]) -> list[IncidentAction]:
        assert not (self.closed and actions), "nothing is said after the close"
        self.closed = any(isinstance(each, CloseIncident) for each in actions)
        self.actions += actions
        return actions

    def reckon(self, event: IncidentEvent, now: datetime) -> None:
        over = self.state.ending is not None
        if over and self.state.recovered is not None and now - self.state.recovered >= LINGER:
            return  # it takes nothing any more
        match event:
            case Worsened():
                self.down_since = event.sign.at
            case DownAgain() if over and event.severity is not Severity.DEGRADED:
                self.down_since = event.since
            case Recovered() | ServiceStopped() | ResolvedByHand() | WatchEnded() if not over:
                until = event.since if isinstance(event, Recovered | ServiceStopped) else now
                if self.down_since is not None:
                    self.downtime += max(until - self.down_since, timedelta())
                self.down_since = None
            case _:
                pass

"""A watch over one service and the small world it looks at: rounds, lines, time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pydantic import TypeAdapter

from bot.core.events import (
    HostName,
    InvocationId,
    LogLine,
    Member,
    Origin,
    ProbeAnswer,
    ServiceName,
    UnitState,
)
from bot.core.incident_events import IncidentEvent
from bot.core.monitor import Watch
from bot.core.monitor_events import Checked, TellIncident, UnitLine, WatchAction, WatchEvent
from bot.core.monitor_state import Sight, WatchPlan, WatchStanding, WatchState
from config.engine_file import load_engine

SERVICE, HOST = ServiceName("kimi-k2.5"), HostName("llm-two")
MEMBER = Member("llm-two/kimi.service")
MODEL = "kimi-k2.5"
BEGAN = datetime(2026, 5, 29, 3, 0, tzinfo=UTC)
STATE = TypeAdapter(WatchState)
GOOD = ProbeAnswer(health=200, models=(MODEL,), models_status=200, listener=True)
REFUSED = ProbeAnswer(error="connection refused")
BUSY = ProbeAnswer(health=503)
RUNNING = UnitState(load="loaded", active="active", sub="running", main_pid=4711, restart_policy="no")
FAILED = replace(
    RUNNING, active="failed", sub="failed", result="signal", main_pid=0, exec_code=2, exec_status=11
)
LOOPING = replace(FAILED, active="activating", sub="auto-restart", restart_policy="always")
STOPPED = replace(RUNNING, active="inactive", sub="dead", main_pid=0)
STOPPING = replace(RUNNING, active="deactivating", sub="stop-sigterm")

A = TypeVar("A", bound=WatchAction)
E = TypeVar("E", bound=IncidentEvent)


def run_id(number: int) -> InvocationId:
    return InvocationId(f"{number:032x}")


def make_plan(**changes: Any) -> WatchPlan:
    return replace(WatchPlan(SERVICE, HOST, (MEMBER,), model=MODEL, group="S0456"), **changes)


@dataclass
class Room:
    """`unit` and `probe` are what the next rounds find; `run` counts the runs of the unit, 0: none yet."""

    plan: WatchPlan = field(default_factory=make_plan)
    unit: UnitState | str = RUNNING
    probe: ProbeAnswer | None = GOOD
    inside: ProbeAnswer | None = None
    boot: str = "one"
    sight: Sight = Sight.SEEN
    run: int = 1
    rewritten: bool = False  # save and restore the state before each event
    now: datetime = BEGAN
    actions: list[WatchAction] = field(default_factory=list)
    watch: Watch = field(init=False)

    def __post_init__(self) -> None:
        self.watch = Watch(self.plan, load_engine("sglang"))

    def restore(self) -> None:
        state = STATE.validate_json(STATE.dump_json(self.watch.state))
        self.watch = Watch(self.plan, load_engine("sglang"), state)

    def tell(self, event: WatchEvent) -> list[WatchAction]:
        if self.rewritten:
            self.restore()
        actions = self.watch.handle(event, self.now)
        self.actions.extend(actions)
        return actions

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def look(self, times: int = 1, **changes: Any) -> list[WatchAction]:
        """So many rounds; what they order."""
        ordered: list[WatchAction] = []
        for _ in range(times):
            self.pass_time(self.plan.every.total_seconds())
            ordered += self.tell(self.round(**changes))
        return ordered

    def round(self, **changes: Any) -> Checked:
        unit = self.unit
        if isinstance(unit, UnitState):
            unit = replace(unit, invocation=run_id(self.run) if self.run else None)
        boots = {MEMBER: self.boot} if isinstance(unit, UnitState) else {}
        checked = Checked(self.probe, {MEMBER: unit}, self.inside, boots, sight=self.sight)
        return replace(checked, **changes)

    def say(self, text: str, *, origin: Origin = Origin.SERVICE, run: int | None = None) -> list[WatchAction]:
        """A line of the present run, or of another."""
        invocation = None if origin is Origin.KERNEL else run_id(self.run if run is None else run)
        line = LogLine(text, text, at=self.now, origin=origin, invocation=invocation, boot=self.boot)
        return self.tell(UnitLine(MEMBER, line))

    def systemd(self, text: str, *, run: int | None = None) -> list[WatchAction]:
        return self.say(text, origin=Origin.MANAGER, run=run)

    def serve(self) -> None:
        self.look(2)

    def stands(self) -> WatchStanding:
        return self.watch.state.standing

    def ordered(self, kind: type[A]) -> list[A]:
        return [action for action in self.actions if isinstance(action, kind)]

    def told(self, kind: type[E]) -> list[E]:
        """What incidents were told."""
        events = [action.event for action in self.actions if isinstance(action, TellIncident)]
        return [event for event in events if isinstance(event, kind)]

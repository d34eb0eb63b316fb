"""An incident and what is told to it, for tests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter

from bot.core.events import HostName, InvocationId, LogLine, Member, Origin, ServiceName, Ticked, UserId
from bot.core.incident import Incident
from bot.core.incident_actions import (
    IncidentAction,
    IncidentReply,
    IncidentView,
    PostIncidentReply,
    SendWebhook,
)
from bot.core.incident_state import IncidentPlan, IncidentState, Severity, Sign, SignKind, incident_of
from config.engine_file import load_engine

SERVICE, HOST = ServiceName("kimi-k2.5"), HostName("llm-two")
MEMBER, RUN = Member("llm-two/kimi.service"), InvocationId("a" * 32)
ALICE, BOB = UserId("U0ALICE"), UserId("U0BOB")
BEGAN = datetime(2026, 5, 29, 3, 12, 41, tzinfo=UTC)
STATE = TypeAdapter(IncidentState)
DIED = Sign(
    SignKind.PROCESS,
    BEGAN,
    "process died by SIGSEGV",
    MEMBER,
    ("kimi.service: Main process exited, code=killed, status=11/SEGV",),
)
SLOW = Sign(SignKind.SLOW, BEGAN, "12 tokens/s (usual 90)")
OUT_OF_MEMORY = (
    "[2026-05-29 03:12:40 TP3] Scheduler hit an exception: Traceback (most recent call last):",
    '  File "/srv/sglang/scheduler.py", line 90, in run_scheduler_process',
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of",
    "[2026-05-29 03:12:41] SIGQUIT received. signum=None, frame=None. It usually means one child",
)

if TYPE_CHECKING:
    from bot.core.incident_events import IncidentEvent

R = TypeVar("R", bound=IncidentReply)


def make_incident_plan(**changes: Any) -> IncidentPlan:
    plan = IncidentPlan(
        incident=incident_of(SERVICE, BEGAN),
        subject=SERVICE,
        host=HOST,
        severity=Severity.DOWN,
        began=BEGAN,
        opened=BEGAN,
        signs=(DIED,),
        service=SERVICE,
        members=(MEMBER,),
        invocations={MEMBER: RUN},
        last_healthy=BEGAN - timedelta(minutes=14),
        restarts_itself=False,
        escalate_after=timedelta(minutes=10),
        group="S0456",
    )
    return replace(plan, **changes)


def make_lines(*texts: str) -> tuple[LogLine, ...]:
    return tuple(
        LogLine(text, text, at=BEGAN + timedelta(seconds=number), pid=7, origin=Origin.SERVICE)
        for number, text in enumerate(texts)
    )


@dataclass
class Case:
    """`rewritten`: save and restore the state before each event."""

    plan: IncidentPlan = field(default_factory=make_incident_plan)
    rewritten: bool = False
    now: datetime = BEGAN
    actions: list[IncidentAction] = field(default_factory=list)
    incident: Incident = field(init=False)

    def __post_init__(self) -> None:
        self.incident = Incident(self.plan, load_engine("sglang"))
        self.actions += self.incident.begin(self.now)

    def restore(self) -> None:
        state = STATE.validate_json(STATE.dump_json(self.incident.state))
        self.incident = Incident(self.plan, load_engine("sglang"), state)

    def tell(self, event: IncidentEvent, *, after: float = 1) -> list[IncidentAction]:
        self.now += timedelta(seconds=after)
        if self.rewritten:
            self.restore()
        actions = self.incident.handle(event, self.now)
        self.actions += actions
        return actions

    def wait(self, seconds: float, *, step: float = 10) -> None:
        for _ in range(int(seconds / step)):
            self.tell(Ticked(), after=step)

    def view(self) -> IncidentView:
        return self.incident.view(self.now)

    def posts(self) -> list[PostIncidentReply]:
        return [action for action in self.actions if isinstance(action, PostIncidentReply)]

    def replies(self, kind: type[R]) -> list[R]:
        return [post.reply for post in self.posts() if isinstance(post.reply, kind)]

    def webhooks(self) -> list[dict[str, Any]]:
        return [action.payload for action in self.actions if isinstance(action, SendWebhook)]

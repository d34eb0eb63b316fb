"""Drives one startup machine through told time: a small world of unit, engine and log around it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pydantic import TypeAdapter

from bot.core.actions import (
    Action,
    Close,
    EditRoot,
    LookAtSetup,
    PostReply,
    ProbeNow,
    Reply,
    RunSmoke,
    UploadTail,
    VerdictReached,
)
from bot.core.events import (
    Event,
    InvocationId,
    LineRead,
    LogLine,
    Member,
    OperationId,
    Origin,
    ProbeAnswer,
    ProbeAnswered,
    ServiceName,
    SetupSeen,
    SmokeFinished,
    SmokeResult,
    Ticked,
    UnitObserved,
    UnitState,
    UserId,
    Verb,
    VerbSent,
)
from bot.core.setup import Setup
from bot.core.startup import Startup
from bot.core.startup_state import Plan, StartupState
from config.engine_file import load_engine

BEGAN = datetime(2026, 5, 29, 23, 49, tzinfo=UTC)
MEMBER = Member("llm-two/sglang-kimi.service")
OTHER = Member("llm-three/sglang-kimi.service")
OLD = InvocationId("a" * 32)
NEW = InvocationId("b" * 32)
NEXT = InvocationId("c" * 32)
MODEL = "kimi-k2.5"
STATE = TypeAdapter(StartupState)

UP = ProbeAnswer(health=200, models=(MODEL,), models_status=200, listener=True)
WARMING = ProbeAnswer(health=503, models=(MODEL,), models_status=200, listener=True)
CLOSED = ProbeAnswer(error="connection refused", listener=None)
PASSED = SmokeResult(passed=True, first_token=0.31, tokens_per_second=84.0, answer="Hello")
RUNNING = UnitState(load="loaded", active="active", sub="running", invocation=NEW, main_pid=4711)
OLD_RUNNING = replace(RUNNING, invocation=OLD)
READY_LINE = "The server is fired up and ready to roll!"

R = TypeVar("R", bound=Reply)


def make_plan(**changes: Any) -> Plan:
    plan = Plan(
        operation=OperationId("op1"),
        service=ServiceName("kimi-k2.5"),
        verb=Verb.RESTART,
        members=(MEMBER,),
        by=UserId("U0123"),
        reason="new tool-call parser",
        began=BEGAN,
        model=MODEL,
        ranks=2,
        stable_for=timedelta(seconds=30),
        before={MEMBER: OLD},
    )
    return replace(plan, **changes)


def stamp(text: str, rank: str = "") -> str:
    return f"[2026-05-29 23:49:47{' ' + rank if rank else ''}] {text}"


@dataclass
class Run:
    """A machine and the world it is told about. `wait` lets a second pass at a time, as the carrier does."""

    plan: Plan = field(default_factory=make_plan)
    unit: UnitState | None = None  # what each observation says; None: nobody looks
    answer: ProbeAnswer | None = None  # what each ordered probe brings; None: no answer comes
    smoke: SmokeResult | None = PASSED
    setup: Setup | None = field(default_factory=Setup)  # what is seen where it is looked for
    skew: timedelta = timedelta()  # the host's clock minus ours
    observe_every: int = 3
    rewritten: bool = False  # save and restore the state before each event
    now: datetime = BEGAN
    actions: list[Action] = field(default_factory=list)
    events: list[tuple[Event, datetime]] = field(default_factory=list)  # all that was told, and when
    startup: Startup = field(init=False)

    def __post_init__(self) -> None:
        self.engine = load_engine("sglang")
        self.startup = Startup(self.plan, self.engine)
        self._seconds = 0
        self._cursor = 0

    def begin(self) -> list[Action]:
        return self._carry_out(self.startup.begin(self.now))

    def restore(self) -> None:
        """As after a crash of the process: all but the dumped state is gone."""
        text = STATE.dump_json(self.startup.state)
        self.startup = Startup(self.plan, self.engine, STATE.validate_json(text))

    def tell(self, event: Event) -> list[Action]:
        self.events.append((event, self.now))
        if self.rewritten:
            self.restore()
        return self._carry_out(self.startup.handle(event, self.now))

    def _carry_out(self, actions: list[Action]) -> list[Action]:
        self.actions.extend(actions)
        for action in actions:
            if isinstance(action, ProbeNow) and self.answer is not None:
                self.tell(ProbeAnswered(self.answer))
            elif isinstance(action, RunSmoke) and self.smoke is not None:
                self.tell(SmokeFinished(self.smoke))
            elif isinstance(action, LookAtSetup):
                self.tell(SetupSeen(action.member, self.setup))
        return actions

    # ---- the world ----------------------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        """Time alone: nobody ticks."""
        self.now += timedelta(seconds=seconds)

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.pass_time(1)
            self._seconds += 1
            if self.unit is not None and self._seconds % self.observe_every == 0:
                self.observe()
            self.tell(Ticked())

    def wait_for_verdict(self, at_most: int = 300) -> int:
        """Seconds until the verdict; fails when it does not come."""
        for second in range(at_most + 1):
            if self.startup.verdict is not None:
                return second
            self.wait(1)
        raise AssertionError(f"no verdict in {at_most}s; {self.startup.view(self.now)}")

    def observe(self, unit: UnitState | None = None, *, boot: str | None = None, **changes: Any) -> None:
        self.unit = replace(unit or self.unit or RUNNING, **changes)
        self.tell(UnitObserved(MEMBER, self.unit, boot))

    def say(
        self,
        text: str,
        *,
        rank: str = "",
        invocation: InvocationId | None = NEW,
        stamped: bool = True,
        member: Member = MEMBER,
        **changes: Any,
    ) -> None:
        reading = stamp(text, rank) if stamped else text
        line = LogLine(reading, reading, at=self.now + self.skew, pid=100, invocation=invocation)
        self.tell(LineRead(member, replace(line, **changes)))

    def systemd(self, text: str, *, invocation: InvocationId = NEW, **fields: str) -> None:
        line = LogLine(
            text,
            text,
            at=self.now + self.skew,
            pid=1,
            origin=Origin.MANAGER,
            invocation=invocation,
            fields=fields,
        )
        self.tell(LineRead(MEMBER, line))

    # ---- roads --------------------------------------------------------------------------------------------

    def start_process(self) -> None:
        """The verb is accepted, the old process stops in 10 s, the new one begins."""
        self.begin()
        self.tell(VerbSent(MEMBER))
        self.systemd("Stopping sglang-kimi.service - Kimi...", invocation=OLD)
        self.observe(OLD_RUNNING, active="deactivating", sub="stop-sigterm", job=77)
        self.wait(10)
        self.systemd("Stopped sglang-kimi.service - Kimi.", invocation=OLD)
        self.systemd("Started sglang-kimi.service - Kimi.")
        self.observe(RUNNING)

    def load_weights(self, *, seconds: int = 20) -> None:
        for rank in ("TP0", "TP1"):
            self.say("Init torch distributed begin.", rank=rank)
        self.wait(3)
        for rank in ("TP0", "TP1"):
            self.say("Init torch distributed ends. elapsed=3.00 s, mem usage=0.50 GB", rank=rank)
            self.say("Load weight begin. avail mem=78.50 GB", rank=rank)
        self.wait(seconds)
        for rank in ("TP0", "TP1"):
            self.end_weights(rank)

    def end_weights(self, rank: str) -> None:
        self.say(
            "Load weight end. elapsed=20.00 s, type=KimiK25ForConditionalGeneration, quant=none, "
            "avail mem=8.50 GB, mem usage=70.00 GB.",
            rank=rank,
        )

    def capture_graphs(self, *, seconds: int = 10) -> None:
        for rank in ("TP0", "TP1"):
            self.say("KV Cache is allocated. #tokens: 1000, KV size: 5.00 GB", rank=rank)
            self.say("Memory pool end. avail mem=3.00 GB", rank=rank)
            self.say("Capture cuda graph begin. This can take up to several minutes.", rank=rank)
        self.wait(seconds)
        for rank in ("TP0", "TP1"):
            self.say("Capture cuda graph end. Time elapsed: 10.00 s. mem usage=1.00 GB.", rank=rank)

    def open_server(self) -> None:
        self.say("max_total_num_tokens=1000, chunked_prefill_size=8192", rank="TP0")
        self.say("INFO:     Started server process [4711]")
        self.say("INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)")
        self.answer = WARMING
        self.wait(5)

    def say_ready(self) -> None:
        """The engine is up, and its log says so."""
        self.answer = UP
        self.say(READY_LINE)

    def run_to_ready(self) -> None:
        self.start_process()
        self.load_weights()
        self.capture_graphs()
        self.open_server()
        self.say_ready()

    # ---- what came of it ----------------------------------------------------------------------------------

    def replies(self, kind: type[R]) -> list[R]:
        said = (action.reply for action in self.actions if isinstance(action, PostReply))
        return [reply for reply in said if isinstance(reply, kind)]

    @property
    def verdict(self) -> VerdictReached:
        (verdict,) = self.replies(VerdictReached)
        return verdict

    @property
    def closed(self) -> Close:
        (closed,) = [action for action in self.actions if isinstance(action, Close)]
        return closed

    def orders(self, kind: type[Action]) -> list[Action]:
        return [action for action in self.actions if isinstance(action, kind)]

    @property
    def sequences(self) -> list[int]:
        return [each.sequence for each in self.actions if isinstance(each, PostReply | UploadTail)]

    @property
    def told(self) -> list[Action]:
        """All but the edits of the root."""
        return [action for action in self.actions if not isinstance(action, EditRoot)]

"""A ground of small doubles for the carriers: store, host, engine and outbox in memory, in loop time."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from bot.clients.records import Address, Holder, Operation, Outgoing
from bot.core.events import (
    ChannelId,
    Cursor,
    HostName,
    InvocationId,
    Member,
    MessageTs,
    OperationId,
    ProbeAnswer,
    ProcessSeen,
    Sample,
    ServiceName,
    SmokeResult,
    UnitName,
    UnitState,
    UserId,
    Verb,
)
from bot.core.journal import Position
from bot.core.log_file import FilePosition
from bot.core.redact import Redactor
from bot.core.request import Request, Started
from bot.core.setup import Setup
from bot.errors import HostError, StoreUnavailable
from bot.ground import Ground
from bot.startups import Startups
from bot.tasks import Tasks
from config.engine_file import load_engine
from tests.support.configurations import ALICE, OPS, configure
from tests.support.journal_entries import make_entry, write_entries
from tests.support.theatre import LoopClock

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence

    from bot.clients.probe import Probe
    from bot.clients.slack import Outbox
    from bot.clients.ssh import Host
    from bot.clients.store import Store
    from bot.running import Running
    from config.services import Configuration

SERVICE = ServiceName("kimi-k2.5")
HOST = HostName("llm-two")
UNIT = UnitName("sglang.service")
MEMBER = Member(f"{HOST}/{UNIT}")
OLD, NEW = InvocationId("a" * 32), InvocationId("b" * 32)
SECRET = "hush-hush-4711"
RUNNING = UnitState(load="loaded", active="active", sub="running", invocation=OLD, main_pid=4711)
DEAD = replace(RUNNING, active="inactive", sub="dead", main_pid=0)
UP = ProbeAnswer(health=200, models=("kimi",), models_status=200, listener=True)
CLOSED = ProbeAnswer(error="connection refused")


class MemoryStore:
    """What the carriers need of the store; `away` lets every call fail, `failing` those named, once each.

    `deaf` calls are carried out and then fail: Redis took them and the answer was lost.
    """

    def __init__(self, diary: list[str]) -> None:
        self.away = False
        self.failing: list[str] = []
        self.deaf: list[str] = []
        self.refused = 0
        self.holders: dict[str, Holder] = {}
        self.operations: dict[str, Operation] = {}
        self.queued: dict[str, Outgoing] = {}
        self.edits: list[Outgoing] = []
        self.files: dict[str, bytes] = {}
        self.addresses: dict[str, Address] = {}
        self.baselines: dict[str, str] = {}
        self.setups: dict[str, str] = {}
        self.tokens: set[str] = set()
        self._diary = diary

    def _answer(self, name: str) -> None:
        if self.away or name in self.failing:
            self.failing = [other for other in self.failing if other != name]
            self.refused += 1
            raise StoreUnavailable("Redis at nowhere does not answer")

    def _forget_to_answer(self, name: str) -> None:
        if name in self.deaf:
            self.deaf.remove(name)
            raise StoreUnavailable("the answer was lost")

    async def take(self, holder: Holder) -> Holder | None:
        self._answer("take")
        held = self.holders.setdefault(holder.service, holder)
        await asyncio.sleep(0)
        self._forget_to_answer("take")
        return None if held.operation == holder.operation else held

    async def holder(self, service: ServiceName) -> Holder | None:
        self._answer("holder")
        await asyncio.sleep(0)
        held = self.holders.get(service)
        operation = await self.operation(held.operation) if held is not None else None
        return held.model_copy(update={"headline": operation.headline}) if held and operation else held

    async def release(self, service: ServiceName, operation: OperationId) -> None:
        self._answer("release")
        held = self.holders.get(service)
        if held is not None and held.operation == operation:
            del self.holders[service]

    async def save(
        self,
        operation: Operation,
        outgoing: Sequence[Outgoing] = (),
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        self._answer("save")
        await self.enqueue(outgoing, files)
        # As JSON would hold it: what is changed afterwards is not saved.
        self.operations[operation.operation] = operation.model_copy(
            update={"positions": dict(operation.positions)}
        )
        self._diary.append("saved")
        self._forget_to_answer("save")

    async def enqueue(self, outgoing: Sequence[Outgoing], files: Mapping[str, bytes] | None = None) -> None:
        self._answer("enqueue")
        for message in outgoing:
            if message.kind == "edit":
                self.edits.append(message)
            elif message.id not in self.queued:
                self.queued[message.id] = message
                self._diary.append(f"queued {message.kind}")
        self.files |= files or {}

    async def finish(self, operation: Operation, outgoing: Sequence[Outgoing] = ()) -> None:
        self._answer("finish")
        await self.save(operation, outgoing)
        await self.release(operation.service, operation.operation)
        self._diary.append("finished")

    async def operation(self, operation: OperationId) -> Operation | None:
        self._answer("operation")
        return self.operations.get(operation)

    async def open_operations(self) -> list[Operation]:
        self._answer("open_operations")
        return [operation for operation in self.operations.values() if operation.closed is None]

    async def history(self, service: ServiceName, limit: int) -> list[Operation]:
        self._answer("history")
        closed = [op for op in self.operations.values() if op.closed and op.service == service]
        return closed[::-1][:limit]

    async def address(self, thread: str) -> Address | None:
        self._answer("address")
        return self.addresses.get(thread)

    async def baseline(self, service: ServiceName) -> str | None:
        self._answer("baseline")
        return self.baselines.get(service)

    async def save_baseline(self, service: ServiceName, json: str) -> None:
        self._answer("save_baseline")
        self.baselines[service] = json

    async def setup(self, service: ServiceName) -> str | None:
        self._answer("setup")
        return self.setups.get(service)

    async def save_setup(self, service: ServiceName, json: str) -> None:
        self._answer("save_setup")
        self.setups[service] = json

    async def first_time(self, token: str, ttl_seconds: int) -> bool:  # noqa: ARG002 - the real one's name
        self._answer("first_time")
        new = token not in self.tokens
        self.tokens.add(token)
        return new

    async def forget(self, token: str) -> None:
        self._answer("forget")
        self.tokens.discard(token)

    def texts(self, kind: str = "reply") -> list[str]:
        return [message.text for message in self.queued.values() if message.kind == kind]


class InstantOutbox:
    """Brings every queued root to Slack as soon as it is woken; not at all while Slack is `away`."""

    def __init__(self, store: MemoryStore, diary: list[str]) -> None:
        self.away = False
        self._store, self._diary = store, diary

    def wake(self) -> None:
        for message in self._store.queued.values():
            if message.kind == "root" and not self.away and message.thread not in self._store.addresses:
                ts = f"17{len(self._store.addresses):08d}.000100"
                address = Address(channel=message.channel, ts=MessageTs(ts), permalink=f"https://s/p{ts}")
                self._store.addresses[message.thread] = address
                self._diary.append("posted root")


@dataclass
class MemoryHost:
    """One host: its unit obeys an order at once, its journal is what a test says."""

    diary: list[str]
    name: HostName = HOST
    units: dict[UnitName, UnitState] = field(default_factory=lambda: defaultdict(lambda: RUNNING))
    obeys: bool = True
    change_errors: list[HostError] = field(default_factory=list)
    sudo_error: HostError | None = None
    show_error: HostError | None = None
    read_error: HostError | None = None
    samples: list[tuple[UnitName, str, str | None]] = field(default_factory=list)
    processes: tuple[ProcessSeen, ...] | None = None
    stacks: dict[int, str] = field(default_factory=dict)
    stack_error: HostError | None = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)  # closed: `show` hangs
    orders: list[tuple[Verb, UnitName, str]] = field(default_factory=list)
    shows: int = 0
    setups: Setup = field(default_factory=Setup)
    reloads: list[str] = field(default_factory=list)
    follows: list[tuple[Position | None, InvocationId | None]] = field(default_factory=list)
    follow_times: list[float] = field(default_factory=list)
    following: int = 0  # streams that are open
    journals: dict[UnitName, asyncio.Queue[bytes | HostError | None]] = field(
        default_factory=lambda: defaultdict(asyncio.Queue)
    )
    log: bytes | None = b""  # what `read_journal` finds; None: it hangs
    reads: list[dict[str, Any]] = field(default_factory=list)
    kernel: asyncio.Queue[bytes | HostError | None] = field(default_factory=asyncio.Queue)
    kernel_follows: list[Position | None] = field(default_factory=list)
    frames: asyncio.Queue[bytes | HostError | None] = field(default_factory=asyncio.Queue)  # of the log file
    log_follows: list[tuple[str, FilePosition]] = field(default_factory=list)
    log_reads: list[tuple[str, FilePosition]] = field(default_factory=list)
    file: bytes = b""  # frames of all of it
    file_end: FilePosition = field(default_factory=lambda: FilePosition(7, 100, 1_780_000_000))

    def __post_init__(self) -> None:
        self.gate.set()

    async def change(self, unit: UnitName, verb: Verb, *, scope: str) -> None:
        self.orders.append((verb, unit, scope))
        self.diary.append(f"ordered {verb}")
        await asyncio.sleep(0.1)
        if self.change_errors:
            raise self.change_errors.pop(0)
        if self.obeys:
            self.units[unit] = DEAD if verb is Verb.STOP else replace(RUNNING, invocation=NEW, main_pid=4800)

    async def show(self, unit: UnitName, *, scope: str) -> UnitState:  # noqa: ARG002 - the real one's name
        self.shows += 1
        await self.gate.wait()
        if self.show_error is not None:
            raise self.show_error
        return self.units[unit]

    async def setup(self, unit: UnitName, *, scope: str, redactor: Redactor) -> Setup:  # noqa: ARG002
        if self.show_error is not None:
            raise self.show_error
        return self.setups

    async def reload(self, *, scope: str) -> None:
        if self.change_errors:
            raise self.change_errors.pop(0)
        self.reloads.append(scope)

    async def sample(self, unit: UnitName, *, scope: str, at: datetime, model: str | None = None) -> Sample:
        self.samples.append((unit, scope, model))
        if self.show_error is not None:
            raise self.show_error
        return Sample(at, invocation=self.units[unit].invocation, processes=self.processes)

    async def dump_stack(self, pid: int) -> str | None:
        if self.stack_error is not None:
            raise self.stack_error
        return self.stacks.get(pid)

    async def check_sudo(self, unit: UnitName, verb: Verb, *, scope: str) -> None:  # noqa: ARG002
        if self.sudo_error is not None:
            raise self.sudo_error

    async def journal_end(self, *, scope: str) -> Cursor | None:  # noqa: ARG002
        return Cursor("end")

    async def follow_journal(
        self,
        unit: UnitName,
        *,
        scope: str,  # noqa: ARG002
        position: Position | None = None,
        invocation: InvocationId | None = None,
    ) -> AsyncGenerator[bytes, None]:
        self.follows.append((position, invocation))
        self.follow_times.append(asyncio.get_running_loop().time())
        self.following += 1
        try:
            while (piece := await self.journals[unit].get()) is not None:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            self.following -= 1

    async def follow_kernel(self, *, position: Position | None = None) -> AsyncGenerator[bytes, None]:
        self.kernel_follows.append(position)
        while (piece := await self.kernel.get()) is not None:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def log_end(self, path: str) -> FilePosition:
        del path
        return self.file_end

    async def follow_log(self, path: str, *, position: FilePosition) -> AsyncGenerator[bytes, None]:
        self.log_follows.append((path, position))
        while (piece := await self.frames.get()) is not None:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def read_log(self, path: str, *, position: FilePosition) -> AsyncGenerator[bytes, None]:
        self.log_reads.append((path, position))
        yield self.file

    async def read_journal(self, unit: UnitName, **asked: Any) -> AsyncGenerator[bytes, None]:
        self.reads.append({"unit": unit} | asked)
        if self.read_error is not None:
            raise self.read_error
        if self.log is None:
            await asyncio.Event().wait()
        yield self.log or b""

    def say(self, number: int, text: str, *, invocation: str = NEW, unit: UnitName = UNIT) -> None:
        """One line of the unit's journal, to whoever follows it; a minute apart by the host's clock."""
        at = str(1_780_000_000_000_000 + number * 60_000_000)
        entry = make_entry(number, text, _SYSTEMD_INVOCATION_ID=invocation, __REALTIME_TIMESTAMP=at)
        self.journals[unit].put_nowait(write_entries(entry))

    def cut(self, error: HostError | None = None, *, unit: UnitName = UNIT) -> None:
        """The link goes away; without an error, the stream just ends."""
        self.journals[unit].put_nowait(error)


@dataclass
class ScriptedProbe:
    """Answers as told; `gate` closed: not yet."""

    answer: ProbeAnswer = UP
    result: SmokeResult = field(default_factory=lambda: SmokeResult(passed=True, answer="Hello"))
    checks: int = 0
    smokes: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    async def check(self) -> ProbeAnswer:
        self.checks += 1
        await self.gate.wait()
        return self.answer

    async def smoke(self) -> SmokeResult:
        self.smokes += 1
        await self.gate.wait()
        return self.result


class Backstage:
    """The ground and the carriers on it; `crash` puts the next process in the place of this one."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self.diary: list[str] = []  # what was done to the world, in order
        self.clock = LoopClock()
        self.tasks = Tasks()
        self.configuration = configuration or configure()
        self.store = MemoryStore(self.diary)
        self.outbox = InstantOutbox(self.store, self.diary)
        self.host = MemoryHost(self.diary)
        self.probe = ScriptedProbe()
        services = [ServiceName(name) for name in self.configuration.services]
        self.ground = Ground(
            configuration=self.configuration,
            clock=self.clock,
            tasks=self.tasks,
            store=cast("Store", self.store),
            outbox=cast("Outbox", self.outbox),
            hosts={self.host.name: cast("Host", self.host)},
            probes={name: cast("Probe", self.probe) for name in services},
            engines={name: load_engine("sglang") for name in services},
            make_redactor=lambda: Redactor((SECRET,)),
        )
        self.startups = Startups(self.ground)
        self._pulse: asyncio.Task[None] | None = None

    async def begin(self, verb: Verb = Verb.RESTART) -> Running:
        """Confirmed, and under way."""
        answer = await self.startups.request(ask(verb, confirmed=True))
        assert isinstance(answer, Started), answer
        return self.startups.running[answer.operation]

    async def crash(self) -> None:
        """This process ends as if killed: nothing is closed, nothing is said; a new one stands ready."""
        await self.tasks.close(grace=1)
        self._pulse = None
        self.startups = Startups(self.ground)
        self.start_pulse()

    def start_pulse(self) -> None:
        """Ticks, observations and probes as the schedule gives them."""
        self._pulse = self.tasks.spawn("pulse", self._beat())

    async def _beat(self) -> None:
        second = 0
        while True:
            await asyncio.sleep(1)
            second += 1
            self.startups.tick()
            if second % 3 == 0:
                self.startups.observe()
            if second % 10 == 0:
                self.startups.probe()
                self.startups.sample()

    async def until(self, condition: Callable[[], object], *, within: timedelta = timedelta(hours=3)) -> None:
        """Told time passes at once, so that hours of it may."""
        deadline = self.clock.now() + within
        while not condition():
            assert self.clock.now() < deadline, f"it never came to that: {self.diary}"
            await asyncio.sleep(0.05)

    async def closed(self, running: Running) -> Operation:
        """The operation as the store holds it, once nothing runs of it any more."""
        identity = running.operation.operation
        await self.until(lambda: identity not in self.startups.running)
        return self.store.operations[identity]

    def saved(self, running: Running) -> Operation:
        return self.store.operations[running.operation.operation]


@asynccontextmanager
async def backstage(configuration: Configuration | None = None) -> AsyncIterator[Backstage]:
    stage = Backstage(configuration)
    stage.start_pulse()
    try:
        yield stage
    finally:
        await stage.tasks.close(grace=1)


def ask(verb: Verb = Verb.RESTART, **changes: Any) -> Request:
    request = Request(SERVICE, verb, UserId(ALICE), "new parser", ChannelId(OPS))
    return replace(request, **changes)


def configured(**section: Any) -> Configuration:
    """The one service with these keys changed."""
    changes: dict[str, Any] = {"kimi_k2.5": section}
    return configure("kimi-k2.5", **changes)

"""A ground of small doubles for the carriers: store, host, engine and outbox in memory, in loop time."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from bot.clients.ssh_order import Promise
from bot.core.events import (
    ChannelId,
    Cursor,
    HostName,
    InvocationId,
    Member,
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
from bot.errors import HostError, OrderLate
from bot.ground import Ground
from bot.startups import Startups
from bot.tasks import Tasks
from config.engine_file import load_engine
from tests.support.configurations import ALICE, OPS, configure
from tests.support.journal_entries import BOOT, make_entry, write_entries
from tests.support.memory_store import InstantOutbox, MemoryStore
from tests.support.theatre import LoopClock

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    import asyncssh

    from bot.clients.probe import Probe
    from bot.clients.records import Operation
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
    booted: float = -1000.0
    tells_uptime: bool = True
    promise_error: HostError | None = None
    delays: list[float] = field(default_factory=list)  # seconds that the next orders take to go out
    late: int = 0  # orders that came after their deadline
    shows: int = 0
    setups: Setup = field(default_factory=Setup)
    reloads: list[str] = field(default_factory=list)
    follows: list[tuple[Position | None, InvocationId | None]] = field(default_factory=list)
    follow_times: list[float] = field(default_factory=list)
    following: int = 0  # streams that are open
    journals: dict[UnitName, asyncio.Queue[bytes | HostError | None]] = field(
        default_factory=lambda: defaultdict(asyncio.Queue)
    )
    boot: str = BOOT
    boot_error: HostError | None = None
    found: dict[Cursor, Cursor | None] = field(default_factory=dict)  # where another entry has its place
    rest: bytes = b""  # what former boots left
    rests: list[tuple[UnitName, Cursor]] = field(default_factory=list)
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

    async def uptime(self) -> float | None:
        if self.show_error is not None:
            raise self.show_error
        return asyncio.get_running_loop().time() - self.booted if self.tells_uptime else None

    async def promise(self, seconds: float) -> Promise:
        if self.promise_error is not None:
            raise self.promise_error
        now = await self.uptime()
        connection = cast("asyncssh.SSHClientConnection", self)
        return Promise(connection, None if now is None else int((now + seconds) * 100))

    async def change(
        self,
        unit: UnitName,
        verb: Verb,
        *,
        scope: str,
        promise: Promise | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        await asyncio.sleep(self.delays.pop(0) if self.delays else 0.0)  # on its way to the session
        if check is not None:
            check()
        now = asyncio.get_running_loop().time() - self.booted
        deadline = promise.deadline if promise is not None else None
        if deadline is not None and int(now * 100) >= deadline:
            self.late += 1
            raise OrderLate(self.name, f"{self.name}: late")
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

    async def journal_at(self, cursor: Cursor, *, scope: str) -> Cursor | None:  # noqa: ARG002
        return self.found.get(cursor, cursor)

    async def read_rest(
        self,
        unit: UnitName,
        *,
        scope: str,  # noqa: ARG002
        cursor: Cursor,
    ) -> AsyncGenerator[bytes, None]:
        self.rests.append((unit, cursor))
        yield self.rest

    async def boot_id(self) -> str:
        if self.boot_error is not None:
            raise self.boot_error
        return self.boot

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

    async def check(self, *, whole: bool = True) -> ProbeAnswer:
        del whole
        self.checks += 1
        await self.gate.wait()
        return self.answer

    async def smoke(self, *, short: bool = False) -> SmokeResult:
        del short
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
        self.adopts = False  # beside what a test does itself
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
        self.store.leases.die()
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
            if second % 2 == 0 and self.adopts:
                self.startups.adopt_soon()

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

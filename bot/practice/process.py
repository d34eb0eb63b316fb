"""What a unit runs and how it ends: exits, one run's process, what its cgroup counts, the unit file."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.clock import Clock

EXITED, KILLED, DUMPED = 1, 2, 3
_CLEAN_SIGNALS = {signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE}
_EXIT_NAMES = {0: "SUCCESS", 1: "FAILURE", 2: "INVALIDARGUMENT", 3: "NOTIMPLEMENTED"}
CODE_NAMES = {EXITED: "exited", KILLED: "killed", DUMPED: "dumped"}


@dataclass(frozen=True, slots=True)
class Exit:
    """How a main process ended: `code` as CLD_…, `status` an exit status or a signal number."""

    code: int
    status: int
    because: str | None = None  # a result that the code does not tell: "oom-kill"

    @property
    def clean(self) -> bool:
        return (
            self.status in _CLEAN_SIGNALS if self.code == KILLED else self.code == EXITED and not self.status
        )

    @property
    def result(self) -> str:
        if self.because is not None:
            return self.because
        if self.clean:
            return "success"
        return {EXITED: "exit-code", KILLED: "signal", DUMPED: "core-dump"}[self.code]

    def __str__(self) -> str:
        if self.code == EXITED:
            name = _EXIT_NAMES.get(self.status, "n/a")
        else:
            name = signal.Signals(self.status).name.removeprefix("SIG")
        return f"code={CODE_NAMES[self.code]}, status={self.status}/{name}"


class Died(Exception):
    """Raised inside a program to end its main process there and then."""

    def __init__(self, exit_: Exit) -> None:
        super().__init__(str(exit_))
        self.exit = exit_


class Meter:
    """What the unit's cgroup counts, in told time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.now()
        self._cores = 0.0
        self._reading = 0.0
        self._growing = 0.0
        self._cpu = 0.0
        self._read = 0.0
        self._read_most = float("inf")
        self._gpu = 0.0
        self.tasks = 1
        self.gpus = 8
        self.utilisation = 0  # per cent

    def set(
        self,
        *,
        cores: float | None = None,
        reading: float | None = None,
        growing: float = 0.0,
        most: float | None = None,
    ) -> None:
        """From now on: busy cores, bytes a second from disk, and onto each GPU besides what is read.

        `most`: where reading ends, in bytes since the start.
        """
        self._count()
        self._cores = self._cores if cores is None else cores
        self._reading = self._reading if reading is None else reading
        self._growing = growing
        self._read_most = self._read_most if most is None else most

    def hold(self, gpu: float) -> None:
        """So many more bytes on each GPU at once."""
        self._gpu += gpu

    @property
    def reads(self) -> bool:
        self._count()
        return self._reading > 0 and self._read < self._read_most

    @property
    def gpu_bytes(self) -> int:
        """Used on each GPU."""
        self._count()
        return int(self._gpu)

    def credit(self, *, cores: float, since: datetime) -> None:
        """What was used before the practice began."""
        self._cpu += cores * (self._clock.now() - since).total_seconds()

    @property
    def cpu_nanoseconds(self) -> int:
        self._count()
        return int(self._cpu * 1e9)

    @property
    def read_bytes(self) -> int:
        self._count()
        return int(self._read)

    @property
    def memory_bytes(self) -> int:
        """Page cache counts too, so what was read shows here."""
        return 3 * 2**30 + self.read_bytes

    def _count(self) -> None:
        now = self._clock.now()
        passed = (now - self._since).total_seconds()
        self._since = now
        self._cpu += self._cores * passed
        before = self._read
        self._read = max(before, min(before + self._reading * passed, self._read_most))
        self._gpu += (self._read - before) / self.gpus + self._growing * passed


class Output(Protocol):
    """Where stdout and stderr go: the journal, or a file."""

    def write(self, data: bytes, *, pid: int, comm: str, at: datetime | None = None) -> None: ...
    def close(self) -> None: ...


class Process:
    """One run of the program: its main process and what hangs on it."""

    def __init__(
        self,
        *,
        pid: int,
        invocation: str,
        stream: Output,
        meter: Meter,
        began: datetime,
        command_line: str = "",
        kernel: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.command_line = command_line
        self.kernel = kernel  # what the kernel says meanwhile
        self.pid = pid
        self.invocation = invocation
        self.stream = stream
        self.meter = meter
        self.began = began
        self.ranks: dict[int, int] = {}  # pids of the processes that are ranks
        self.terminated = asyncio.Event()  # SIGTERM was sent

    def write(self, data: bytes, *, pid: int, comm: str, at: datetime | None = None) -> None:
        self.stream.write(data, pid=pid, comm=comm, at=at)


class Program(Protocol):
    """What a unit runs. Cancelled is killed: SIGKILL leaves no time to say anything."""

    async def run(self, process: Process) -> Exit: ...


@dataclass(frozen=True, slots=True)
class UnitFile:
    """The settings of a unit file that matter here; durations in told time."""

    name: str
    description: str
    user: bool = False
    restart: Literal["no", "always", "on-failure"] = "no"
    restart_after: timedelta = timedelta(milliseconds=100)
    stop_timeout: timedelta = timedelta(seconds=90)
    start_limit: int = 5
    start_limit_interval: timedelta = timedelta(seconds=10)
    io_accounting: bool = False
    command_line: str = (
        "/opt/sglang/bin/python -m sglang.launch_server --model-path /models/kimi-k2.5 --tp-size 8 "
        "--mem-fraction-static 0.85 --reasoning-parser kimi_k2 --tool-call-parser kimi_k2"
    )
    environment: tuple[str, ...] = ("NCCL_DEBUG=WARN", "HF_TOKEN=hf_practice0token1of2no3use")
    drop_ins: tuple[str, ...] = ()
    packages: tuple[str, ...] = ("sglang-0.5.8.post1", "torch-2.9.1")  # beside the interpreter

    @property
    def cgroup(self) -> str:
        if self.user:
            return f"/user.slice/user-1000.slice/user@1000.service/app.slice/{self.name}"
        return f"/system.slice/{self.name}"

"""The stage a scenario's script plays on: ranks that speak, bars, waits, ports, deaths."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol

from bot.practice.engine import Engine, ServerStatus
from bot.practice.process import EXITED, KILLED, Died, Exit, Process
from bot.practice.scenarios import sglang_log as log

if TYPE_CHECKING:
    from bot.clock import Clock
    from bot.practice.units import Unit

MAIN = None  # the parent process has no rank

# Shards are not of one size: a bar moves unevenly, as real ones do, and the same in every run.
_WEIGHTS = (0.7, 1.3, 1.0, 0.6, 1.5, 0.9)


class Place(Protocol):
    """The host, as far as somebody may do something to it."""

    clock: Clock
    unit: Unit

    async def go_dark(self) -> None: ...
    async def open_door(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Scenario:
    """What one practice service does: how it stands before, and one script for each start in turn.

    The last script serves for all later starts. `restart` is the unit's policy. `stalls_first`: after a while
    something comes of its stall, so that whoever watches it should wait. `serving`: what a service that is
    healthy before does, other than serve; `befalls`: what happens to the host meanwhile; with either it is an
    outage, which needs nobody to ask for anything. `unasked`: its `serving` where nobody asks for anything.
    `service`: keys of its configuration that show it. `starts`: how many it takes until its title comes true.
    """

    name: str
    title: str
    scripts: tuple[Script, ...]
    before: Literal["healthy", "stopped", "down"] = "healthy"
    restart: Literal["no", "always", "on-failure"] = "no"
    restart_after: timedelta = timedelta(seconds=10)
    ranks: int = 8
    stalls_first: bool = False
    serving: Script | None = None
    unasked: Script | None = None
    befalls: Callable[[Place], Awaitable[None]] | None = None
    service: Mapping[str, Any] = field(default_factory=dict)
    starts: int = 1

    @property
    def is_outage(self) -> bool:
        return self.serving is not None or self.befalls is not None

    def left_alone(self) -> Scenario:
        return self if self.unasked is None else replace(self, serving=self.unasked)

    def script(self, start: int) -> Script:
        return self.scripts[min(start, len(self.scripts) - 1)]


class Stage:
    """One start of the service, in told time."""

    def __init__(
        self,
        process: Process,
        *,
        engine: Engine,
        stray: Engine,
        clock: Clock,
        ranks: int,
        pids: Iterator[int],
        cgroup: str,
    ) -> None:
        self.process = process
        self.engine = engine
        self.ranks = range(ranks)
        self.dialect = log.OLD
        self.stretch = 1.0  # above 1: everything takes longer
        self.draining = False  # False: SIGTERM ends it at once
        self.pids = {rank: next(pids) for rank in self.ranks}
        process.ranks.update(self.pids)
        process.meter.gpus = ranks
        self._stray = stray
        self.clock = clock
        self._cgroup = cgroup
        self._at: datetime | None = None

    # -- time ----------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """Where the script stands: a machine that is late lets no phase last longer or shorter."""
        if self._at is None:
            self._at = self.clock.now()
        return self._at

    async def wait(self, seconds: float) -> None:
        """Told seconds. What the machine loses on the way is made up for by the next wait."""
        await self._until(self.now + timedelta(seconds=seconds * self.stretch))

    async def together(self, *branches: Awaitable[None]) -> None:
        """Branches beside each other; the first that dies takes the others with it."""
        tasks = [asyncio.ensure_future(branch) for branch in branches]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def forever(self) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    async def _until(self, due: datetime) -> None:
        await asyncio.sleep(max(0.0, self.clock.real(due - self.clock.now())))
        self._at = due

    # -- speech --------------------------------------------------------------------------------

    def say(self, rank: int | None, text: str) -> None:
        """A record with the engine's prefix."""
        self.raw(rank, log.stamp(self.now, rank) + text + "\n")

    def say_all(self, text: str) -> None:
        for rank in self.ranks:
            self.say(rank, text)

    def say_lines(self, rank: int | None, lines: list[str]) -> None:
        """A record of several lines: the prefix stands before the first alone."""
        self.say(rank, "\n".join(lines))

    def raw(self, rank: int | None, text: str) -> None:
        """Bytes as they are, from that rank's process."""
        pid = self.process.pid if rank is MAIN else self.pids[rank]
        comm = "python" if rank is MAIN else f"sglang::scheduler_TP{rank}"
        self.process.write(text.encode(), pid=pid, comm=comm, at=self.now)

    async def each(self, seconds: Mapping[int, float], text: Callable[[float], str]) -> None:
        """Each rank says its line when its time has come; `text` gets the seconds it took."""
        began = self.now
        for rank, told in sorted(seconds.items(), key=lambda item: item[1]):
            took = told * self.stretch
            await self._until(began + timedelta(seconds=took))
            self.say(rank, text(took))

    async def bar(
        self, total: int, seconds: float, draw: Callable[[int, float], str], *, until: int | None = None
    ) -> None:
        """A bar drawn by rank 0, unevenly; `until` stops it there."""
        began = self.now
        shares = [_WEIGHTS[index % len(_WEIGHTS)] for index in range(total)]
        pace = seconds * self.stretch / sum(shares)
        self.raw(0, draw(0, 0.0))
        for done in range(1, (total if until is None else until) + 1):
            elapsed = pace * sum(shares[:done])
            await self._until(began + timedelta(seconds=elapsed))
            self.raw(0, draw(done, elapsed))
        if until is None:
            self.raw(0, "\n")

    # -- what the host can measure -------------------------------------------------------------

    def busy(
        self, *, cores: float, reading: float = 0.0, growing: float = 0.0, most: float | None = None
    ) -> None:
        """Cores, bytes a second from disk and onto each GPU from here on; `most`: where reading ends."""
        meter = self.process.meter
        meter.set(cores=cores, reading=reading, growing=growing, most=most)
        meter.tasks = 214 + 61 * len(self.ranks)
        meter.utilisation = 100 if cores >= len(self.ranks) else 0

    def vanish(self, rank: int) -> None:
        """The rank's process is killed from outside; nobody says a word."""
        del self.process.ranks[rank]

    # -- the port ------------------------------------------------------------------------------

    async def open_port(self) -> bool:
        """Listen; False when the address is in use."""
        try:
            await self.engine.open(pid=self.process.pid, cgroup=self._cgroup)
        except OSError:
            return False
        self.engine.on_access = self._note_access
        return True

    def _note_access(self, line: str) -> None:
        """Whoever asks comes when he likes, not where the script stands."""
        text = log.stamp(self.clock.now(), MAIN) + line + "\n"
        self.process.write(text.encode(), pid=self.process.pid, comm="python", at=self.clock.now())

    async def occupy_port(self) -> None:
        """A stray process of an earlier run takes the port, and answers as if all were well."""
        if not self._stray.listening:
            await self._stray.open(pid=88123, cgroup="/user.slice/user-1001.slice/session-4.scope")
            self._stray.status = ServerStatus.UP

    def up(self) -> None:
        self.engine.status = ServerStatus.UP

    async def terminated(self) -> None:
        """Until SIGTERM comes."""
        self.draining = True
        await self.process.terminated.wait()
        self.engine.status = ServerStatus.STOPPING
        self._at = None

    async def first_request(self) -> None:
        """Until somebody wants a completion; that one will get no answer."""
        self.engine.dying = True
        await self.engine.requested.wait()
        self._at = None

    # -- the kernel ----------------------------------------------------------------------------

    def kernel(self, text: str) -> None:
        """A line of the kernel's own."""
        self.process.kernel(text)

    async def kill_for_memory(self, rank: int) -> NoReturn:
        """The OOM killer picks a rank; systemd then ends the unit, as OOMPolicy=stop has it."""
        pid = self.pids[rank]
        for line in log.oom_killer(pid=pid, cgroup=self._cgroup):
            self.kernel(line)
        await self.wait(1)
        raise Died(Exit(KILLED, signal.SIGKILL, "oom-kill"))

    # -- deaths --------------------------------------------------------------------------------

    def die(self, number: signal.Signals = signal.SIGKILL) -> NoReturn:
        """The main process dies by a signal; SGLang's failures end in a SIGKILL of its own."""
        raise Died(Exit(KILLED, number))

    def exit(self, status: int) -> NoReturn:
        raise Died(Exit(EXITED, status))


Script = Callable[[Stage], Awaitable[None]]

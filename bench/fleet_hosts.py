"""Many GPU hosts in one process: real SSH servers before the practice workspace's systemd and journal.

What a host prints comes from the practice workspace; the units are simpler: they serve, or, once they were
started anew, load weights for as long as the measurement lasts. One HTTP server stands for all engines: those
that are never restarted share a port, each of the others has its own.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import socket
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncssh
from aiohttp import web

from bench.children import serve
from bot.clock import Clock
from bot.practice.journal import Journal
from bot.practice.process import KILLED, Exit, Process, UnitFile
from bot.practice.scenarios import sglang_log as log
from bot.practice.shell import Shell, Unkindness
from bot.practice.units import Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

USER, MODEL = "kimi", "kimi-k2.5"
RANKS = 8
LINES_A_SECOND = 4.0  # of a start that loads weights
SHARDS = 100_000  # a bar that moves and does not end


class Loading:
    """What a unit runs: resumed it serves; started anew it loads, and its port answers 503."""

    def __init__(self, clock: Clock, pids: Iterator[int]) -> None:
        self.is_up = True
        self.process: Process | None = None
        self._clock = clock
        self._pids = pids
        self._resumed = True

    async def run(self, process: Process) -> Exit:
        self.process = process
        process.ranks.update({rank: next(self._pids) for rank in range(RANKS)})
        resumed, self._resumed = self._resumed, False
        self.is_up = resumed
        loading = None if resumed else asyncio.create_task(self._load())
        await process.terminated.wait()
        if loading is not None:
            loading.cancel()
        return Exit(KILLED, signal.SIGTERM)

    def say(self, rank: int, text: str) -> None:
        self.write(rank, log.stamp(self._clock.now(), rank) + text + "\n")

    def write(self, rank: int, text: str) -> None:
        process = self.process
        if process is not None:
            process.write(text.encode(), pid=process.ranks[rank], comm=f"sglang::scheduler_TP{rank}")

    async def _load(self) -> None:
        self.say(0, log.server_args(port=30000, ranks=RANKS))
        for text in ("Init torch distributed begin.", log.distributed_end(log.OLD, 22)):
            await asyncio.sleep(0.5)
            for rank in range(RANKS):
                self.say(rank, text)
        for rank in range(RANKS):
            self.say(rank, "Load weight begin. avail mem=77.40 GB")
        for done in itertools.count(1):
            await asyncio.sleep(1 / LINES_A_SECOND)
            if done % 4:
                self.say(done % RANKS, f"Using CompressedTensorsWNA16MarlinMoEMethod for layer {done}")
            else:
                self.write(0, log.shard_bar(log.OLD, done, SHARDS, done / LINES_A_SECOND))


class FleetHost:
    def __init__(self, clock: Clock, units: list[str]) -> None:
        self.port = 0
        self.commands = 0
        journal = Journal(clock)
        pids = itertools.count(40_211, 7)
        self.programs = {name: Loading(clock, pids) for name in units}
        self.units = {
            name: Unit(
                UnitFile(name=name, description=f"{MODEL} on SGLang"),
                clock=clock,
                journal=journal,
                program=program,
                pids=pids,
            )
            for name, program in self.programs.items()
        }
        for unit in self.units.values():
            unit.open()
            unit.resume(since=clock.now() - timedelta(hours=5))
        self.shell = Shell(self.units, journal, (), Unkindness())


class Fleet:
    def __init__(self) -> None:
        self.clock = Clock()
        self.hosts: list[FleetHost] = []
        self.followed: list[tuple[float, str]] = []  # when a unit's journal began to be followed, and whose
        self._engines: dict[int, Loading] = {}
        self._numbers = itertools.count()
        self._keep: list[Any] = []

    async def carry_out(self, order: str, given: dict[str, Any]) -> Any:
        return await getattr(self, f"do_{order}")(**given)

    async def do_open(self, folder: str, hosts: list[list[str]], ported: list[str]) -> dict[str, Any]:
        """`hosts`: the units of each; `ported`: units whose engine has a port of its own."""
        server, client = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
        identity, known = Path(folder) / "id_ed25519", Path(folder) / "known_hosts"
        await asyncio.to_thread(_write_keys, identity, client)
        allowed = asyncssh.import_authorized_keys(client.export_public_key().decode())
        public = server.export_public_key().decode()
        self.hosts = [FleetHost(self.clock, units) for units in hosts]
        for host in self.hosts:
            acceptor = await asyncssh.listen(
                "127.0.0.1",
                0,
                server_host_keys=[server],
                authorized_client_keys=allowed,
                process_factory=self._serve_by(host),
                encoding=None,
                allow_scp=False,
            )
            self._keep.append(acceptor)
            host.port = acceptor.get_port()
        text = "".join(f"[127.0.0.1]:{host.port} {public}" for host in self.hosts)
        await asyncio.to_thread(known.write_text, text)
        programs = {name: each for host in self.hosts for name, each in host.programs.items()}
        engines = await self._open_engines([programs[name] for name in ported])
        return {
            "ssh": [host.port for host in self.hosts],
            "engine": engines[0],
            "engines": dict(zip(ported, engines[1:], strict=True)),
            "identity_file": str(identity),
            "known_hosts": str(known),
        }

    async def _open_engines(self, programs: list[Loading]) -> list[int]:
        """The port of all that are never restarted, then one for each of these."""
        sockets = [socket.create_server(("127.0.0.1", 0), backlog=1024) for _ in range(len(programs) + 1)]
        ports = [int(each.getsockname()[1]) for each in sockets]
        self._engines = dict(zip(ports[1:], programs, strict=True))
        runner = web.ServerRunner(web.Server(self._answer))
        await runner.setup()
        for each in sockets:
            await web.SockSite(runner, each).start()
        self._keep.append(runner)
        return ports

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        port = request.transport.get_extra_info("sockname")[1] if request.transport is not None else 0
        program = self._engines.get(port)
        if request.path == "/health":
            return web.Response(status=200 if program is None or program.is_up else 503)
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def _serve_by(self, host: FleetHost) -> Any:
        async def run(process: asyncssh.SSHServerProcess[bytes]) -> None:
            running = asyncio.ensure_future(self._run(host, process))
            left = asyncio.ensure_future(_client_left(process))
            await asyncio.wait({running, left}, return_when=asyncio.FIRST_COMPLETED)
            for task in (running, left):
                task.cancel()
            await asyncio.gather(running, left, return_exceptions=True)
            process.close()

        return run

    async def _run(self, host: FleetHost, process: asyncssh.SSHServerProcess[bytes]) -> None:
        async def write(text: str) -> None:
            process.stdout.write(text.encode())
            await process.stdout.drain()

        command = process.command or ""
        host.commands += 1
        host.shell.commands.clear()
        if "journalctl" in command and " -f " in command:
            units = [word.partition("=")[2] for word in command.split() if word.startswith("--unit=")]
            self.followed.extend((time.monotonic(), unit) for unit in units)
        with suppress(OSError):  # whoever asked was killed
            answer = await host.shell.run(command, write)
            process.stdout.write(answer.output.encode())
            process.stderr.write(answer.error.encode())
            process.exit(answer.status)

    async def do_followed(self, since: float) -> dict[str, float]:
        """When each unit's journal was first followed after that moment, in monotonic seconds."""
        found: dict[str, float] = {}
        for at, unit in self.followed:
            if at >= since:
                found.setdefault(unit, at)
        return found

    async def do_mark(self, units: list[str], marker: int, every: float) -> dict[str, float]:
        """A line to be told from each unit, one after the other; when each was written, by its number."""
        written: dict[str, float] = {}
        programs = {name: each for host in self.hosts for name, each in host.programs.items()}
        for unit in units:
            number = next(self._numbers)
            written[str(number)] = time.monotonic()
            programs[unit].say(0, f"BENCH_DIAG_{marker} n={number}")
            programs[unit].say(0, "and the line that follows it")  # which a marker waits for
            await asyncio.sleep(every)
        return written

    async def do_count(self) -> int:
        """Commands run so far, over all hosts."""
        return sum(host.commands for host in self.hosts)


def _write_keys(identity: Path, client: asyncssh.SSHKey) -> None:
    identity.touch(mode=0o600)
    client.write_private_key(identity)


async def _client_left(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Until the channel is closed, or a signal came through it. End of input alone ends nothing."""
    with suppress(asyncssh.SignalReceived, asyncssh.BreakReceived, OSError):
        while await process.stdin.read(4096):
            pass
        await process.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(Fleet().carry_out))

"""A GPU host to practise on: a real SSH server whose commands act on a small systemd, journal and engine."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh

from bot.practice.darkness import DarkPort
from bot.practice.engine import Engine, Manners
from bot.practice.journal import Journal
from bot.practice.log_file import LogFile
from bot.practice.process import UnitFile
from bot.practice.program import ScenarioProgram
from bot.practice.shell import LinkCut, Shell, Unkindness
from bot.practice.units import Unit

if TYPE_CHECKING:
    from bot.clock import Clock
    from bot.practice.scenarios import Scenario
    from bot.practice.systemctl import Answer

UNIT = "sglang-kimi.service"
USER = "kimi"
_SERVED_BEFORE = timedelta(hours=5, minutes=47)
_LOCAL = {"127.0.0.1", "localhost", "::1"}


def _new_key() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")


@dataclass(frozen=True, slots=True)
class Keys:
    """The host's key and the one client key it accepts, as files a client can be pointed at."""

    folder: Path
    client: asyncssh.SSHKey = field(default_factory=_new_key)
    server: asyncssh.SSHKey = field(default_factory=_new_key)

    @property
    def identity_file(self) -> Path:
        return self.folder / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def write(self, port: int) -> None:
        self.identity_file.touch(mode=0o600)
        self.client.write_private_key(self.identity_file)
        public = self.server.export_public_key().decode()
        self.known_hosts.write_text(f"[127.0.0.1]:{port} {public}")


class PracticeHost:
    """Start it; a host section then needs `address`, `port`, `user`, `identity_file`, `known_hosts`."""

    address = "127.0.0.1"
    user = USER
    unit_name = UNIT

    def __init__(
        self,
        clock: Clock,
        scenario: Scenario,
        *,
        model: str = "kimi-k2.5",
        api_key: str | None = None,
        user_unit: bool = False,
        log_file: str | None = None,
        manners: Manners | None = None,
    ) -> None:
        self.clock = clock
        self.scenario = scenario
        self.port = 0
        self.journal = Journal(clock)
        self.engine = Engine(clock, model, api_key, manners or Manners())
        self.stray = Engine(clock, model, api_key)
        pids = itertools.count(40211, 7)
        file = _unit_file(scenario, user=user_unit)
        self.program = ScenarioProgram(
            scenario, engine=self.engine, stray=self.stray, clock=clock, pids=pids, cgroup=file.cgroup
        )
        self.log = LogFile(clock, log_file) if log_file else None
        self.unit = Unit(
            file, clock=clock, journal=self.journal, program=self.program, pids=pids, log=self.log
        )
        self.unkind = Unkindness()
        self.shell = Shell({UNIT: self.unit}, self.journal, (self.engine, self.stray), self.unkind)
        self._keys: Keys | None = None
        self._server: asyncssh.SSHAcceptor | None = None
        self._dark: DarkPort | None = None
        self._fate: asyncio.Future[None] | None = None
        self.connections: set[asyncssh.SSHServerConnection] = set()

    # -- where it is ---------------------------------------------------------------------------

    @property
    def keys(self) -> Keys:
        if self._keys is None:
            raise RuntimeError("the practice host is not started")
        return self._keys

    @property
    def identity_file(self) -> Path:
        return self.keys.identity_file

    @property
    def known_hosts(self) -> Path:
        return self.keys.known_hosts

    @property
    def engine_url(self) -> str:
        return self.engine.url

    @property
    def commands(self) -> list[tuple[str, ...]]:
        """Every argument list that was run, in order."""
        return self.shell.commands

    @property
    def orders(self) -> list[str]:
        """The verbs that systemd was told, in order; what came too late was not."""
        told = [words for words in self.commands if "--no-block" in words and words not in self.shell.late]
        return [words[words.index("--no-block") - 1] for words in told]

    @property
    def reachable(self) -> bool:
        """Whether SSH is let in."""
        return self._server is not None

    # -- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        self.engine.reserve()
        self.stray.port = self.engine.port
        self._keys = Keys(Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="kimi-host-")))
        await self.open_door()
        await asyncio.to_thread(self._keys.write, self.port)
        self.unit.open()
        if self.scenario.before == "healthy":
            since = self.clock.now() - _SERVED_BEFORE
            self.program.resume_from(since)
            self.unit.resume(since=since)
            await self.program.settled.wait()
            if self.scenario.befalls is not None:
                self._fate = asyncio.ensure_future(self.scenario.befalls(self))
        elif self.scenario.before == "down":
            self.unit.fail_before()

    async def stop(self) -> None:
        """End everything; may be called twice."""
        fate, self._fate = self._fate, None
        if fate is not None:
            fate.cancel()
            await asyncio.gather(fate, return_exceptions=True)
        await self.close_door()
        await self.unit.close()
        await self.engine.close()
        await self.stray.close()
        self.engine.release()
        keys, self._keys = self._keys, None
        if keys is not None:
            await asyncio.to_thread(shutil.rmtree, keys.folder, ignore_errors=True)

    async def open_door(self) -> None:
        """Listen for SSH, on the same port as before when there was one."""
        keys = self.keys
        self._end_darkness()
        self._server = await asyncssh.listen(
            self.address,
            self.port,
            server_factory=lambda: _Door(self, keys),
            server_host_keys=[keys.server],
            process_factory=self._serve,
            encoding=None,
            allow_scp=False,
            reuse_address=True,
        )
        self.port = self._server.get_port()

    async def go_dark(self) -> None:
        """As without power: its SSH port does not answer at all, and connections break off."""
        await self.close_door()
        self._dark = DarkPort(self.address, self.port)

    def _end_darkness(self) -> None:
        dark, self._dark = self._dark, None
        if dark is not None:
            dark.close()

    async def close_door(self) -> None:
        """Nobody is let in: its SSH port refuses, and connections break off."""
        self._end_darkness()
        server, self._server = self._server, None
        if server is not None:
            server.close()
            await server.wait_closed()
        await self.drop()

    async def drop(self) -> None:
        """Break off all connections; new ones are welcome."""
        dropped = tuple(self.connections)
        for connection in dropped:
            connection.abort()
        for connection in dropped:
            await connection.wait_closed()

    async def reboot(self, *, enabled: bool = True, takes: timedelta = timedelta(minutes=3)) -> None:
        """It goes down in order and boots again; `enabled`: the unit is started by the boot."""
        await self.unit.shut_down()
        await self.close_door()
        await self.clock.sleep(takes)
        self.journal.reboot()
        self.shell.reboot()
        self.unit.boot(enabled=enabled)
        await self.open_door()

    # -- one command ---------------------------------------------------------------------------

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        running = asyncio.ensure_future(self._answer(process))
        left = asyncio.ensure_future(_client_left(process))
        await asyncio.wait({running, left}, return_when=asyncio.FIRST_COMPLETED)
        for task in (running, left):
            task.cancel()
        await asyncio.gather(running, left, return_exceptions=True)
        process.close()

    async def _answer(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        async def write(text: str) -> None:
            process.stdout.write(text.encode())
            await process.stdout.drain()

        try:
            answer = await self.shell.run(process.command or "", write)
        except LinkCut:
            process.channel.get_connection().abort()
            return
        await _finish(process, answer)


async def _finish(process: asyncssh.SSHServerProcess[bytes], answer: Answer) -> None:
    process.stdout.write(answer.output.encode())
    process.stderr.write(answer.error.encode())
    process.exit(answer.status)


async def _client_left(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Until the channel is closed, or a signal came through it. End of input alone ends nothing."""
    try:
        while await process.stdin.read(4096):
            pass
    except (asyncssh.SignalReceived, asyncssh.BreakReceived, OSError):
        return
    await process.wait_closed()


class _Door(asyncssh.SSHServer):
    """Lets one key of one user in, and forwards to the engine's port alone."""

    def __init__(self, host: PracticeHost, keys: Keys) -> None:
        self._host = host
        self._key = keys.client.export_public_key()
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._host.connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._connection is not None:
            self._host.connections.discard(self._connection)

    def begin_auth(self, username: str) -> bool:
        del username
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == USER and key.export_public_key() == self._key

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        del orig_host, orig_port
        local = dest_host in _LOCAL and dest_port == self._host.engine.port
        if not local or self._host.unkind.no_forwarding:
            prohibited = asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED
            raise asyncssh.ChannelOpenError(prohibited, "administratively prohibited")
        return True


def _unit_file(scenario: Scenario, *, user: bool) -> UnitFile:
    return UnitFile(
        name=UNIT,
        description="Kimi K2.5 on SGLang",
        user=user,
        restart=scenario.restart,
        restart_after=scenario.restart_after,
    )

"""A real SSH server on loopback whose commands are answered by a test."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

import asyncssh

from bot.clients.ssh import Host
from bot.core.events import HostName
from config.services import HostSection

if TYPE_CHECKING:
    from pathlib import Path

USER = "kimi"
Process: TypeAlias = "asyncssh.SSHServerProcess[bytes]"
Command: TypeAlias = Callable[[list[str], Process], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Said:
    """What a command says and how it ends."""

    out: str = ""
    err: str = ""
    status: int = 0


class SshServer:
    """Start with `await start()`. `answers` maps the beginning of a command line to what it does."""

    name = HostName("llm-two")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: list[list[str]] = []  # words of each, without the `env` in front
        self.lines: list[str] = []  # as they were sent
        self.answers: dict[str, Said | Command] = {}
        self.forwarding = True
        self.logins = 0
        self.max_sessions = 10  # of a connection, as sshd has it
        self.refusal = asyncssh.OPEN_CONNECT_FAILED  # how a session is refused, "open failed"
        self.refused = 0  # sessions
        self.entering = self.most_entering = 0  # connections that are not logged in yet
        self.forwarded = 0  # connections that went on to a port
        self.ended = asyncio.Event()  # a command's channel was closed by the client
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._doors: list[_Door] = []
        self._client_key = asyncssh.generate_private_key("ssh-ed25519")
        self._host_key = asyncssh.generate_private_key("ssh-ed25519")
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self.port = 0

    async def start(self) -> None:
        self._acceptor = await asyncssh.listen(
            "127.0.0.1",
            self.port,
            server_factory=lambda: _Door(self),
            server_host_keys=[self._host_key],
            encoding=None,
        )
        self.port = self._acceptor.get_port()
        self._client_key.write_private_key(str(self.folder / "id_ed25519"))
        self.trust(self._host_key)

    async def stop(self) -> None:
        self.cut()
        if self._acceptor is not None:
            self._acceptor.close()
            await self._acceptor.wait_closed()

    @property
    def sessions(self) -> list[int]:
        """Of each connection, how many it carries; in the order in which they were made."""
        return [door.sessions for door in self._doors]

    def cut(self) -> None:
        """Break every connection off."""
        for connection in tuple(self._connections):
            connection.abort()

    def cut_one(self, number: int) -> None:
        """Break off the one that stands there in `sessions`."""
        self._doors[number].cut()

    def trust(self, key: asyncssh.SSHKey) -> None:
        """What the client's known_hosts says about this server."""
        line = f"[127.0.0.1]:{self.port} {key.export_public_key().decode()}"
        (self.folder / "known_hosts").write_text(line)

    def section(self, **changes: object) -> HostSection:
        plain = {
            "address": "127.0.0.1",
            "port": self.port,
            "user": USER,
            "identity_file": str(self.folder / "id_ed25519"),
            "known_hosts": str(self.folder / "known_hosts"),
            "sudo": True,
        }
        return HostSection.model_validate({**plain, **changes})

    async def _serve(self, process: Process) -> None:
        line = process.command or ""
        self.lines.append(line)
        words = [word for word in shlex.split(line) if word != "env" and not _is_assignment(word)]
        self.commands.append(words)
        answer = next((a for start, a in self.answers.items() if shlex.join(words).startswith(start)), None)
        running = asyncio.ensure_future(_answer(process, words, answer))
        try:
            await self._until_left(process, running)
        finally:
            running.cancel()
            process.close()

    async def _until_left(self, process: Process, running: asyncio.Future[None]) -> None:
        """Until the command ended, or the client hung up or sent a signal."""
        leaving = asyncio.ensure_future(_hear_leaving(process))
        await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if not running.done():
            self.ended.set()


async def _hear_leaving(process: Process) -> None:
    """Until the channel is closed or a signal comes through it; the end of input alone ends nothing."""
    with suppress(OSError, asyncssh.Error, asyncssh.SignalReceived):
        while await process.stdin.read(4096):
            pass
        await process.wait_closed()


async def _answer(process: Process, words: list[str], answer: Said | Command | None) -> None:
    match answer:
        case None:
            process.stderr.write(f"sh: 1: {words[0]}: not found\n".encode())
            process.exit(127)
        case Said():
            process.stdout.write(answer.out.encode())
            process.stderr.write(answer.err.encode())
            process.exit(answer.status)
        case _:
            await answer(words, process)


def _is_assignment(word: str) -> bool:
    return word.partition("=")[0].isupper() and "=" in word and not word.startswith("_")


class _Session(asyncssh.SSHServerProcess[bytes]):
    """Counts until its channel is closed."""

    def __init__(self, door: _Door) -> None:
        super().__init__(door._server._serve, None, 3, allow_scp=False)
        self._door = door
        door.sessions += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.sessions -= 1
        super().connection_lost(exc)


class _Door(asyncssh.SSHServer):
    def __init__(self, server: SshServer) -> None:
        self._server = server
        self._connection: asyncssh.SSHServerConnection | None = None
        self._entered = False
        self.sessions = 0

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        server = self._server
        server._connections.add(conn)
        server.entering += 1
        server.most_entering = max(server.most_entering, server.entering)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._connection is not None:
            self._server._connections.discard(self._connection)
        if self._entered:
            self._server._doors.remove(self)
        else:
            self._server.entering -= 1

    def auth_completed(self) -> None:
        self._entered = True
        self._server.logins += 1
        self._server.entering -= 1
        self._server._doors.append(self)

    def cut(self) -> None:
        if self._connection is not None:
            self._connection.abort()

    def session_requested(self) -> _Session:
        if self.sessions >= self._server.max_sessions:
            self._server.refused += 1
            raise asyncssh.ChannelOpenError(self._server.refusal, "open failed")
        return _Session(self)

    def begin_auth(self, username: str) -> bool:
        del username
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == USER and key == self._server._client_key.convert_to_public()

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> Awaitable[asyncssh.SSHTCPSession[bytes]]:
        del orig_host, orig_port
        if self._server.forwarding:
            self._server.forwarded += 1
            return self._forward(dest_host, dest_port)
        raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "open failed")

    async def _forward(self, host: str, port: int) -> asyncssh.SSHTCPSession[bytes]:
        """As asyncssh does it, which keeps what is there when the client has gone meanwhile."""
        assert self._connection is not None
        session = await self._connection.forward_connection(host, port)
        if self not in self._server._doors:
            session.close()
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "the client has gone")
        return cast("asyncssh.SSHTCPSession[bytes]", session)


async def hang(_: list[str], __: Process) -> None:
    """A command that is accepted and never ends."""
    await asyncio.Event().wait()


@asynccontextmanager
async def serve(folder: Path) -> AsyncIterator[SshServer]:
    server = SshServer(folder)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def connect(server: SshServer, **changes: object) -> AsyncIterator[Host]:
    """A Host for the server with short time-outs; `changes` go into its section."""
    host = Host(server.name, server.section(**changes), connect_timeout=5, command_timeout=5, keepalive=5)
    try:
        yield host
    finally:
        await host.close()

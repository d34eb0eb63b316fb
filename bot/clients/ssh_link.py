"""One SSH connection to one host: made when first needed, shared by all, made anew when it was lost."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import asyncssh
import structlog

from bot.clients import ssh_errors
from bot.errors import HostError, HostUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from asyncssh.channel import SSHChannel

    from bot.core.events import HostName
    from config.services import HostSection

log = structlog.get_logger()

# Answers are parsed, so they come in no one's language, zone or colour.
PLAIN = ("env", "LC_ALL=C", "TZ=UTC", "SYSTEMD_COLORS=0", "SYSTEMD_PAGER=")
_ANSWER_LIMIT = 1 << 20  # bytes kept of a command's answer; more is read and dropped
_JOURNAL_WINDOW = 256 << 10  # bytes a host may send ahead of the reader
_KEEPALIVES_MISSED = 3
# Before all others: asyncssh's own first choice, ChaCha20, is put together in Python for each packet.
_CIPHERS = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"
_ROOM = (0.2, 0.5, 1.0, 2.0)  # seconds until a session is asked for again: sshd allows ten (MaxSessions)


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended; `status` is negative for a signal."""

    status: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        return self.err.strip() or self.out.strip()


class _Watcher(asyncssh.SSHClient):
    """Remembers whom a connection reached: what tells a dead host from one that accepts and hangs."""

    peer: str | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self.peer = str(conn.get_extra_info("peername")[0])


class _Checked(asyncssh.SSHClientProcess[bytes]):
    """Asks `check` when the session stands and nothing of the command was sent yet."""

    def __init__(self, check: Callable[[], None]) -> None:
        super().__init__()
        self._check = check

    def connection_made(self, chan: SSHChannel[bytes]) -> None:
        try:
            self._check()
        except BaseException:
            chan.close()
            raise
        super().connection_made(chan)


class Link:
    def __init__(
        self,
        name: HostName,
        section: HostSection,
        *,
        connect_timeout: float,
        command_timeout: float,
        keepalive: float,
    ) -> None:
        self.name = name
        self.section = section
        self.connect_timeout = connect_timeout
        self.command_timeout = command_timeout
        self.keepalive = keepalive
        self.reads_journal: asyncssh.SSHClientConnection | None = None  # this login may read the journal
        self.connects = 0  # connections made
        self._connection: asyncssh.SSHClientConnection | None = None
        self._attempt: asyncio.Task[asyncssh.SSHClientConnection] | None = None

    async def connection(self) -> asyncssh.SSHClientConnection:
        """The living connection. All who ask meanwhile share one attempt, and its error."""
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        if self._attempt is None:
            self._attempt = asyncio.create_task(self._connect(), name=f"connect {self.name}")
            self._attempt.add_done_callback(self._settle)
        attempt = self._attempt
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            if attempt.cancelled() and not _is_cancelled():  # `close` ended the attempt, not the caller
                raise HostUnreachable(self.name, f"{self.name}: the connection was closed here.") from None
            raise

    def _settle(self, attempt: asyncio.Task[asyncssh.SSHClientConnection]) -> None:
        self._attempt = None
        if not attempt.cancelled() and attempt.exception() is None:
            self._connection = attempt.result()

    async def _connect(self) -> asyncssh.SSHClientConnection:
        options = self._options()
        watcher = _Watcher()
        try:
            async with asyncio.timeout(self.connect_timeout):
                connection = await asyncssh.connect(
                    self.section.address,
                    self.section.port,
                    options=options,
                    client_factory=lambda: watcher,
                )
        except (OSError, asyncssh.Error) as error:
            raise ssh_errors.connect_failure(
                error,
                name=self.name,
                section=self.section,
                peer=watcher.peer,
                seconds=self.connect_timeout,
            ) from error
        self.connects += 1
        log.info("host_connected", host=self.name, address=ssh_errors.place(self.section))
        return connection

    def _options(self) -> asyncssh.SSHClientConnectionOptions:
        """One key, one file of host keys, and nothing this machine's user has lying about."""
        self._check_files()
        return asyncssh.SSHClientConnectionOptions(
            config=None,  # a ~/.ssh/config could turn the check of host keys off
            username=self.section.user,
            client_keys=[self.section.identity_file],
            known_hosts=self.section.known_hosts,
            agent_path=None,
            preferred_auth="publickey",
            password_auth=False,
            kbdint_auth=False,
            host_based_auth=False,
            gss_auth=False,
            gss_kex=False,
            login_timeout=self.connect_timeout,
            encryption_algs=_CIPHERS,
            keepalive_interval=self.keepalive,
            keepalive_count_max=_KEEPALIVES_MISSED,
        )

    def _check_files(self) -> None:
        """Read both files before anything is sent: a fault in one is then told apart from the network's."""
        section = self.section
        try:
            asyncssh.read_private_key(section.identity_file)
        except (OSError, asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
            raise ssh_errors.key_unusable(error, name=self.name, section=section) from error
        try:
            asyncssh.read_known_hosts(section.known_hosts)
        except (OSError, ValueError) as error:
            raise ssh_errors.known_hosts_unusable(error, name=self.name, section=section) from error

    async def run(
        self,
        arguments: Sequence[str],
        *,
        check: Callable[[], None] | None = None,
        connection: asyncssh.SSHClientConnection | None = None,
    ) -> Finished:
        """Run one command to its end, whatever its status. `check` is called last before it is sent.

        `connection`: on that one and no other.
        """
        connection = connection or await self.connection()
        try:
            async with asyncio.timeout(self.command_timeout):
                return await self._run(connection, arguments, check)
        except TimeoutError as error:
            raise ssh_errors.command_timed_out(
                self.name, during=shlex.join(arguments), seconds=self.command_timeout
            ) from error

    async def _run(
        self,
        connection: asyncssh.SSHClientConnection,
        arguments: Sequence[str],
        check: Callable[[], None] | None,
    ) -> Finished:
        process = await self._open(connection, arguments, check)
        try:
            out, err = await asyncio.gather(_read_bounded(process.stdout), _read_bounded(process.stderr))
            await process.wait_closed()
        except (OSError, asyncssh.Error) as error:
            raise ssh_errors.link_lost(self.name, during=shlex.join(arguments), sent=True) from error
        finally:
            process.close()
        if process.returncode is None:
            raise ssh_errors.link_lost(self.name, during=shlex.join(arguments), sent=True)
        return Finished(process.returncode, out, err)

    async def open(self, arguments: Sequence[str]) -> asyncssh.SSHClientProcess[bytes]:
        """Start a command whose output is read as it comes; the host waits when nobody reads."""
        connection = await self.connection()
        try:
            async with asyncio.timeout(self.command_timeout):
                return await self._open(connection, arguments)
        except TimeoutError as error:
            raise ssh_errors.command_timed_out(
                self.name, during=shlex.join(arguments), seconds=self.command_timeout
            ) from error

    async def _open(
        self,
        connection: asyncssh.SSHClientConnection,
        arguments: Sequence[str],
        check: Callable[[], None] | None = None,
    ) -> asyncssh.SSHClientProcess[bytes]:
        """Where sshd has no session left, nothing was sent: it is asked again when one may have ended."""
        for delay in (*_ROOM, None):
            try:
                return await self._create(connection, arguments, check)
            except asyncssh.ChannelOpenError as error:
                if connection.is_closed():  # while it was asked for a session: no command had been sent
                    raise ssh_errors.link_lost(self.name, during=shlex.join(arguments)) from error
                if delay is None or error.code != asyncssh.OPEN_CONNECT_FAILED:
                    raise ssh_errors.channel_refused(error, name=self.name, what="a session") from error
                await asyncio.sleep(delay)
        raise AssertionError("the last attempt returns or raises")

    async def _create(
        self,
        connection: asyncssh.SSHClientConnection,
        arguments: Sequence[str],
        check: Callable[[], None] | None,
    ) -> asyncssh.SSHClientProcess[bytes]:
        command = shlex.join((*PLAIN, *arguments))
        try:
            if check is not None:
                # As `create_process` does it, but for what looks once more before the command is sent.
                _, session = await connection.create_session(
                    partial(_Checked, check), command, encoding=None, window=_JOURNAL_WINDOW
                )
                process = cast("asyncssh.SSHClientProcess[bytes]", session)
                await process.redirect(stdin=asyncssh.DEVNULL)
                return process
            return await connection.create_process(
                command, stdin=asyncssh.DEVNULL, encoding=None, window=_JOURNAL_WINDOW
            )
        except asyncssh.ChannelOpenError:
            raise
        except (OSError, asyncssh.Error) as error:
            raise ssh_errors.link_lost(self.name, during=shlex.join(arguments), sent=True) from error

    async def knock(self, host: str, port: int) -> HostError | None:
        """Why `host:port` cannot be reached from the host; None when something accepts there."""
        connection = await self.connection()
        try:
            async with asyncio.timeout(self.connect_timeout):
                _, writer = await connection.open_connection(host, port, encoding=None)
        except TimeoutError:
            return HostUnreachable(self.name, "timed out")
        except asyncssh.ChannelOpenError as error:
            if error.code == asyncssh.OPEN_CONNECT_FAILED:
                return HostUnreachable(self.name, ssh_errors.knock_failure(error.reason))
            return ssh_errors.channel_refused(error, name=self.name, what=f"a tunnel to {host}:{port}")
        except (OSError, asyncssh.Error):
            return ssh_errors.link_lost(self.name, during=f"connect to {host}:{port}")
        writer.close()
        return None

    async def close(self) -> None:
        """End the connection; may be called twice. A later command makes a new one."""
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.wait({self._attempt})
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            with contextlib.suppress(OSError, asyncssh.Error, TimeoutError):
                async with asyncio.timeout(self.connect_timeout):
                    await connection.wait_closed()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _read_bounded(reader: asyncssh.SSHReader[bytes]) -> str:
    kept = bytearray()
    while data := await reader.read(65536):
        kept += data[: _ANSWER_LIMIT - len(kept)]
    return kept.decode(errors="replace")

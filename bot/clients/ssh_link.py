"""The way to one host over SSH: commands and streams, each in a session of one of its connections."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncssh

from bot.clients import ssh_channels, ssh_errors
from bot.clients.ssh_connecting import Door
from bot.clients.ssh_lines import Lines
from bot.errors import HostError, HostUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from bot.clients.ssh_channels import Session
    from bot.clients.ssh_places import Place
    from bot.core.events import HostName
    from config.services import HostSection

# Answers are parsed, so they come in no one's language, zone or colour.
PLAIN = ("env", "LC_ALL=C", "TZ=UTC", "SYSTEMD_COLORS=0", "SYSTEMD_PAGER=")
_ANSWER_LIMIT = 1 << 20  # bytes kept of a command's answer; more is read and dropped


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended; `status` is negative for a signal."""

    status: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        return self.err.strip() or self.out.strip()


class Link:
    """Connects when first needed, and again when that was lost; `ssh_lines` tells of further connections."""

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
        self.reads_journal: asyncssh.SSHClientConnection | None = None  # this login may read the journal
        door = Door(name, section, timeout=connect_timeout, keepalive=keepalive)
        self._lines = Lines(name, door.connect)

    @property
    def connects(self) -> int:
        """How often it connected while there was no connection."""
        return self._lines.made

    async def connection(self) -> asyncssh.SSHClientConnection:
        """The living connection that orders go over."""
        return await self._lines.first()

    def holds(self, connection: asyncssh.SSHClientConnection) -> bool:
        """Whether it lives and is one of this link's."""
        return self._lines.holds(connection)

    def outdate(self, connection: asyncssh.SSHClientConnection) -> None:
        """What its login lacks, the next one may have; it is made before long."""
        self._lines.outdate(connection)

    async def run(
        self,
        arguments: Sequence[str],
        *,
        check: Callable[[], None] | None = None,
        connection: asyncssh.SSHClientConnection | None = None,
        within: float | None = None,
    ) -> Finished:
        """Run one command to its end, whatever its status. `check` is called last before it is sent.

        `connection`: on that one and no other. `within`: seconds from when there is room for it on, else the
        command time-out.
        """
        seconds = self.command_timeout if within is None else within
        process, until = await self._begin(arguments, check=check, on=connection, within=seconds)
        try:
            async with asyncio.timeout_at(until):
                return await self._finish(process, arguments)
        except TimeoutError as error:
            raise ssh_errors.command_timed_out(
                self.name, during=shlex.join(arguments), seconds=seconds
            ) from error
        finally:
            process.hang_up()

    async def open(self, arguments: Sequence[str]) -> Session:
        """Start a command whose output is read as it comes; the host waits when nobody reads.

        Whoever opened it hangs up.
        """
        process, _ = await self._begin(arguments, stream=True, within=self.command_timeout)
        return process

    async def _begin(
        self,
        arguments: Sequence[str],
        *,
        within: float,
        stream: bool = False,
        check: Callable[[], None] | None = None,
        on: asyncssh.SSHClientConnection | None = None,
    ) -> tuple[Session, float]:
        """The command's session, and the loop's time until which it may take."""
        during = shlex.join(arguments)
        while True:
            place = await self._take(stream=stream, on=on, during=during)
            until = asyncio.get_running_loop().time() + within
            try:
                async with asyncio.timeout_at(until):
                    command = shlex.join((*PLAIN, *arguments))
                    return await ssh_channels.start(place, command, check=check), until
            except TimeoutError as error:
                raise ssh_errors.command_timed_out(
                    self.name, during=during, seconds=within, sent=place.opened
                ) from error
            except asyncssh.ChannelOpenError as error:
                if not self._may_try_again(error, place, during=during):
                    raise ssh_errors.channel_refused(error, name=self.name, what="a session") from error
            except (OSError, asyncssh.Error) as error:
                raise ssh_errors.link_lost(self.name, during=during, sent=place.opened) from error

    async def _take(self, *, stream: bool, on: asyncssh.SSHClientConnection | None, during: str) -> Place:
        """A place, after at most a connection that fails and a command that takes its time."""
        seconds = self.connect_timeout + self.command_timeout
        try:
            async with asyncio.timeout(seconds):
                return await self._lines.take(stream=stream, on=on)
        except TimeoutError as error:
            raise HostUnreachable(
                self.name,
                f"{self.name}: no session was free for `{during}` within {seconds:g} s "
                f"({self._lines.describe()}); raise MaxSessions in sshd_config there.",
            ) from error

    def _may_try_again(self, error: asyncssh.ChannelOpenError, place: Place, *, during: str) -> bool:
        """No session was opened, so nothing was sent: whether another place may have one."""
        if place.line.connection.is_closed():
            raise ssh_errors.link_lost(self.name, during=during) from error
        return not place.opened and self._lines.refused(place)

    async def _finish(self, process: Session, arguments: Sequence[str]) -> Finished:
        during = shlex.join(arguments)
        try:
            out, err = await asyncio.gather(_read_bounded(process.stdout), _read_bounded(process.stderr))
            await process.wait_closed()
        except (OSError, asyncssh.Error) as error:
            raise ssh_errors.link_lost(self.name, during=during, sent=True) from error
        if process.returncode is None:
            raise ssh_errors.link_lost(self.name, during=during, sent=True)
        return Finished(process.returncode, out, err)

    def way(self) -> AbstractAsyncContextManager[asyncssh.SSHClientConnection]:
        """A living connection for forwarded ports, which are no sessions; it stays for as long."""
        return self._lines.way()

    async def knock(self, host: str, port: int) -> HostError | None:
        """Why `host:port` cannot be reached from the host; None when something accepts there."""
        async with self.way() as connection:
            try:
                async with asyncio.timeout(self.connect_timeout):
                    _, writer = await ssh_channels.reach(connection, host, port)
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
        """End the connections; may be called twice. A later command makes a new one."""
        try:
            async with asyncio.timeout(self.connect_timeout):
                await self._lines.close()
        except TimeoutError:
            return  # the network swallows what ends them, and the time-out of TCP is left to it


async def _read_bounded(reader: asyncssh.SSHReader[bytes]) -> str:
    kept = bytearray()
    while data := await reader.read(65536):
        kept += data[: _ANSWER_LIMIT - len(kept)]
    return kept.decode(errors="replace")

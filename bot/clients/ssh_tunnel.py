"""Tunnels through an SSH connection: unix sockets here whose connections come out as seen from the host."""

from __future__ import annotations

import asyncio
import contextlib
import select
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh

from bot.clients import ssh_channels
from bot.errors import HostError, HostUnreachable

if TYPE_CHECKING:
    from bot.clients.ssh_channels import Way
    from bot.clients.ssh_link import Link

_CHUNK = 64 << 10
_LOOK_AGAIN = 1.0  # seconds


class Tunnels:
    """Opened when first asked for, and kept.

    asyncssh's own forwarding leaves a connection just accepted open for ever when the link is lost
    at that moment. Here whatever goes wrong hangs up at once, and the next one goes through a new link.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._folder: Path | None = None
        self._open: dict[tuple[str, int], tuple[Path, asyncio.Server]] = {}
        self._carrying: set[asyncio.Task[None]] = set()
        self._dug = 0
        self._lock = asyncio.Lock()

    async def path_to(self, host: str, port: int) -> Path:
        """The socket's path, which only this process's user can reach; raises when the host is not there."""
        async with self._link.way():
            pass
        async with self._lock:
            tunnel = self._open.get((host, port))
            if tunnel is None or not tunnel[0].exists():  # folders for passing things get swept
                if tunnel is not None:
                    tunnel[1].close()
                tunnel = self._open[host, port] = await self._dig(host, port)
            return tunnel[0]

    async def _dig(self, host: str, port: int) -> tuple[Path, asyncio.Server]:
        if self._folder is None or not self._folder.exists():
            self._folder = Path(tempfile.mkdtemp(prefix="kimi-tunnel-"))  # mode 0700
        self._dug += 1
        path = self._folder / str(self._dug)

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if (host, port) not in self._open:  # accepted just before it was closed
                writer.close()
                return
            task = asyncio.create_task(self._carry(reader, writer, host, port), name=f"tunnel {host}:{port}")
            self._carrying.add(task)
            task.add_done_callback(self._carrying.discard)
            task.add_done_callback(lambda _: writer.close())  # one cancelled before its first step has no end

        try:
            return path, await asyncio.start_unix_server(accept, path)
        except OSError as error:
            name = self._link.name
            raise HostUnreachable(
                name, f"{name}: no socket at {path} for a tunnel: {error.strerror}."
            ) from error

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int
    ) -> None:
        """One connection, from end to end; it hangs up when either end does, or the link is lost."""
        with contextlib.suppress(HostError, OSError, asyncssh.Error):
            async with self._link.way() as connection:
                await _join((reader, writer), await ssh_channels.reach(connection, host, port))

    async def close(self) -> None:
        """May be called twice; a tunnel asked for later is opened anew."""
        tunnels, self._open = list(self._open.values()), {}
        for _, server in tunnels:
            server.close()
        carrying = tuple(self._carrying)
        for task in carrying:
            task.cancel()
        await asyncio.gather(*carrying, return_exceptions=True)
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


async def _join(here: tuple[asyncio.StreamReader, asyncio.StreamWriter], there: Way) -> None:
    """Carry bytes both ways until the far end is done, this end is gone, or either breaks.

    An engine that hangs closes nothing, whoever has given it up: of those connections there would be more
    with each probe.
    """
    out = asyncio.ensure_future(_pump(here[0], there[1]))
    back = asyncio.ensure_future(_pump(there[0], here[1]))
    try:
        await asyncio.wait({out, back}, return_when=asyncio.FIRST_COMPLETED)
        while not (back.done() or _is_gone(here[1])):  # it has said all, and may wait for the answer
            await asyncio.wait({back}, timeout=_LOOK_AGAIN)
    finally:
        out.cancel()
        back.cancel()
        there[1].close()
        await asyncio.gather(out, back, return_exceptions=True)


def _is_gone(writer: asyncio.StreamWriter) -> bool:
    """Whether the other end is closed, and not only done with writing: both read as an end of file."""
    descriptor = writer.get_extra_info("socket").fileno()
    if descriptor < 0:
        return True
    poll = select.poll()
    poll.register(descriptor, 0)  # what is always told: POLLHUP, POLLERR
    return bool(poll.poll(0))


async def _pump(
    reader: asyncio.StreamReader | asyncssh.SSHReader[bytes],
    writer: asyncio.StreamWriter | asyncssh.SSHWriter[bytes],
) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()

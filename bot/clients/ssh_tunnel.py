"""Tunnels through an SSH connection: unix sockets here whose connections come out as seen from the host."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh

from bot.clients import ssh_errors
from bot.errors import HostUnreachable

if TYPE_CHECKING:
    from bot.clients.ssh_link import Link


@dataclass(frozen=True, slots=True)
class _Tunnel:
    path: Path
    listener: asyncssh.SSHListener
    connection: asyncssh.SSHClientConnection


class Tunnels:
    """Opened when first asked for, kept, and opened anew after the connection was."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._folder: Path | None = None
        self._open: dict[tuple[str, int], _Tunnel] = {}
        self._opened = 0
        self._lock = asyncio.Lock()

    async def path_to(self, host: str, port: int) -> Path:
        """The socket's path; only this process's user can reach it."""
        connection = await self._link.connection()
        async with self._lock:
            tunnel = self._open.get((host, port))
            if tunnel is None or tunnel.connection is not connection or not tunnel.path.exists():
                if tunnel is not None:
                    _shut(tunnel)
                tunnel = await self._dig(connection, host, port)
                self._open[host, port] = tunnel
            return tunnel.path

    async def _dig(self, connection: asyncssh.SSHClientConnection, host: str, port: int) -> _Tunnel:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="kimi-tunnel-"))  # mode 0700
        self._opened += 1
        path = self._folder / f"{self._opened}"
        try:
            listener = await connection.forward_local_path_to_port(str(path), host, port)
        except asyncssh.Error as error:
            raise ssh_errors.link_lost(self._link.name, during=f"tunnel to {host}:{port}") from error
        except OSError as error:
            name = self._link.name
            raise HostUnreachable(
                name, f"{name}: no socket at {path} for a tunnel: {error.strerror}."
            ) from error
        return _Tunnel(path, listener, connection)

    async def close(self) -> None:
        """May be called twice; a tunnel asked for later is opened anew."""
        tunnels, self._open = list(self._open.values()), {}
        for tunnel in tunnels:
            _shut(tunnel)
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _shut(tunnel: _Tunnel) -> None:
    tunnel.listener.close()
    with contextlib.suppress(OSError):
        tunnel.path.unlink()

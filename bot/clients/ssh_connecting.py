"""Makes one SSH connection to a host, and says in our words why there is none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncssh

from bot.clients import ssh_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.core.events import HostName
    from config.services import HostSection

_KEEPALIVES_MISSED = 3
# Before all others: asyncssh's own first choice, ChaCha20, is put together in Python for each packet.
_CIPHERS = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"


class _Watcher(asyncssh.SSHClient):
    """Remembers whom a connection reached: what tells a dead host from one that accepts and hangs."""

    peer: str | None = None

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self.peer = str(conn.get_extra_info("peername")[0])

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._on_lost()


class Door:
    """One host's. Each connection is made alike, the first and every further one."""

    def __init__(self, name: HostName, section: HostSection, *, timeout: float, keepalive: float) -> None:
        self.name = name
        self.section = section
        self.timeout = timeout
        self.keepalive = keepalive

    async def connect(self, on_lost: Callable[[], None]) -> asyncssh.SSHClientConnection:
        """`on_lost` is called when the connection ends, whoever ended it. Raises a HostError."""
        options = self.options()
        watcher = _Watcher(on_lost)
        try:
            async with asyncio.timeout(self.timeout):
                return await asyncssh.connect(
                    self.section.address,
                    self.section.port,
                    options=options,
                    client_factory=lambda: watcher,
                )
        except (OSError, asyncssh.Error) as error:
            raise ssh_errors.connect_failure(
                error, name=self.name, section=self.section, peer=watcher.peer, seconds=self.timeout
            ) from error

    def options(self) -> asyncssh.SSHClientConnectionOptions:
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
            login_timeout=self.timeout,
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

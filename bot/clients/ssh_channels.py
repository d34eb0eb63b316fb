"""Opens the channels of a connection: sessions, which hold their place, and ways to a port.

A channel that the host opens after its opener was cancelled has no owner in asyncssh, and stays open for as
long as the connection does. So an opening is never cancelled: it goes on alone, and what comes of it is
hung up on.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, TypeAlias

import asyncssh

if TYPE_CHECKING:
    from collections.abc import Callable

    from asyncssh.channel import SSHChannel

    from bot.clients.ssh_places import Place

_WINDOW = 256 << 10  # bytes a host may send ahead of the reader

Way: TypeAlias = "tuple[asyncssh.SSHReader[bytes], asyncssh.SSHWriter[bytes]]"


class Session(asyncssh.SSHClientProcess[bytes]):
    """A command on the host, in its place until the host has closed it."""

    def __init__(self, place: Place, check: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._place = place
        self._check = check
        self.abandoned = False
        self._stands = False

    def connection_made(self, chan: SSHChannel[bytes]) -> None:
        """It stands and nothing of the command was sent yet: the last moment to ask `check`."""
        self._place.open()
        try:
            if self.abandoned:
                raise ConnectionAbortedError  # noqa: TRY301 - closed like what `check` refuses
            if self._check is not None:
                self._check()
        except BaseException:
            chan.close()
            raise
        super().connection_made(chan)
        self._stands = True

    def connection_lost(self, exc: Exception | None) -> None:
        try:
            super().connection_lost(exc)
        finally:
            self._place.free()

    def hang_up(self) -> None:
        """Tell the command to end, then close; both, since a host may ignore the signal.

        An order, which has a `check`, gets no signal. One that does not stand yet will send nothing.
        """
        self.abandoned = True
        if not self._stands:
            return
        if self._check is None:
            with contextlib.suppress(OSError, asyncssh.Error):
                self.terminate()
        self._place.leave()
        self.close()


async def start(place: Place, command: str, *, check: Callable[[], None] | None = None) -> Session:
    """The command, begun in its place. Raises what asyncssh raises, and what `check` does."""
    session = Session(place, check)
    opening = asyncio.ensure_future(_start(session, place, command))
    try:
        await asyncio.shield(opening)
    except asyncio.CancelledError:
        session.hang_up()
        opening.add_done_callback(_forget)
        raise
    return session


async def _start(session: Session, place: Place, command: str) -> None:
    connection = place.line.connection
    try:
        if session.abandoned:  # before the first step was done
            raise ConnectionAbortedError
        await connection.create_session(lambda: session, command, encoding=None, window=_WINDOW)
        await session.redirect(stdin=asyncssh.DEVNULL)
    finally:
        if not place.opened:
            place.free()


async def reach(connection: asyncssh.SSHClientConnection, host: str, port: int) -> Way:
    """A way to `host:port` as the other end sees it. Raises what asyncssh raises."""
    wanted = True

    async def open_way() -> Way:
        if not wanted:  # before the first step was done
            raise ConnectionAbortedError
        return await connection.open_connection(host, port, encoding=None)

    opening = asyncio.ensure_future(open_way())
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        wanted = False
        opening.add_done_callback(_shut)
        raise


def _forget(opening: asyncio.Future[None]) -> None:
    if not opening.cancelled():
        opening.exception()  # nobody is left who wants to know


def _shut(opening: asyncio.Future[Way]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result()[1].close()

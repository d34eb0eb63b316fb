"""The connections to one host: which of them carries the next session, and when one more is needed.

sshd lets each connection have MaxSessions sessions, ten where nothing is set; forwarded ports are channels of
a connection too, but do not count. A session counts until the host has closed it: what it does not end
stays in its place, however long we have hung up. So whoever needs a session takes a place first, and
gives it back when the host's own word came that it is over. Where sshd allows fewer it refuses one, and then
what stands on that connection is all it allows.

The first connection keeps places for commands, so that no number of streams makes an order wait. One that
is full of what never ends is first no longer. Further ones are made one after the other, never two at a time:
sshd drops some of many that are not logged in yet (MaxStartups).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import asyncssh
import structlog

from bot.clients import ssh_errors
from bot.clients.ssh_places import Line, Place
from bot.errors import HostError, HostUnreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from bot.core.events import HostName

log = structlog.get_logger()

SAFE = 8  # sessions of a connection, where sshd allows more: two are left to what it has not closed yet
_MOST_LINES = 32
_OLD = 60.0  # seconds after which a login that lacks a right is worth another one
_MOMENT = 0.25  # seconds a command waits for another one to end before a further connection is made for it
_IDLE = 60.0  # seconds after which a further connection that carries nothing is closed
_PAUSE, _LONGEST_PAUSE = 1.0, 15.0  # seconds until a further connection is tried again
_PATIENT, _HELD, _LONGEST_HELD = 2, 0.5, 2.0  # after so many failures in a row, for how long one stands


@dataclass(eq=False, slots=True)
class _Waiter:
    stream: bool
    on: asyncssh.SSHClientConnection | None
    since: float  # the loop's time
    place: asyncio.Future[Place] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Lines:
    def __init__(
        self,
        name: HostName,
        connect: Callable[[Callable[[], None]], Coroutine[None, None, asyncssh.SSHClientConnection]],
    ) -> None:
        self.name = name
        self.made = 0  # connections made while there was none
        self._connect = connect
        self._lines: list[Line] = []
        self._waiting: deque[_Waiter] = deque()
        self._allowed = SAFE
        self._attempt: asyncio.Task[asyncssh.SSHClientConnection] | None = None
        self._failures = 0  # in a row
        self._failed: HostError | None = None
        self._lost = False  # with no other connection beside it
        self._not_before = 0.0  # the loop's time of the next attempt

    async def first(self) -> asyncssh.SSHClientConnection:
        """The living connection. All who ask meanwhile share one attempt, and its error."""
        first = self._first()
        return first.connection if first is not None else await self._await_attempt()

    def holds(self, connection: asyncssh.SSHClientConnection) -> bool:
        return any(line.connection is connection for line in self._living())

    async def take(self, *, stream: bool, on: asyncssh.SSHClientConnection | None = None) -> Place:
        """A place, in the order of asking; `on`: on that connection. Raises why there is no connection."""
        loop = asyncio.get_running_loop()
        waiter = _Waiter(stream, on, loop.time())
        self._waiting.append(waiter)
        self._serve()
        if not waiter.place.done():
            loop.call_later(_MOMENT, self._serve)
        try:
            return await waiter.place
        except asyncio.CancelledError:
            if waiter.place.done() and not waiter.place.cancelled() and waiter.place.exception() is None:
                waiter.place.result().free()
            raise

    def refused(self, place: Place) -> bool:
        """The host opened no session in this place; whether another place may have one."""
        line = place.line
        place.free()
        if not line.standing:
            return False
        if line.standing < line.most:
            line.most = self._allowed = line.standing
            log.info("sessions_limited", host=self.name, most=line.most)
        return True

    def outdate(self, connection: asyncssh.SSHClientConnection) -> None:
        """This login lacks a right: what its user was given since, only another one has."""
        now = asyncio.get_running_loop().time()
        for line in self._living():
            if line.connection is connection and now - line.since >= _OLD:
                line.outdated = True
                log.info("login_outdated", host=self.name)
        self._mind()

    @contextlib.asynccontextmanager
    async def way(self) -> AsyncIterator[asyncssh.SSHClientConnection]:
        """A connection for a forwarded port, which needs no session; it stays for as long."""
        line = self._first() or next(iter(self._living()), None)
        if line is None:
            connection = await self._await_attempt()
            line = next((line for line in self._lines if line.connection is connection), None)
            line = line or Line(connection, 0, 0.0)  # lost already: whoever asks it for something is told
        line.ways += 1
        try:
            yield line.connection
        finally:
            line.ways -= 1
            self._mind()

    def describe(self) -> str:
        """For whoever waited in vain for a place."""
        count = len(self._living())
        why = f"; one more: {self._failed}" if self._failed is not None else ""
        return f"{count} connection{'s' if count > 1 else ''} with {self._allowed} sessions each in use{why}"

    async def close(self) -> None:
        """End all connections; may be called twice. What is asked for later makes new ones."""
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.wait({self._attempt})
        lines, self._lines = self._lines, []
        for line in lines:
            if line.leaving is not None:
                line.leaving.cancel()
            line.connection.close()
        for waiter in self._waiting:
            _fail(waiter, self._closed_here())
        self._waiting.clear()
        with contextlib.suppress(OSError, asyncssh.Error):
            await asyncio.gather(*(line.connection.wait_closed() for line in lines))

    def _living(self) -> list[Line]:
        return [line for line in self._lines if not line.connection.is_closed()]

    def _first(self) -> Line | None:
        living = self._living()
        if len(living) >= _MOST_LINES:
            return next((line for line in living if not line.spoiled), living[0])
        return next((line for line in living if not line.spoiled), None)

    def _serve(self) -> None:
        """Give places to those who wait for one, and see to it that there are more."""
        self._lines = self._living()
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            if waiter.place.done():
                continue
            if waiter.on is not None and not self.holds(waiter.on):
                _fail(waiter, ssh_errors.link_lost(self.name, during="wait for a session"))
            elif (line := self._find(waiter)) is not None:
                waiter.place.set_result(Place(line, self._serve_soon, stream=waiter.stream))
            else:
                self._waiting.append(waiter)
        if any(self._is_due(waiter) for waiter in self._waiting):
            self._grow()
        self._mind()

    def _is_due(self, waiter: _Waiter) -> bool:
        """Whether it is time for a further connection; streams do not end, commands mostly do."""
        if waiter.on is not None:
            return False
        waited = asyncio.get_running_loop().time() - waiter.since
        return waiter.stream or not self._lines or waited >= _MOMENT

    def _serve_soon(self) -> None:
        # Not at once: a connection that is being lost frees all its places before it says that it is closed.
        asyncio.get_running_loop().call_soon(self._serve)

    def _find(self, waiter: _Waiter) -> Line | None:
        free = [line for line in self._lines if line.free > 0]
        if waiter.on is not None:
            return next((line for line in free if line.connection is waiter.on), None)
        free = [line for line in free if not line.outdated]
        first = self._first()
        if waiter.stream:
            return next((line for line in free if line is not first or line.takes_stream), None)
        # The last place of the first one is left to those who can have no other.
        rest = [line for line in free if line is not first or line.free > 1]
        return next(iter(rest or free), None)

    def _grow(self) -> None:
        """One more connection, unless it is being made, or was tried a moment ago."""
        if self._attempt is not None or len(self._lines) >= _MOST_LINES:
            return
        held = self._held()
        if held is None:
            self._begin()
        elif not self._lines:
            self._fail_all(held)

    def _held(self) -> HostError | None:
        """Why another attempt is not worth it yet; of a further connection it says nothing of the host."""
        early = asyncio.get_running_loop().time() < self._not_before
        return self._failed if early and (self._lost or self._living()) else None

    def _begin(self) -> asyncio.Task[asyncssh.SSHClientConnection]:
        if not self._living():
            self._allowed = SAFE  # sshd may have been told otherwise
        self._attempt = asyncio.create_task(self._connect(self._serve_soon), name=f"connect {self.name}")
        self._attempt.add_done_callback(self._settle)
        return self._attempt

    async def _await_attempt(self) -> asyncssh.SSHClientConnection:
        attempt = self._attempt
        if attempt is None:
            held = self._held()
            if held is not None:
                raise held
            attempt = self._begin()
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            if attempt.cancelled() and not _is_cancelled():  # `close` ended the attempt, not the caller
                raise self._closed_here() from None
            raise

    def _settle(self, attempt: asyncio.Task[asyncssh.SSHClientConnection]) -> None:
        self._attempt = None
        if attempt.cancelled():
            return
        error = attempt.exception()
        if error is None:
            self._join(attempt.result())
        elif isinstance(error, HostError):
            self._note_failure(error)
        else:
            self._fail_all(error)

    def _join(self, connection: asyncssh.SSHClientConnection) -> None:
        further = bool(self._living())
        self.made += not further
        self._failures, self._failed = 0, None
        self._lines.append(Line(connection, self._allowed, asyncio.get_running_loop().time()))
        log.info("host_connected", host=self.name, connections=len(self._lines))
        self._serve()

    def _note_failure(self, error: HostError) -> None:
        """Of a further connection: whoever needs it waits. Else it is why the host cannot be reached."""
        loop = asyncio.get_running_loop()
        self._failures += 1
        self._failed = error
        self._lost = not self._living()
        if not self._lost:
            pause = min(_PAUSE * 2 ** min(self._failures - 1, 10), _LONGEST_PAUSE)
            log.warning("no_further_connection", host=self.name, error=str(error), retry_in=pause)
            loop.call_later(pause, self._serve)
        else:
            beyond = self._failures - _PATIENT
            pause = min(_HELD * 2 ** min(beyond - 1, 10), _LONGEST_HELD) if beyond > 0 else 0.0
            self._fail_all(error)
        self._not_before = loop.time() + pause

    def _fail_all(self, error: BaseException) -> None:
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            if waiter.on is None:
                _fail(waiter, error)
            else:
                self._waiting.append(waiter)

    def _mind(self) -> None:
        """Further connections that carry nothing are closed after a while."""
        first = self._first()
        for line in self._living():
            needed = line is first or not line.idle
            if needed and line.leaving is not None:
                line.leaving.cancel()
                line.leaving = None
            elif not needed and line.leaving is None:
                line.leaving = asyncio.get_running_loop().call_later(_IDLE, self._retire, line)

    def _retire(self, line: Line) -> None:
        line.leaving = None
        if line.idle and line is not self._first() and line in self._lines:
            self._lines.remove(line)
            line.connection.close()
            log.info("spare_connection_closed", host=self.name, connections=len(self._lines))

    def _closed_here(self) -> HostUnreachable:
        return HostUnreachable(self.name, f"{self.name}: the connection was closed here.")


def _fail(waiter: _Waiter, error: BaseException) -> None:
    if not waiter.place.done():
        waiter.place.set_exception(error)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

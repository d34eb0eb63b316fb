"""Faults that a test or a demo orders: Slack late, gone or overloaded at its next calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from aiohttp import web

SOCKET = "socket"  # name an envelope's delivery goes by
UPLOAD = "upload"  # the POST of a file's bytes
RESPONSE_URL = "response_url"
EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class RateLimited:
    """HTTP 429 with `Retry-After`; with `http_ok` the form that comes as HTTP 200."""

    seconds: int
    http_ok: bool = False


@dataclass(frozen=True, slots=True)
class Status:
    """An HTTP status without JSON, from something in front of Slack; nothing was accepted."""

    code: int


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """`{"ok": false, "error": code}`; with `accept` the call took effect all the same."""

    code: str
    accept: bool = False


@dataclass(frozen=True, slots=True)
class ResetAfterAccept:
    """The call takes effect, then the connection is reset before the answer."""


@dataclass(frozen=True, slots=True)
class ResetBeforeAccept:
    """The connection is reset and nothing took effect."""


@dataclass(frozen=True, slots=True)
class Hang:
    """The answer comes `seconds` late; without `accept` the call never takes effect (a 504 at the end)."""

    seconds: float
    accept: bool = True


@dataclass(frozen=True, slots=True)
class DropSocket:
    """The WebSocket is cut; `delivered` tells whether the envelope went out before."""

    delivered: bool = False


Fault: TypeAlias = RateLimited | Status | ErrorCode | ResetAfterAccept | ResetBeforeAccept | Hang | DropSocket


@dataclass(slots=True)
class _Entry:
    method: str
    fault: Fault
    left: int | None


def reset(request: web.Request) -> web.Response:
    """Cut the connection without an answer; the response is never sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


class FaultPlan:
    """Orders of faults, taken in the order they were given; `*` stands for every Web API method."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def add(self, method: str, fault: Fault, times: int | None = 1) -> None:
        """`times=None`: until `clear`."""
        self._entries.append(_Entry(method, fault, times))

    def clear(self, method: str | None = None) -> None:
        self._entries = [entry for entry in self._entries if method not in {None, entry.method}]

    def take(self, method: str) -> Fault | None:
        """The next fault for this method, used up by the taking."""
        everything = method not in {SOCKET, UPLOAD, RESPONSE_URL}
        for entry in self._entries:
            if entry.method == method or (everything and entry.method == EVERYTHING):
                self._use(entry)
                return entry.fault
        return None

    def _use(self, entry: _Entry) -> None:
        if entry.left is None:
            return
        entry.left -= 1
        if entry.left == 0:
            self._entries.remove(entry)

    @staticmethod
    def rate_limited(seconds: int, *, http_ok: bool = False) -> RateLimited:
        return RateLimited(seconds, http_ok)

    @staticmethod
    def status(code: int) -> Status:
        return Status(code)

    @staticmethod
    def error(code: str, *, accept: bool = False) -> ErrorCode:
        return ErrorCode(code, accept)

    @staticmethod
    def reset_after_accept() -> ResetAfterAccept:
        return ResetAfterAccept()

    @staticmethod
    def reset_before_accept() -> ResetBeforeAccept:
        return ResetBeforeAccept()

    @staticmethod
    def hang(seconds: float, *, accept: bool = True) -> Hang:
        return Hang(seconds, accept)

    @staticmethod
    def drop_socket(*, delivered: bool = False) -> DropSocket:
        return DropSocket(delivered)

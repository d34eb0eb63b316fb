"""Faults that a test or a demo orders: Slack late, gone or overloaded at its next calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

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


# Of a call's arguments: whether the fault is meant for it.
Where: TypeAlias = Callable[[Mapping[str, Any]], bool]


@dataclass(slots=True)
class _Entry:
    method: str
    fault: Fault
    left: int | None
    where: Where | None = None

    def hits(self, method: str, arguments: Mapping[str, Any]) -> bool:
        everything = self.method == EVERYTHING and method not in {SOCKET, UPLOAD, RESPONSE_URL}
        return (everything or self.method == method) and (self.where is None or self.where(arguments))


def reset(request: web.Request) -> web.Response:
    """Cut the connection without an answer; the response is never sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


class FaultPlan:
    """Orders of faults, taken in the order they were given; `*` stands for every Web API method."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self.hits: list[tuple[str, Fault]] = []  # the faults that were met, in order

    def add(self, method: str, fault: Fault, times: int | None = 1, *, where: Where | None = None) -> None:
        """`times=None`: until `clear`. `where`: only calls whose arguments it says yes to."""
        self._entries.append(_Entry(method, fault, times, where))

    def clear(self, method: str | None = None) -> None:
        self._entries = [entry for entry in self._entries if method not in {None, entry.method}]

    def take(self, method: str, arguments: Mapping[str, Any] | None = None) -> Fault | None:
        """The next fault for this call, used up by the taking."""
        for entry in self._entries:
            if entry.hits(method, arguments or {}):
                self._use(entry)
                self.hits.append((entry.method, entry.fault))
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

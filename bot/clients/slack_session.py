"""Who may still speak: a call on behalf of a lease goes out only while the lease is surely ours."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Callable

# Of the task that calls: raises OwnershipLost once it may not speak any more.
_assure: ContextVar[Callable[[], None] | None] = ContextVar("assure", default=None)


def speak_while(assure: Callable[[], None]) -> None:
    """From here on this task's calls ask `assure` first; it raises OwnershipLost to stop one."""
    _assure.set(assure)


def assure() -> None:
    """Raises OwnershipLost where this task may not speak any more."""
    if (ask := _assure.get()) is not None:
        ask()


def open_session(*, timeout: float, trust_env: bool = False) -> aiohttp.ClientSession:
    """For calls of Slack; `timeout` in seconds, for each as a whole.

    Each call has a connection of its own: an idle one that Slack closes just then would make a harmless call
    uncertain. There is no limit to how many: calls that hang must not hold up others.
    """
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=timeout),
        trust_env=trust_env,
        connector=aiohttp.TCPConnector(force_close=True, limit=0),
        trace_configs=[_last_look()],
    )


def _last_look() -> aiohttp.TraceConfig:
    """Names, TCP and TLS may take longer than a lease, and a process may be paused at any time.

    aiohttp calls this when the connection stands and before the first byte goes out; what is raised here
    closes the connection.
    """
    trace = aiohttp.TraceConfig()
    trace.on_request_headers_sent.append(_look)
    return trace


async def _look(_session: aiohttp.ClientSession, _context: Any, _request: object) -> None:
    assure()

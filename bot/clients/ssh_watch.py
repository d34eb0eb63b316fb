"""What a watch over many units asks of their host: all of them at once, in one command or one stream."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import asyncssh

from bot.clients import ssh_journal
from bot.core.unit import SHOW_PROPERTIES, parse_show, read_properties
from bot.errors import CommandTimedOut, HostKeyRejected, HostUnreachable, LoginRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bot.core.events import UnitName, UnitState
    from bot.errors import HostError

WATCHED = ",".join(SHOW_PROPERTIES)
_REFUSED = f"[Errno {errno.ECONNREFUSED}]"
_RESET = "SSH is refused (connection reset)"
# By words of `ssh_errors` where what answered was no SSH server that lets anybody in.
_BARRIERS = {
    "before the login": "SSH is refused (the connection is closed before the login)",
    "cannot be talked to": "SSH is refused (what answers there does not speak it)",
    "did not open": "SSH answers, but opens no session",
}
_NO_PATTERNS = "pattern matching"  # "Compiled without pattern matching support", exit status 1


def parse_shown(text: str, units: Sequence[UnitName]) -> dict[UnitName, UnitState]:
    """What `systemctl show A B …` prints: a block for each unit in the order they were named.

    Raises ValueError where it is not as many.
    """
    blocks = [block for block in text.split("\n\n") if read_properties(block)]
    if len(blocks) != len(units):
        raise ValueError(f"it tells of {len(blocks)} units where {len(units)} were asked for")
    return {unit: parse_show(block) for unit, block in zip(units, blocks, strict=True)}


def unit_arguments(units: Iterable[UnitName], *, scope: str) -> tuple[str, ...]:
    """What systemd says of the units from now on. Several values of one field are alternatives."""
    return (*ssh_journal.JSON, "-f", "-n", "0", *_said_of(units, scope=scope))


def _said_of(units: Iterable[UnitName], *, scope: str) -> tuple[str, ...]:
    if scope == "user":
        return tuple(f"USER_UNIT={unit}" for unit in units)
    return ("_PID=1", *(f"UNIT={unit}" for unit in units))


def telling_arguments(units: Sequence[UnitName], *, scope: str, pattern: str) -> tuple[str, ...]:
    """With what the units and the kernel write themselves, the lines in which `pattern` is found."""
    name = "_SYSTEMD_USER_UNIT" if scope == "user" else "_SYSTEMD_UNIT"
    own = (f"{name}={unit}" for unit in units)
    match = (*_said_of(units, scope=scope), "+", *own, "+", "_TRANSPORT=kernel")
    return (*ssh_journal.JSON, "-f", "-n", "0", f"--grep={pattern}", *match)


def lacks_patterns(error: HostError) -> bool:
    """Whether it is that the host's journalctl cannot search."""
    return _NO_PATTERNS in str(error)


def read_barrier(error: HostError) -> str | None:
    """What SSH does instead of not answering, in a few words; None: nothing answers.

    Only the latter may be a host that is gone: a port that refuses, a key that does not fit, a login that is
    not let in, systemd that tells nothing, all show that it is there.
    """
    match error:
        case HostKeyRejected():
            return "SSH is refused (host key rejected)"
        case LoginRefused():
            return "SSH is refused (login not accepted)"
        case CommandTimedOut():
            return None
        case HostUnreachable():
            return _read_cause(error, error.__cause__)
        case _:
            return "SSH answers, but systemd there tells nothing"


def _read_cause(error: HostError, cause: BaseException | None) -> str | None:
    told = str(error)
    match cause:
        case socket.gaierror():
            return "SSH cannot be tried (the host's name is not known)"
        case OSError():
            refused = cause.errno == errno.ECONNREFUSED or _REFUSED in str(cause)  # of several addresses
            reset = isinstance(cause, ConnectionResetError)
            return "SSH is refused (connection refused)" if refused else _RESET if reset else None
        case asyncssh.Error() | asyncssh.ChannelOpenError():
            return next((barrier for words, barrier in _BARRIERS.items() if words in told), None)
        case _:
            return None

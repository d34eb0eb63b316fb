"""Orders that a host refuses once their deadline has passed, however late the process wakes that gave them.

The deadline is told by the host's own uptime, which one connection cannot outlive: no clock of ours has a
part in it. `/proc/uptime` is read before the order is put on record; when the order comes, the host reads it
again and carries out only what is in time. So whoever takes the operation over later knows when an order of
the former owner can arrive no more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncssh

from bot.errors import OrderLate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.clients.ssh_link import Finished, Link
    from bot.core.events import HostName, UnitName, Verb

UPTIME = ("cat", "/proc/uptime")
NAME = "kimi-order"  # `$0` of the script: what a process list on the host shows
LATE = 75  # EX_TEMPFAIL
_SAID_LATE = "kimi-order: late"
_UPTIME = re.compile(r"^(\d{1,12})\.(\d\d) \d", re.MULTILINE)  # seconds since boot, with hundredths

# Arguments: the deadline in hundredths of a second, then the order, whose words no shell reads.
SCRIPT = (
    'read -r up rest </proc/uptime; [ "${up%.*}${up#*.}" -lt "$1" ] || '
    f"{{ echo '{_SAID_LATE}' >&2; exit {LATE}; }}; shift; exec \"$@\""
)


@dataclass(frozen=True, slots=True)
class Promise:
    """Until when a host carries an order out: hundredths of its uptime; None where it does not tell that.

    Good on the one connection it was asked on.
    """

    connection: asyncssh.SSHClientConnection
    deadline: int | None

    def __str__(self) -> str:
        return "none" if self.deadline is None else f"{self.deadline / 100:.2f}"

    def wrap(self, order: Sequence[str]) -> tuple[str, ...]:
        """The order as one that is checked."""
        if self.deadline is None:
            return tuple(order)
        return ("sh", "-c", SCRIPT, NAME, str(self.deadline), *order)


async def read_uptime(link: Link, connection: asyncssh.SSHClientConnection | None = None) -> float | None:
    """Seconds since the host booted; None where it does not tell."""
    finished = await link.run(UPTIME, connection=connection)
    found = _UPTIME.search(finished.out)
    if finished.status or found is None:
        return None
    return int(found[1]) + int(found[2]) / 100


async def promise(link: Link, seconds: float) -> Promise:
    """What is carried out within `seconds` from now, and not after."""
    connection = await link.connection()
    uptime = await read_uptime(link, connection)
    return Promise(connection, None if uptime is None else int((uptime + seconds) * 100))


def is_late(finished: Finished) -> bool:
    return finished.status == LATE and _SAID_LATE in finished.err


def late(name: HostName, unit: UnitName, verb: Verb) -> OrderLate:
    return OrderLate(
        name,
        f"{name}: the {verb} of {unit} came to the host after its deadline, and the host did nothing; "
        "kimi, Redis or the network stood still meanwhile.",
    )


def lapsed(name: HostName, unit: UnitName, verb: Verb) -> OrderLate:
    """The deadline was one of a connection that is gone; the host may have booted anew since."""
    return OrderLate(
        name,
        f"{name}: the connection was lost before the {verb} of {unit} could be sent; nothing was sent.",
    )

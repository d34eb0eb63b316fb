"""Tells systemd how this process is: ready, alive, stopping, and one line for `systemctl status`.

Theory. The protocol (sd_notify(3)) is one datagram of `NAME=value` lines to the socket that `NOTIFY_SOCKET`
names. Of the packages that send it, one is no longer maintained and the others want systemd's C headers, so
these few lines are ours. Without systemd there is no such variable, and nothing is sent.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Mapping

log = structlog.get_logger()

_MICROSECONDS = 1_000_000


class Notifier:
    """Never raises and never waits: a systemd that does not read must not stop the bot."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._path = environ.get("NOTIFY_SOCKET", "")
        self.interval = _read_interval(environ)
        self._status = ""
        self._failed = False

    @property
    def is_heard(self) -> bool:
        return self._path.startswith(("/", "@"))

    def ready(self) -> None:
        self._send("READY=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Where nobody says so for `WatchdogSec`, systemd kills the process and starts another."""
        if self.interval is not None:
            self._send("WATCHDOG=1")

    def status(self, words: str) -> None:
        """One line; the same again is not sent twice."""
        line = " ".join(words.split())
        if line != self._status:
            self._status = line
            self._send(f"STATUS={line}")

    def _send(self, message: str) -> None:
        if not self.is_heard:
            return
        # An abstract socket is written with "@" and addressed with a zero byte.
        address = "\0" + self._path[1:] if self._path.startswith("@") else self._path
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
                line.setblocking(False)
                line.sendto(message.encode(), address)
        except OSError as error:
            if not self._failed:
                log.warning("systemd_not_told", error=error.strerror or str(error))
            self._failed = True


def _read_interval(environ: Mapping[str, str]) -> float | None:
    """Seconds within which a sign of life is wanted; None where nobody waits for one from this process."""
    told, whose = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not told.isdecimal() or not int(told):
        return None
    if whose and whose != str(os.getpid()):  # the variables of a parent, handed down
        return None
    return int(told) / _MICROSECONDS

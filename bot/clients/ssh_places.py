"""What a connection carries, place by place: sessions count until the host has closed them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncssh

if TYPE_CHECKING:
    from collections.abc import Callable


_KEPT, _KEPT_OF_FEW, _FEW = 2, 1, 4  # places of a first connection that streams leave to commands


@dataclass(eq=False, slots=True)
class Line:
    """One connection, and what it carries."""

    connection: asyncssh.SSHClientConnection
    most: int  # sessions at once
    since: float  # the loop's time
    outdated: bool = False  # a newer login may have more rights
    streams: int = 0
    commands: int = 0
    left: int = 0  # of the commands, those that we hung up on and the host did not end
    standing: int = 0  # sessions that the host opened and has not closed
    ways: int = 0  # forwarded ports in use
    leaving: asyncio.TimerHandle | None = None

    @property
    def free(self) -> int:
        return self.most - self.streams - self.commands

    @property
    def takes_stream(self) -> bool:
        """Whether it does where it is the first one, which keeps places for commands."""
        kept = _KEPT if self.most >= _FEW else _KEPT_OF_FEW
        return self.streams < self.most - kept

    @property
    def idle(self) -> bool:
        return not (self.streams or self.commands or self.ways)

    @property
    def spoiled(self) -> bool:
        """It is outdated, or nothing that is in its places ends by itself."""
        return self.outdated or self.streams + self.left >= self.most


class Place:
    """Room for one session on a connection; given back once."""

    def __init__(self, line: Line, on_free: Callable[[], None], *, stream: bool) -> None:
        self.line = line
        self.opened = False  # at some time
        self._on_free = on_free
        self._stream = stream
        self._left = self._over = False
        if stream:
            line.streams += 1
        else:
            line.commands += 1

    def open(self) -> None:
        """The host opened the session."""
        self.opened = True
        self.line.standing += 1

    def leave(self) -> None:
        """We hung up; the host has not closed it yet."""
        if not (self._over or self._left or self._stream):
            self._left = True
            self.line.left += 1

    def free(self) -> None:
        if self._over:
            return
        self._over = True
        self.line.standing -= self.opened
        self.line.left -= self._left
        if self._stream:
            self.line.streams -= 1
        else:
            self.line.commands -= 1
        self._on_free()

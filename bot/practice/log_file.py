"""The log file of a unit that does not log to the journal: written, rotated, read by the bot's own script.

What the script says is played here, in told time; that the real script says so is tested with a real shell.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.practice.systemctl import Answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from bot.clock import Clock

_ABSENT, _UNREADABLE = 66, 77
_FRAME = 262144


@dataclass(slots=True)
class _Content:
    inode: int
    data: bytearray = field(default_factory=bytearray)


class LogFile:
    """One path, with what was rotated away from it."""

    def __init__(self, clock: Clock, path: str) -> None:
        self.path = path
        self.unreadable = False
        self._clock = clock
        self._inodes = itertools.count(1_310_721)
        self._files: list[_Content] = []  # oldest first; the last has the name
        self._changed = asyncio.Event()

    @property
    def text(self) -> str:
        """All that was ever written, rotated or not."""
        return b"".join(bytes(each.data) for each in self._files).decode(errors="replace")

    def write(self, data: bytes) -> None:
        if not self._files:
            self._files.append(_Content(next(self._inodes)))
        self._files[-1].data += data
        self._wake()

    def rotate(self) -> None:
        """Renamed; what is written from now on goes into a new file."""
        self._files.append(_Content(next(self._inodes)))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # -- the script ----------------------------------------------------------------------------

    async def read(self, words: Sequence[str], write: Callable[[str], Awaitable[None]]) -> Answer:
        """`words`: inode, offset, seen, mode."""
        inode, offset, _, mode = words
        if self.unreadable:
            return Answer(_UNREADABLE)
        if not self._files and mode != "follow":
            return Answer(_ABSENT)
        if mode == "end":
            last = self._files[-1]
            return Answer(output=f"{last.inode} {len(last.data)} {self._seconds()}\n")
        await write("z +0000\n")
        await self._follow(int(inode), int(offset), mode, write)
        return Answer(_UNREADABLE if mode == "follow" else 0)

    async def _follow(
        self, inode: int, offset: int, mode: str, write: Callable[[str], Awaitable[None]]
    ) -> None:
        while not self._files:
            await self._changed.wait()
        if inode and all(each.inode != inode for each in self._files):
            await write("m\nt\n")
        index, offset = self._place(inode, offset)
        kind = "b"
        while not self.unreadable:
            changed = self._changed
            for frame in self._frames(index, offset, kind):
                await write(frame)
            offset = len(self._files[index].data)
            if index + 1 < len(self._files):
                index, offset = index + 1, 0
                await write("t\n")
            elif mode != "follow":
                return
            else:
                kind = "d"
                await changed.wait()

    def _place(self, inode: int, offset: int) -> tuple[int, int]:
        last = len(self._files) - 1
        if inode == 0:
            size = len(self._files[last].data)
            return last, size - offset if 0 < offset < size else 0
        known = (index for index, each in enumerate(self._files) if each.inode == inode)
        index = next(known, None)
        return (last, 0) if index is None else (index, offset)

    def _frames(self, index: int, offset: int, kind: str) -> list[str]:
        content = self._files[index]
        pieces = range(offset, len(content.data), _FRAME)
        return [
            f"{kind} {content.inode} {at} {self._seconds()}.{self._clock.now().microsecond:06d} "
            f"{base64.b64encode(content.data[at : at + _FRAME]).decode()}\n"
            for at in pieces
        ]

    def _seconds(self) -> int:
        return int(self._clock.now().timestamp())


class FileStream:
    """The standard output of one start, where the unit file points it at a file."""

    def __init__(self, file: LogFile) -> None:
        self._file = file

    def write(self, data: bytes, *, pid: int, comm: str, at: datetime | None = None) -> None:
        del pid, comm, at
        self._file.write(data)

    def close(self) -> None:
        """Nothing is held back."""

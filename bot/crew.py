"""The tasks of one startup: named, none twice at once, and what breaks one of them breaks the whole."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import structlog

from bot.errors import OwnershipLost
from bot.sources import Inbox, Piece
from bot.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Collection

log = structlog.get_logger()

Work: TypeAlias = Callable[[], Awaitable[None]]

_QUEUE = 256  # pieces; a host that talks faster than we think waits in its own journal


@dataclass(slots=True)
class Crew:
    """`name` stands in the name of every task. `lost` hears that another process owns the operation now."""

    tasks: Tasks
    name: str
    lost: Callable[[], None]
    inbox: Inbox = field(default_factory=lambda: asyncio.Queue(_QUEUE))
    broken: Exception | None = None  # what one of them met
    is_over: bool = False  # nothing new is begun
    busy: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def spawn(self, name: str, work: Work) -> asyncio.Task[None]:
        return self.tasks.spawn(f"{self.name} {name}", self._guard(work))

    def once(self, name: str, work: Work) -> None:
        """Start `work` unless the last of that name still runs: nothing ever piles up."""
        if self.is_over or name in self.busy:
            return
        task = self.busy[name] = self.spawn(name, work)
        task.add_done_callback(lambda _: self.busy.pop(name, None))

    async def wait(self, prefix: str = "", *, within: float | None = None) -> None:
        """Until those of `once` whose names begin so have ended, or `within` real seconds are over."""
        if waiting := self._of(prefix):
            await asyncio.wait(waiting, timeout=within)

    def cancel(self, prefix: str = "", *, but: str | None = None) -> None:
        """Those of `once` whose names begin so; not those that begin with `but`."""
        spared = () if but is None else self._of(but)
        for task in self._of(prefix):
            if task not in spared:
                task.cancel()

    def wake(self) -> None:
        """Let the consumer look at more than its queue; one that is full keeps it awake."""
        with contextlib.suppress(asyncio.QueueFull):
            self.inbox.put_nowait(Piece(()))

    def break_off(self, error: Exception) -> None:
        """A thread that falls silent looks like a stall: the consumer is to raise this."""
        self.broken = self.broken or error
        self.wake()

    def _of(self, prefix: str) -> Collection[asyncio.Task[None]]:
        return [task for name, task in self.busy.items() if name.startswith(prefix)]

    async def _guard(self, work: Work) -> None:
        try:
            await work()
        except OwnershipLost:
            self.lost()
        except Exception as error:  # noqa: BLE001 - raised again where the operation ends
            log.warning("part_of_startup_broke", startup=self.name, error=repr(error))
            self.break_off(error)

"""Commands that kimi can do without: what a host lets hang delays nothing, and is soon asked for no more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from bot.clients.ssh_link import Finished
from bot.errors import CommandTimedOut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.clients.ssh_link import Link

log = structlog.get_logger()

WITHIN = 10.0  # seconds
SOON = 1.5  # for what a verdict, or a person, waits for
_PAUSE, _LONGEST_PAUSE = 60.0, 3600.0  # what hung may leave a process behind on the host each time
_TOGETHER = 2  # the sessions of a connection are few, and orders need them too
_NAMED_BY = 3  # words that tell one command from another
HUNG = 124  # as `timeout` of the coreutils has it


class Extras:
    """One host's. A lost link is the only error."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._hung: dict[tuple[str, ...], int] = {}  # how often in a row
        self._left_until: dict[tuple[str, ...], float] = {}
        self._gate = asyncio.Semaphore(_TOGETHER)

    async def run(self, arguments: Sequence[str]) -> Finished:
        """A command run to its end; status HUNG where none came in time, or it is left alone."""
        async with self._gate:
            return await self._run(arguments, within=WITHIN)

    async def run_soon(self, arguments: Sequence[str]) -> Finished:
        """As `run`; no more than a moment is waited."""
        return await self._run(arguments, within=SOON)

    async def _run(self, arguments: Sequence[str], *, within: float) -> Finished:
        name = tuple(arguments[:_NAMED_BY])
        if asyncio.get_running_loop().time() < self._left_until.get(name, 0.0):
            return Finished(HUNG, "", "left alone: it hung before")
        await self._link.connection()  # what that takes is not the command's
        try:
            finished = await self._link.run(arguments, within=within)
        except CommandTimedOut:
            self._note(name)
            return Finished(HUNG, "", f"no end within {within:g} s")
        self._hung.pop(name, None)
        return finished

    def _note(self, name: tuple[str, ...]) -> None:
        """After the second time in a row it is left alone, longer each time."""
        times = self._hung[name] = self._hung.get(name, 0) + 1
        pause = min(_PAUSE * 2 ** min(times - 2, 10), _LONGEST_PAUSE) if times > 1 else 0.0
        self._left_until[name] = asyncio.get_running_loop().time() + pause
        log.info("command_hung", host=self._link.name, command=" ".join(name), times=times, pause=pause)

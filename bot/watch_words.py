"""What people say to the watch over a host and its services, taken from Redis once each."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from bot.clients.store_watches import Watches
from bot.core.events import HostName, ServiceName
from bot.errors import KimiError, StoreUnavailable
from bot.watch_machines import Machines
from bot.watch_orders import read_word

if TYPE_CHECKING:
    from bot.clients.store_watches import Word
    from bot.watch_orders import Said

log = structlog.get_logger()

EVERY = 3.0  # real seconds between looks at what was said through another process: one read for all services


@dataclass(slots=True)
class Words:
    watches: Watches
    host: HostName
    machines: Machines
    _taken: set[str] = field(default_factory=set)  # and still in Redis
    _poked: asyncio.Event = field(default_factory=asyncio.Event)

    def poke(self) -> None:
        """Something was said through this process."""
        self._poked.set()

    async def run(self) -> None:
        """For ever. Words do not wait for rounds, nor rounds for words."""
        while True:
            self._poked.clear()
            with contextlib.suppress(StoreUnavailable):
                await self.listen()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY):
                    await self._poked.wait()

    async def listen(self) -> None:
        """Raises StoreUnavailable."""
        words = await self.watches.words(self.host)
        self._taken &= {word.id for word in words}
        for word in words:
            if word.id not in self._taken:
                self._taken.add(word.id)
                await self._take(word)

    async def _take(self, word: Word) -> None:
        try:
            event = read_word(word)
        except ValueError as error:
            log.error("word_unknown", word=word.id, error=str(error))  # noqa: TRY400 - told
            return
        try:
            await self._hear(word, event)
        except KimiError:
            raise
        except Exception:  # else it would break whoever has the host, again and again
            log.exception("word_broke", word=word.id, kind=word.kind)

    async def _hear(self, word: Word, event: Said) -> None:
        entry, own = self.machines.entries.get(ServiceName(word.service)), self.machines.own
        if entry is not None:
            entry.heard.append(word.id)
            await self.machines.tell_surely(entry, event)
        elif not word.service and own is not None:
            own.heard.append(word.id)
            await self.machines.tell_host(event)

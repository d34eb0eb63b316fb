"""What people say to the watch over a host and its services, taken from Redis once each."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from bot.clients.store_watches import Watches
from bot.core.events import HostName, ServiceName
from bot.core.monitor_events import IncidentClosed, IncidentFound
from bot.errors import StoreUnavailable
from bot.watch_machines import Machines
from bot.watch_orders import read_word

if TYPE_CHECKING:
    from bot.clients.store_watches import Word

log = structlog.get_logger()


@dataclass(slots=True)
class Words:
    watches: Watches
    host: HostName
    machines: Machines
    _said: set[str] = field(default_factory=set)

    async def listen(self) -> None:
        with contextlib.suppress(StoreUnavailable):
            for word in await self.watches.words(self.host):
                if word.id in self._said:
                    continue
                self._said.add(word.id)
                await self._take(word)

    async def _take(self, word: Word) -> None:
        try:
            event = read_word(word)
        except ValueError as error:
            log.error("word_unknown", word=word.id, error=str(error))  # noqa: TRY400 - told
            return
        entry = self.machines.entries.get(ServiceName(word.service))
        if entry is not None:
            entry.heard.append(word.id)
            await self.machines.tell_surely(entry, event)
        elif (
            not word.service
            and isinstance(event, IncidentClosed | IncidentFound)
            and self.machines.own is not None
        ):
            self.machines.own.heard.append(word.id)
            await self.machines.tell_host(event)

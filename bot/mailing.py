"""The mail of one operation: people's words to it, whichever process heard them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.clients.records import Mail
from bot.clients.store import Store
from bot.core.events import OperationId, PatienceExtended, Superseded, UnwatchAsked, Verb
from bot.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.core.events import Event

_EVERY = 1.0  # real seconds between looks, where nobody of this process tells that something came


@dataclass(slots=True)
class Mailbox:
    """What came and was not taken into the state yet. Entries stay in Redis until the state is saved."""

    store: Store
    operation: OperationId
    arrived: asyncio.Event = field(default_factory=asyncio.Event)  # set: look now
    _seen: set[str] = field(default_factory=set)
    _new: list[Mail] = field(default_factory=list)

    async def run(self, wake: Callable[[], None]) -> None:
        """Look for ever, and `wake` who takes it."""
        while True:
            self.arrived.clear()
            with contextlib.suppress(StoreUnavailable):
                await self.look()
            if self._new:
                wake()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EVERY):
                    await self.arrived.wait()

    async def look(self) -> None:
        """Raises StoreUnavailable."""
        for mail in await self.store.inbox(self.operation):
            if mail.id not in self._seen:
                self._seen.add(mail.id)
                self._new.append(mail)

    def take(self) -> list[Mail]:
        """Oldest first; each is handed out once."""
        taken, self._new = self._new, []
        return taken


def event_of(mail: Mail) -> Event:
    match mail.kind:
        case "wait":
            return PatienceExtended(mail.by, mail.until or mail.at)
        case "unwatch":
            return UnwatchAsked(mail.by)
        case "superseded":
            return Superseded(mail.by, mail.verb or Verb.RESTART)

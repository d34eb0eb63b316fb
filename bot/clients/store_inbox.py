"""What people say to an operation, brought to whichever process runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from bot.clients.records import Mail, dump, load
from bot.clients.redis_link import thread_key, thread_keys
from bot.clients.scripts import MAIL
from bot.clients.store_queue import KEEP
from bot.errors import RecordUnreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bot.clients.redis_link import RedisLink
    from bot.core.events import OperationId


class Inboxes:
    """All methods raise StoreUnavailable.

    An entry leaves Redis together with the state that holds it. Until that is known to have happened, `read`
    hands it out again, first and in the same order: whoever counts what it took up is never off by one.
    """

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._listeners: list[Callable[[OperationId], None]] = []
        self._handed: dict[OperationId, list[bytes]] = {}

    def subscribe(self, listener: Callable[[OperationId], None]) -> None:
        """`listener` hears of each operation this process has put mail in for."""
        self._listeners.append(listener)

    async def put(self, operation: OperationId, mail: Mail) -> bool:
        """Once for each `mail.id`; False when the operation is closed or unknown."""
        answer = await self._link.run(MAIL, thread_keys(operation), mail.id, dump(mail), KEEP)
        if answer == b"gone":
            return False
        for listener in self._listeners:
            listener(operation)
        return True

    async def read(self, operation: OperationId) -> list[Mail]:
        """Oldest first."""
        key = thread_key(operation, "inbox")
        entries = cast("list[bytes]", await self._link.ask(self._link.redis.lrange(key, 0, -1)))
        handed = self._handed.get(operation, [])
        handed = handed + [entry for entry in entries if entry not in handed]
        found: list[Mail] = []
        for entry in list(handed):
            try:
                found.append(load(Mail, entry, key=key))
            except RecordUnreadable as error:
                handed.remove(entry)
                await self._link.set_aside(key, entry, error)
                await self._link.ask(self._link.redis.lrem(key, 1, cast("str", entry)))
        if handed:
            self._handed[operation] = handed
        return found

    def taken(self, operation: OperationId, count: int) -> list[bytes]:
        """The first `count` of what `read` handed out, as Redis holds them."""
        return self._handed.get(operation, [])[:count]

    def settle(self, operation: OperationId, taken: Sequence[bytes]) -> None:
        """They are in the state that Redis has."""
        rest = [entry for entry in self._handed.get(operation, []) if entry not in taken]
        if rest:
            self._handed[operation] = rest
        else:
            self.forget(operation)

    def forget(self, operation: OperationId) -> None:
        """It is closed, or another process runs it."""
        self._handed.pop(operation, None)

"""Notices a Redis that came back empty: the mark that was left in it is gone, or is another's."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, cast

from bot.clients.scripts_shared import MARK

if TYPE_CHECKING:
    from bot.clients.redis_link import RedisLink

EPOCH = "kimi:epoch"
REBUILT = "kimi:epoch:rebuilt"  # the mark of the Redis in which all that is still known is written down


class Epoch:
    """All methods raise StoreUnavailable. `known`: the mark this process remembers."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self.known: bytes | None = None

    async def check(self) -> bool:
        """Whether Redis still is what it was at first contact; the first call is that contact."""
        if self.known is None:
            await self.renew()
        known = self.known  # it may be renewed while Redis is asked
        return await self._read() == known

    async def renew(self) -> None:
        """Go on with Redis as it is now; before anything is rebuilt, so that another loss is noticed."""
        self.known = cast("bytes", await self._link.run(MARK, [EPOCH], uuid.uuid4().hex))

    async def is_rebuilt(self) -> bool:
        """Whether all that is known of what was under way before is in Redis as it is now."""
        rebuilt = await self._link.ask(self._link.redis.get(REBUILT))
        return self.known is not None and rebuilt == self.known

    async def settle(self) -> None:
        """From now on `is_rebuilt`, over all processes, until Redis comes back empty again."""
        if self.known is not None:
            await self._link.ask(self._link.redis.set(REBUILT, self.known))

    async def _read(self) -> bytes | None:
        return cast("bytes | None", await self._link.ask(self._link.redis.get(EPOCH)))

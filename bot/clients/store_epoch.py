"""Notices a Redis that came back empty: the mark that was left in it is gone, or is another's."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, cast

from bot.clients.scripts_shared import MARK

if TYPE_CHECKING:
    from bot.clients.redis_link import RedisLink

EPOCH = "kimi:epoch"


class Epoch:
    """All methods raise StoreUnavailable. `known`: the mark this process remembers."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self.known: bytes | None = None

    async def check(self) -> bool:
        """Whether Redis still is what it was at first contact; the first call is that contact."""
        if self.known is None:
            await self.renew()
        return await self._read() == self.known

    async def renew(self) -> None:
        """Go on with Redis as it is now; before anything is rebuilt, so that another loss is noticed."""
        self.known = cast("bytes", await self._link.run(MARK, [EPOCH], uuid.uuid4().hex))

    async def _read(self) -> bytes | None:
        return cast("bytes | None", await self._link.ask(self._link.redis.get(EPOCH)))

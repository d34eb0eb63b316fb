"""Small things that are remembered: what was seen once, and what is usual for a service."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, cast

from bot.clients.redis_link import service_key
from bot.clients.scripts_shared import ONCE

if TYPE_CHECKING:
    from bot.clients.redis_link import RedisLink
    from bot.core.events import ServiceName


class Remembered:
    """All methods raise StoreUnavailable."""

    def __init__(self, link: RedisLink) -> None:
        self.link = link

    async def first_time(self, token: str, ttl_seconds: int) -> bool:
        """True for one caller over all processes; a second try of the same call is the same caller."""
        key, caller = f"kimi:once:{token}", uuid.uuid4().hex
        return bool(await self.link.run(ONCE, [key], caller, ttl_seconds))

    async def forget(self, token: str) -> None:
        """The next `first_time` of it is a first time again."""
        await self.link.ask(self.link.redis.delete(f"kimi:once:{token}"))

    async def baseline(self, service: ServiceName) -> str | None:
        raw = cast("bytes | None", await self.link.ask(self.link.redis.get(service_key(service, "baseline"))))
        return raw.decode() if raw is not None else None

    async def save_baseline(self, service: ServiceName, json: str) -> None:
        await self.link.ask(self.link.redis.set(service_key(service, "baseline"), json))

    async def setup(self, service: ServiceName) -> str | None:
        """What the last healthy start ran with, as it was saved."""
        raw = cast("bytes | None", await self.link.ask(self.link.redis.get(service_key(service, "setup"))))
        return raw.decode() if raw is not None else None

    async def save_setup(self, service: ServiceName, json: str) -> None:
        await self.link.ask(self.link.redis.set(service_key(service, "setup"), json))

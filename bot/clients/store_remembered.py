"""Small things that are remembered: what is usual for a service, and what it last ran with."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from bot.clients.redis_link import service_key

if TYPE_CHECKING:
    from bot.clients.redis_link import RedisLink
    from bot.core.events import ServiceName


class Remembered:
    """All methods raise StoreUnavailable."""

    def __init__(self, link: RedisLink) -> None:
        self.link = link

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

"""Small things that are remembered: what is usual for a service, and what it last ran with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from bot.clients.records import Memory, dump
from bot.clients.redis_link import service_key
from bot.clients.scripts import SWAP
from bot.errors import RecordUnreadable

if TYPE_CHECKING:
    from bot.clients.redis_link import RedisLink
    from bot.core.events import ServiceName

Kind: TypeAlias = Literal["baseline", "setup"]


class Remembered:
    """All methods raise StoreUnavailable."""

    def __init__(self, link: RedisLink) -> None:
        self.link = link

    async def baseline(self, service: ServiceName) -> str | None:
        return await self._read(service, "baseline")

    async def save_baseline(self, service: ServiceName, json: str) -> None:
        await self._save(service, "baseline", json)

    async def setup(self, service: ServiceName) -> str | None:
        """What the last healthy start ran with, as it was saved."""
        return await self._read(service, "setup")

    async def save_setup(self, service: ServiceName, json: str) -> None:
        await self._save(service, "setup", json)

    async def give_up(self, service: ServiceName, kind: Kind, why: str) -> None:
        """Set aside what nobody can make sense of: it is begun anew, and the old is kept to be looked at."""
        key = service_key(service, kind)
        raw = cast("bytes | None", await self.link.ask(self.link.redis.get(key)))
        if raw is not None:
            await self.link.set_aside(key, raw, RecordUnreadable(f"{key}: {why}"))
            await self.link.run(SWAP, [key], raw, "")

    async def _read(self, service: ServiceName, kind: Kind) -> str | None:
        found = await self.link.read(Memory, service_key(service, kind))
        return None if found is None else found.content

    async def _save(self, service: ServiceName, kind: Kind, json: str) -> None:
        await self.link.ask(self.link.redis.set(service_key(service, kind), dump(Memory(content=json))))

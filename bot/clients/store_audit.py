"""Who asked for what, and what came of it: one stream for all services."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, cast

from bot.clients.records import AuditEntry, dump, load
from bot.clients.scripts_shared import AUDIT
from bot.errors import RecordUnreadable

if TYPE_CHECKING:
    from bot.clients.redis_link import RedisLink
    from bot.core.events import ServiceName

AUDITS = "kimi:audit"  # stream
MOST = 10_000  # about as many entries are kept
_PAGE = 500
_DISORDER = timedelta(minutes=5)  # clocks of processes differ, and an entry may wait for a Redis that is away


def _is_within(
    entry: AuditEntry, service: ServiceName | None, since: datetime | None, until: datetime | None
) -> bool:
    late = until is not None and entry.at > until
    early = since is not None and entry.at < since
    return service in (None, entry.service) and not late and not early


class Audits:
    """All methods raise StoreUnavailable."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def write(self, entry: AuditEntry) -> None:
        await self._link.run(AUDIT, [AUDITS], uuid.uuid4().hex, dump(entry), MOST)

    async def read(
        self,
        limit: int,
        service: ServiceName | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[AuditEntry]:
        """Newest first. `since`, `until`: both ends count; what is older by minutes is not even read."""
        found: list[AuditEntry] = []
        before = "+"
        while len(found) < limit:
            rows = cast(
                "list[tuple[bytes, dict[bytes, bytes]]]",
                await self._link.ask(self._link.redis.xrevrange(AUDITS, before, "-", count=_PAGE)),
            )
            entries = [entry for row in rows if (entry := await self._load(*row)) is not None]
            found += [each for each in entries if _is_within(each, service, since, until)]
            if len(rows) < _PAGE or (since is not None and entries and entries[-1].at < since - _DISORDER):
                break
            before = f"({rows[-1][0].decode()}"
        return found[:limit]

    async def prune(self, horizon: float) -> None:
        """Drop what is older than `horizon`, in unix seconds."""
        oldest = str(int(horizon * 1000))
        await self._link.ask(self._link.redis.xtrim(AUDITS, minid=oldest, approximate=False))

    async def _load(self, name: bytes, fields: dict[bytes, bytes]) -> AuditEntry | None:
        raw = fields.get(b"entry", b"")
        try:
            return load(AuditEntry, raw, key=AUDITS)
        except RecordUnreadable as error:
            await self._link.set_aside(AUDITS, raw, error)
            await self._link.ask(self._link.redis.xdel(AUDITS, name.decode()))
            return None

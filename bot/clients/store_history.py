"""Operations as they were written down, and what stays known of the closed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from bot.clients.records import Address, Operation, Past, dump, load, past_of
from bot.clients.redis_link import service_key, thread_key
from bot.clients.scripts_service import PAST, SETTLE
from bot.clients.store_retention import HISTORY, SERVICES, drop_operation
from bot.core.events import OperationId
from bot.errors import RecordUnreadable

if TYPE_CHECKING:
    from bot.clients.redis_link import RedisLink
    from bot.core.events import ServiceName


async def read_operation(link: RedisLink, operation: OperationId) -> Operation | None:
    return await link.read(Operation, thread_key(operation, "operation"))


class History:
    """All methods raise StoreUnavailable."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def operations(self, service: ServiceName, limit: int) -> list[Operation]:
        """Closed operations whole, newest first; `past` costs less where not all of them is needed."""
        key = service_key(service, "history")
        names = cast(
            "list[bytes]", await self._link.ask(self._link.redis.zrange(key, 0, limit - 1, desc=True))
        )
        found = [await read_operation(self._link, OperationId(name.decode())) for name in names]
        return [operation for operation in found if operation is not None]

    async def past(self, service: ServiceName, limit: int) -> list[Past]:
        """What stays known of closed operations, newest first, in one read."""
        rows = cast("list[list[bytes]]", await self._link.run(PAST, _past_keys(service), limit))
        found = [await self._past(service, OperationId(name.decode()), raw) for name, raw in rows]
        return [past for past in found if past is not None]

    async def keep(self, operation: Operation) -> Past:
        address = await self._link.read(Address, thread_key(operation.operation, "address"))
        past = past_of(operation, address)
        when, keys = repr(past.closed.timestamp()), _past_keys(operation.service)
        await self._link.ask(self._link.redis.sadd(SERVICES, operation.service))
        dropped = await self._link.run(SETTLE, keys, past.operation, when, dump(past), HISTORY)
        for name in dropped:
            await drop_operation(self._link, name.decode())
        return past

    async def _past(self, service: ServiceName, name: OperationId, raw: bytes) -> Past | None:
        """None once the operation is too old to be kept; one without an account beside it is given one."""
        key = service_key(service, "past")
        try:
            if raw:
                return load(Past, raw, key=f"{key} {name}")
        except RecordUnreadable as error:
            await self._link.set_aside(f"{key} {name}", raw, error)
            await self._link.ask(self._link.redis.hdel(key, name))
        operation = await read_operation(self._link, name)
        return await self.keep(operation) if operation is not None else None


def _past_keys(service: ServiceName) -> list[str]:
    return [service_key(service, part) for part in ("history", "past")]

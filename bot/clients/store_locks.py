"""Who has a service: one operation at a time, and none for longer than there is such an operation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bot.clients.records import Holder, Operation, dump
from bot.clients.redis_link import service_key
from bot.clients.scripts_service import RELEASE, TAKE
from bot.clients.store_history import read_operation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bot.clients.leases import Leases
    from bot.clients.redis_link import RedisLink
    from bot.core.events import OperationId, ServiceName

_ORPHANED = timedelta(seconds=60)  # a lock this old whose operation was never written down is nobody's


class Locks:
    """All methods raise StoreUnavailable. `settle`: what a closed operation has left undone is done."""

    def __init__(
        self, link: RedisLink, leases: Leases, settle: Callable[[Operation], Awaitable[None]]
    ) -> None:
        self._link = link
        self._leases = leases
        self._settle = settle

    async def take(self, holder: Holder) -> Holder | None:
        """None: taken, or held by the same operation already. Else who holds it."""
        key = service_key(holder.service, "lock")
        while True:
            raw = await self._link.run(TAKE, [key], dump(holder), holder.operation)
            if not raw:
                return None
            held = await self._link.decode(Holder, raw, key=key)
            if held is None or await self._settled(held):
                continue
            if not await self._is_orphan(held):
                return _present(held, await read_operation(self._link, held.operation))
            await self.release(held.service, held.operation)

    async def holder(self, service: ServiceName) -> Holder | None:
        """A closed operation holds nothing, though its lock goes a moment after the record is closed."""
        held = await self._link.read(Holder, service_key(service, "lock"))
        if held is None or await self._is_orphan(held):
            return None
        operation = await read_operation(self._link, held.operation)
        if operation is not None and operation.closed is not None:
            return None
        return _present(held, operation)

    async def release(self, service: ServiceName, operation: OperationId) -> None:
        """Quietly does nothing when another operation holds the service."""
        await self._link.run(RELEASE, [service_key(service, "lock")], operation)

    async def _is_orphan(self, held: Holder) -> bool:
        """Whether the process died after it took the lock: nobody is about to write the operation down."""
        if datetime.now(UTC) - held.since < _ORPHANED or await self._leases.is_owned(held.operation):
            return False
        return await read_operation(self._link, held.operation) is None

    async def _settled(self, held: Holder) -> bool:
        """Whether the holder was a closed operation whose process died before it let go; now it has."""
        operation = await read_operation(self._link, held.operation)
        if operation is None or operation.closed is None:
            return False
        await self._settle(operation)
        return True


def _present(held: Holder, operation: Operation | None) -> Holder:
    """The holder with the headline its operation has now."""
    if operation is None or not operation.headline:
        return held
    return held.model_copy(update={"headline": operation.headline})

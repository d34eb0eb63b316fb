"""What machines remember, written together with what they order; orders are carried out after that, once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import structlog

from bot.clients.leases import Lease
from bot.clients.store_watches import Watches
from bot.core.events import HostName
from bot.errors import OwnershipLost, StoreEmptied, StoreUnavailable
from bot.ground import Ground
from bot.watch_entries import Entry
from bot.watch_orders import Order, pack_order, read_order

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

log = structlog.get_logger()

Carry: TypeAlias = Callable[[Order, str], Awaitable["asyncio.Task[bool] | None"]]


@dataclass(slots=True)
class Records:
    """Of one host, under its `lease`. `carry`: carries out one order, once for each name.

    It raises StoreUnavailable to be asked again. What it does beside, and is not done before its task says
    True, stays on record until then: whoever dies meanwhile has not lost it.
    """

    ground: Ground
    watches: Watches
    host: HostName
    lease: Lease
    carry: Carry
    entries: list[Entry] = field(default_factory=list)

    async def settle(self, entry: Entry, orders: Sequence[Order], *, dirty: bool) -> None:
        """Write what changed and carry out what is owed. Raises OwnershipLost; what Redis refuses waits."""
        self._take_done(entry)
        entry.owed.extend(pack_order(order) for order in orders)
        entry.unsaved = entry.unsaved or dirty or bool(orders) or bool(entry.heard)
        if entry.unsaved:
            await self._save(entry)
        if entry.owed and not entry.unsaved:
            await self._carry_out(entry)

    async def _save(self, entry: Entry) -> None:
        """What Redis does not take now is written with the next round."""
        heard = tuple(entry.heard)
        try:
            try:
                await self.watches.write(self.lease, entry.service, entry.describe(), heard=heard)
            except StoreEmptied:
                await self._claim_anew()
                await self.watches.write(self.lease, entry.service, entry.describe(), heard=heard)
        except StoreUnavailable as error:
            log.warning("watch_not_saved", host=self.host, service=entry.service, error=str(error))
            return
        del entry.heard[: len(heard)]
        entry.unsaved = False

    async def _claim_anew(self) -> None:
        """Redis came back empty: whoever is first goes on, with what it still knows."""
        lease = await self.ground.store.leases.claim(self.lease.name)
        if lease is None:
            raise OwnershipLost(f"another process watches {self.host}")
        self.lease = lease
        for entry in self.entries:
            entry.unsaved = True

    async def _carry_out(self, entry: Entry) -> None:
        """In order; what is done leaves the record with the next round."""
        for owed in [each for each in entry.owed if each.id not in entry.beside]:
            try:
                beside = await self.carry(read_order(owed), owed.id)
            except StoreUnavailable as error:
                log.warning("order_not_carried_out", kind=owed.kind, error=str(error))
                return
            except (ValueError, LookupError) as error:
                log.error("order_unknown", kind=owed.kind, error=str(error))  # noqa: TRY400 - told
                beside = None
            if beside is not None:
                entry.beside[owed.id] = beside
            else:
                entry.owed.remove(owed)
                entry.unsaved = True  # by the next process it would be carried out again

    @staticmethod
    def _take_done(entry: Entry) -> None:
        """Of what goes on beside. What was broken off, or is not done after all, is begun anew."""
        for name, task in [*entry.beside.items()]:
            if not task.done():
                continue
            del entry.beside[name]
            if not task.cancelled() and (task.exception() is not None or task.result()):
                entry.owed = [each for each in entry.owed if each.id != name]
                entry.unsaved = True

"""Which operation of ours has a service under watch, and what of that its watch has not heard."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from bot.baselines import read_account
from bot.core.actions import Verdict
from bot.core.monitor_events import OperationEnded, OperationUnderWay

if TYPE_CHECKING:
    from bot.clients.store import Store
    from bot.core.events import OperationId
    from bot.core.monitor import Watch
    from bot.core.monitor_events import WatchEvent


async def look_at_operation(store: Store, watch: Watch) -> tuple[OperationId | None, list[WatchEvent]]:
    """The one that has the service by Redis, and the facts, oldest first. Raises StoreUnavailable."""
    service, under = watch.service, watch.state.operation
    holder = await store.holder(service)
    facts: list[WatchEvent] = []
    if under is not None and (holder is None or holder.operation != under.operation):
        ended = await _ended(store, under.operation)
        facts += [ended] if ended is not None else []
    if holder is None:
        return None, facts
    if under is None or holder.operation != under.operation:
        address = await store.address(holder.operation)
        link = address.permalink if address is not None else None
        facts.append(OperationUnderWay(holder.operation, holder.verb, holder.by, link))
    return holder.operation, facts


async def _ended(store: Store, operation: OperationId) -> OperationEnded | None:
    record = await store.operation(operation)
    if record is None or record.closed is None or record.verdict is None:
        return None
    account = read_account(record)
    took = record.closed - record.began if account.took is None else timedelta(seconds=account.took)
    cause = account.failure.cause if account.failure is not None else None
    return OperationEnded(operation, record.verb, Verdict(record.verdict), took, record.by or None, cause)

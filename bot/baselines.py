"""What is remembered of a service's starts: read when one is planned or told of, added to when one ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from pydantic import TypeAdapter, ValidationError

from bot.core.account import Account
from bot.core.baseline import Usual, learn, learn_speeds
from bot.core.changes import LastHealthy
from bot.errors import StoreUnavailable

if TYPE_CHECKING:
    from bot.clients.records import Operation, Past
    from bot.clients.store import Store
    from bot.core.actions import Close
    from bot.core.events import ServiceName

log = structlog.get_logger()

USUAL = TypeAdapter(Usual)
LAST = TypeAdapter(LastHealthy)
ACCOUNT = TypeAdapter(Account)


def read_account(record: Operation | Past) -> Account:
    """What stays known of one that is over, as far as it can be read."""
    try:
        return ACCOUNT.validate_json(record.account) if record.account else Account()
    except ValidationError as error:
        log.warning("account_unreadable", operation=record.operation, error=str(error))
        return Account()


async def read_usual(store: Store, service: ServiceName) -> Usual:
    """What is usual for the service; nothing where that cannot be read: no start shall fail of it."""
    known = await store.baseline(service)
    try:
        return USUAL.validate_json(known) if known else Usual()
    except ValidationError as error:
        await store.give_up(service, "baseline", str(error))  # and learned anew
        return Usual()


async def read_last(store: Store, service: ServiceName) -> LastHealthy | None:
    """What the last healthy start ran with; None where that cannot be read either."""
    known = await store.setup(service)
    try:
        return LAST.validate_json(known) if known else None
    except ValidationError as error:
        await store.give_up(service, "setup", str(error))
        return None


async def remember(store: Store, service: ServiceName, order: Close, *, last: LastHealthy) -> None:
    """One more healthy start. A Redis that is away costs one sample, and nothing else."""
    try:
        usual = learn(await read_usual(store, service), order.durations, order.silences)
        usual = learn_speeds(usual, order.speeds)
        await store.save_baseline(service, USUAL.dump_json(usual).decode())
        if last.setups:
            await store.save_setup(service, LAST.dump_json(last).decode())
    except StoreUnavailable as error:
        log.warning("baseline_not_learned", service=service, error=str(error))

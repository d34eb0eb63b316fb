"""Bounds are kept by one process at a time; what they are is tested where they are kept."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest_asyncio
from structlog.testing import capture_logs

from bot.clients.records import AuditEntry
from bot.clients.store import Store
from bot.clock import Clock, Origin
from bot.retention import LEASE, Retention
from bot.tasks import Tasks
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.redis import RedisServer


@pytest_asyncio.fixture
async def stores(own_redis: RedisServer) -> AsyncIterator[list[Store]]:
    """Those of two processes."""
    stores = [await Store.open(own_redis.url) for _ in range(2)]
    yield stores
    for store in stores:
        await store.close()


def make_retention(store: Store, *, ahead: timedelta = timedelta()) -> Retention:
    clock = Clock(origin=Origin(datetime.now(UTC) + ahead, time.monotonic()))
    return Retention(store, clock=clock, tasks=Tasks())


async def test_what_is_old_goes_and_another_process_stands_back_meanwhile(stores: list[Store]) -> None:
    await stores[0].audit(AuditEntry(at=datetime.now(UTC), verb="status", outcome="told"))
    assert await make_retention(stores[0]).prune() is True
    assert await make_retention(stores[1], ahead=timedelta(days=91)).prune() is False
    assert len(await stores[0].audits(10)) == 1
    assert await make_retention(stores[0], ahead=timedelta(days=91)).prune() is True
    assert await stores[0].audits(10) == []


async def test_when_the_one_that_did_it_is_gone_another_does(stores: list[Store]) -> None:
    ours, theirs = (make_retention(store) for store in stores)
    assert await ours.prune() is True
    await stores[0].leases.close()
    assert await theirs.prune() is True
    assert await stores[0].leases.is_owned(LEASE)


async def test_the_schedule_only_asks_and_does_not_ask_twice(stores: list[Store]) -> None:
    retention = make_retention(stores[0])
    with capture_logs() as logs:
        retention.prune_soon()
        retention.prune_soon()
        await until(lambda: "retention_done" in [fact["event"] for fact in logs])
    assert [fact["event"] for fact in logs] == ["retention_done"]


async def test_a_redis_that_is_gone_is_left_for_the_next_time(
    stores: list[Store], own_redis: RedisServer
) -> None:
    own_redis.kill()
    with capture_logs() as logs:
        assert await make_retention(stores[0]).prune() is False
    assert [fact["event"] for fact in logs] == ["retention_delayed"]
    own_redis.start()
    assert await make_retention(stores[0]).prune() is True

"""What is kept is bounded by time and by count, and what is still needed is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest_asyncio

from bot.clients.records import AuditEntry, Intent, Parked
from bot.clients.redis_link import PARKED, THREADS, service_key
from bot.clients.store import Store
from bot.clients.store_retention import KEPT, prune
from bot.core.events import OperationId
from bot.errors import RecordUnreadable
from tests.support.outgoing import PERSON, SERVICE, operation, reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


@pytest_asyncio.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    store = await Store.open(redis_url)
    yield store
    await store.close()


async def park(store: Store, thread: str, count: int) -> None:
    for number in range(count):
        await store.enqueue([reply(number, thread=thread)])
        claim = await store.queue.claim(thread, "me", 60)
        assert claim is not None
        assert claim.head is not None
        parked = Parked(outgoing=claim.head, method="chat.postMessage", code="is_archived", at=NOW)
        await store.queue.park(claim, "me", parked)


async def parked_ids(store: Store) -> list[str]:
    return [entry.outgoing.id for entry in await store.parked()]


async def test_an_empty_store_is_pruned(store: Store) -> None:
    await store.prune(NOW)


async def test_history_is_bounded_by_count(store: Store) -> None:
    for number in range(6):
        await store.finish(operation(f"op{number}", closed=NOW + timedelta(minutes=number)))
    await prune(store.link, NOW, history=4)
    assert [past.operation for past in await store.past(SERVICE, 10)] == ["op5", "op4", "op3", "op2"]
    assert await store.operation(OperationId("op1")) is None
    assert await store.link.redis.hlen(service_key(SERVICE, "past")) == 4


async def test_history_is_bounded_by_time(store: Store) -> None:
    await store.finish(operation("old", closed=NOW - KEPT - DAY))
    await store.finish(operation("young", closed=NOW - KEPT + DAY))
    await store.prune(NOW)
    assert [past.operation for past in await store.past(SERVICE, 10)] == ["young"]
    assert await store.operation(OperationId("old")) is None


async def test_open_operations_stay_however_old(store: Store) -> None:
    await store.save(operation(began=NOW - KEPT - DAY))
    await store.prune(NOW)
    assert [each.operation for each in await store.open_operations()] == ["op1"]


async def test_parked_messages_are_bounded_by_count(store: Store) -> None:
    for number, thread in enumerate(("a", "b", "c")):
        await park(store, thread, 3)
        await store.link.redis.zadd(PARKED, {thread: NOW.timestamp() + number})
    await prune(store.link, NOW, aside=5)
    assert await parked_ids(store) == ["b:1", "b:2", "c:0", "c:1", "c:2"]
    assert await store.link.redis.zscore(PARKED, "a") is None


async def test_parked_messages_are_bounded_by_time(store: Store) -> None:
    await park(store, "old", 2)
    await park(store, "young", 2)
    await store.link.redis.zadd(PARKED, {"old": (NOW - KEPT - DAY).timestamp()})
    await store.prune(NOW)
    assert await parked_ids(store) == ["young:0", "young:1"]


async def test_unreadable_records_are_bounded(store: Store) -> None:
    for number in range(6):
        await store.link.set_aside(f"key {number}", b"x", RecordUnreadable("why"))
    await prune(store.link, NOW, aside=4)
    assert [aside.key for aside in await store.unreadable()] == [f"key {number}" for number in range(2, 6)]
    await store.prune(NOW + KEPT + DAY)
    assert await store.unreadable() == []


async def test_audit_is_bounded_by_time(store: Store) -> None:
    await store.audit(AuditEntry(at=NOW, verb="restart", outcome="started"))
    await store.prune(NOW + KEPT - DAY)
    assert len(await store.audits(5)) == 1
    await store.prune(NOW + KEPT + DAY)
    assert await store.audits(5) == []


async def test_intents_that_nobody_took_up_go_after_a_day(store: Store) -> None:
    for token, age in (("old", timedelta(hours=25)), ("young", timedelta(hours=23))):
        await store.intend(Intent(token=token, owner="dead", at=NOW - age, user=PERSON), 60)
    await store.prune(NOW)
    assert [intent.token for intent in await store.intents()] == ["young"]


async def test_threads_leave_the_index_only_with_nothing_to_send(store: Store) -> None:
    await store.enqueue([reply(1, thread="waits")])
    long_ago = (NOW - DAY).timestamp()
    await store.link.redis.zadd(THREADS, {"waits": long_ago, "rests": long_ago, "fresh": NOW.timestamp()})
    await store.prune(NOW)
    assert sorted(await store.queue.threads()) == ["fresh", "waits"]


async def test_every_key_of_a_closed_operation_ends(store: Store) -> None:
    """What is bounded by neither place nor count has a time to live."""
    lease = await store.leases.claim("op1")
    assert lease is not None
    await store.create(operation(), lease=lease)
    await park(store, "op1", 1)
    await store.finish(operation(closed=NOW), lease=lease)
    await store.leases.let_go(lease)
    keys = await store.link.redis.keys("kimi:{op1}:*")
    assert len(keys) >= 4
    assert [key for key in keys if await store.link.redis.ttl(key) < 0] == []

"""The store, on a real Redis: operations, locks, history, and what a dead process leaves behind."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from bot.clients.records import Address
from bot.clients.redis_link import OPEN, thread_key
from bot.clients.store import Store
from bot.core.events import MessageTs, OperationId
from bot.errors import StoreUnavailable
from tests.support.outgoing import BEGAN, CHANNEL, SERVICE, edit, holder, operation, reply, root, upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.redis import OpenStore, RedisServer

CLOSED: dict[str, Any] = {"closed": BEGAN + timedelta(minutes=7), "verdict": "healthy"}


@pytest_asyncio.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    store = await Store.open(redis_url)
    yield store
    await store.close()


async def test_opening_without_redis_is_told() -> None:
    with pytest.raises(StoreUnavailable):
        await Store.open("redis://127.0.0.1:1/0")


async def test_an_operation_is_read_back(store: Store) -> None:
    await store.save(operation())
    assert await store.operation(OperationId("op1")) == operation()
    assert await store.operation(OperationId("op2")) is None


async def test_open_operations_come_oldest_first(store: Store) -> None:
    for minutes, name in enumerate(["a", "b", "c"]):
        await store.save(operation(name, began=BEGAN - timedelta(minutes=minutes)))
    assert [found.operation for found in await store.open_operations()] == ["c", "b", "a"]


async def test_finishing_releases_and_goes_into_history(store: Store) -> None:
    await store.take(holder())
    await store.save(operation())
    await store.finish(operation(**CLOSED), [reply(1)])
    assert await store.holder(SERVICE) is None
    assert await store.open_operations() == []
    assert await store.history(SERVICE, 5) == [operation(**CLOSED)]
    assert await store.queue.pending() == 1


async def test_an_open_operation_cannot_be_finished(store: Store) -> None:
    with pytest.raises(ValueError, match="op1"):
        await store.finish(operation())


@pytest.mark.parametrize("who", ["open_operations", "take"])
async def test_a_death_amid_finishing_leaves_no_lock(store: Store, who: str) -> None:
    """Closed and saved; then the process died before lock, history and the list of open ones."""
    await store.take(holder())
    await store.save(operation())
    await store.save(operation(**CLOSED))
    if who == "take":
        assert await store.take(holder("op2")) is None
    assert await store.open_operations() == []
    assert len(await store.history(SERVICE, 5)) == len(await store.past(SERVICE, 5)) == 1
    held = await store.holder(SERVICE)
    assert (held and held.operation) == ("op2" if who == "take" else None)


async def test_an_index_entry_without_a_record_is_dropped_after_a_while(store: Store) -> None:
    redis = store.link.redis
    await redis.zadd(OPEN, {"never-saved": BEGAN.timestamp() - 10**8})
    assert await store.open_operations() == []
    assert await redis.zcard(OPEN) == 0


async def test_state_and_messages_are_one_transaction(store: Store) -> None:
    files = {"op1:2": b"three\nshort\nlines\n"}
    await store.save(operation(), [root(), reply(1), upload(2), edit("now")], files)
    redis = store.link.redis
    assert await redis.llen(thread_key("op1", "queue")) == 3
    assert await store.queue.pending() == 4
    assert await store.queue.file(upload(2)) == files["op1:2"]


async def test_a_save_that_is_sent_twice_queues_once(store: Store) -> None:
    """Redis ran the script, its answer was lost, and the client sent it again."""
    for _ in range(2):
        await store.save(operation(), [root(), reply(1), reply(7, thread="other")])
    assert await store.link.redis.llen(thread_key("op1", "queue")) == 2
    assert await store.link.redis.llen(thread_key("other", "queue")) == 1


async def test_messages_of_other_threads_are_queued_there(store: Store) -> None:
    await store.save(operation(), [reply(1), reply(1, thread="other")])
    assert sorted(await store.queue.threads()) == ["op1", "other"]


async def test_a_file_is_kept_compressed(store: Store) -> None:
    content = b"the same line\n" * 100_000
    await store.enqueue([upload(1)], {"op1:1": content})
    raw = await store.link.redis.hget(thread_key("op1", "files"), "op1:1")
    assert raw is not None
    assert len(raw) < len(content) / 100
    assert await store.queue.file(upload(1)) == content


async def test_a_thread_is_found_by_its_place(store: Store) -> None:
    await store.save(operation(), [root()])
    claim = await store.queue.claim("op1", "me", 60)
    assert claim is not None
    await store.queue.accept(claim, "me", Address(channel=CHANNEL, ts=MessageTs("1.2")))
    assert await store.operation_at(CHANNEL, MessageTs("1.2")) == "op1"
    assert await store.operation_at(CHANNEL, MessageTs("9.9")) is None
    assert (await store.address("op1")) == Address(channel=CHANNEL, ts=MessageTs("1.2"))


async def test_a_thread_that_is_no_operation_is_not_taken_for_one(store: Store) -> None:
    await store.enqueue([root(thread="announcement")])
    claim = await store.queue.claim("announcement", "me", 60)
    assert claim is not None
    await store.queue.accept(claim, "me", Address(channel=CHANNEL, ts=MessageTs("1.2")))
    assert await store.operation_at(CHANNEL, MessageTs("1.2")) is None


async def test_an_unreadable_operation_is_set_aside_and_told(store: Store) -> None:
    await store.save(operation())
    await store.link.redis.set(thread_key("op1", "operation"), b'{"schema_version": 9}')
    assert await store.open_operations() == []
    (aside,) = await store.unreadable()
    assert aside.raw == '{"schema_version": 9}'


async def test_everything_survives_a_killed_redis(own_redis: RedisServer, open_store: OpenStore) -> None:
    store = await open_store(own_redis.url)
    await store.take(holder())
    await store.save(operation(), [root(), upload(1)], {"op1:1": b"log"})
    await own_redis.restart()
    assert await store.holder(SERVICE) is not None
    assert await store.open_operations() == [operation()]
    assert await store.queue.file(upload(1)) == b"log"


async def test_redis_gone_is_store_unavailable(own_redis: RedisServer, open_store: OpenStore) -> None:
    store = await open_store(own_redis.url)
    own_redis.kill()
    for asked in (store.take(holder()), store.save(operation(), [root()]), store.open_operations()):
        with pytest.raises(StoreUnavailable):
            await asked

"""The store, on a real Redis: operations, locks, history, and what a dead process leaves behind."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from bot.clients.records import Address, dump
from bot.clients.redis_link import OPEN, service_key, thread_key
from bot.clients.store import Store
from bot.core.events import MessageTs, OperationId
from bot.errors import StoreUnavailable
from tests.support.outgoing import BEGAN, CHANNEL, SERVICE, edit, holder, operation, reply, root, upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.redis import RedisServer

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


async def test_one_of_many_takes_the_lock(store: Store) -> None:
    answers = await asyncio.gather(*(store.take(holder(f"op{number}")) for number in range(20)))
    assert answers.count(None) == 1
    winner = await store.holder(SERVICE)
    assert all(answer in (None, winner) for answer in answers)


async def test_taking_again_is_no_conflict_with_oneself(store: Store) -> None:
    assert await store.take(holder()) is None
    assert await store.take(holder()) is None


async def test_only_who_holds_it_releases_it(store: Store) -> None:
    await store.take(holder("op1"))
    await store.release(SERVICE, OperationId("op2"))
    assert await store.holder(SERVICE) == holder("op1")
    await store.release(SERVICE, OperationId("op1"))
    assert await store.holder(SERVICE) is None
    await store.release(SERVICE, OperationId("op1"))


async def test_the_holder_tells_the_present(store: Store) -> None:
    await store.take(holder())
    await store.save(operation(headline="graphs, 3/8"))
    held = await store.take(holder("op2"))
    assert held is not None
    assert held.headline == "graphs, 3/8"


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


async def test_history_is_newest_first_and_limited(store: Store) -> None:
    for number in range(4):
        closed = BEGAN + timedelta(minutes=number)
        await store.finish(operation(f"op{number}", closed=closed))
    assert [found.operation for found in await store.history(SERVICE, 3)] == ["op3", "op2", "op1"]


async def finish_all(store: Store, count: int) -> None:
    for number in range(count):
        closed = BEGAN + timedelta(minutes=number)
        state = {"account": f'{{"took": {number}}}', "state": "x" * 10_000}
        await store.finish(operation(f"op{number}", closed=closed, verdict="healthy", **state))


async def test_the_past_is_read_at_once_and_without_the_operations(store: Store) -> None:
    await finish_all(store, 4)
    asked: list[str] = []
    execute: Any = store.link.redis.execute_command

    async def count(*arguments: Any, **options: Any) -> Any:
        asked.append(arguments[0])
        return await execute(*arguments, **options)

    await store.past(SERVICE, 3)  # the script is known from here on
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.link.redis, "execute_command", count)
        past = await store.past(SERVICE, 3)
    assert asked == ["EVALSHA"]
    assert [(each.operation, each.account) for each in past] == [
        (f"op{number}", f'{{"took": {number}}}') for number in (3, 2, 1)
    ]
    assert len(dump(past[0])) < 1_000


async def test_the_past_leads_to_its_thread(store: Store) -> None:
    await store.save(operation(), [root()])
    claim = await store.queue.claim("op1", "me", 5)
    assert claim is not None
    address = Address(channel=CHANNEL, ts=MessageTs("1.2"), permalink="https://s/p1")
    await store.queue.accept(claim, "me", address)
    await store.finish(operation(**CLOSED))
    assert [past.link for past in await store.past(SERVICE, 5)] == ["https://s/p1"]


async def test_an_operation_of_before_is_read_whole_once(store: Store) -> None:
    """An older process knew of no account apart from the operation."""
    await finish_all(store, 2)
    expected, key = await store.past(SERVICE, 5), service_key(SERVICE, "past")
    await store.link.redis.delete(key)
    assert await store.past(SERVICE, 5) == expected
    await store.link.redis.delete(thread_key("op0", "operation"), thread_key("op1", "operation"))
    assert await store.past(SERVICE, 5) == expected
    await store.link.redis.delete(key)
    assert await store.past(SERVICE, 5) == []


async def test_an_unreadable_account_is_set_aside_and_made_anew(store: Store) -> None:
    await finish_all(store, 1)
    expected = await store.past(SERVICE, 5)
    await store.link.redis.hset(service_key(SERVICE, "past"), "op0", "rubbish")
    assert await store.past(SERVICE, 5) == expected
    (aside,) = await store.unreadable()
    assert (aside.raw, aside.key.split()[-1]) == ("rubbish", "op0")


async def test_the_oldest_go_from_history_with_their_accounts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.clients.store_history.HISTORY", 3)
    await finish_all(store, 5)
    assert [past.operation for past in await store.past(SERVICE, 10)] == ["op4", "op3", "op2"]
    assert await store.link.redis.hlen(service_key(SERVICE, "past")) == 3
    assert await store.link.redis.zcard(service_key(SERVICE, "history")) == 3


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
    claim = await store.queue.claim("op1", "me", 5)
    assert claim is not None
    await store.queue.accept(claim, "me", Address(channel=CHANNEL, ts=MessageTs("1.2")))
    assert await store.operation_at(CHANNEL, MessageTs("1.2")) == "op1"
    assert await store.operation_at(CHANNEL, MessageTs("9.9")) is None
    assert (await store.address("op1")) == Address(channel=CHANNEL, ts=MessageTs("1.2"))


async def test_a_thread_that_is_no_operation_is_not_taken_for_one(store: Store) -> None:
    await store.enqueue([root(thread="announcement")])
    claim = await store.queue.claim("announcement", "me", 5)
    assert claim is not None
    await store.queue.accept(claim, "me", Address(channel=CHANNEL, ts=MessageTs("1.2")))
    assert await store.operation_at(CHANNEL, MessageTs("1.2")) is None


async def test_a_payload_is_new_to_one_of_many(store: Store) -> None:
    answers = await asyncio.gather(*(store.first_time("trigger", 60) for _ in range(10)))
    assert answers.count(True) == 1
    assert await store.first_time("another", 60)


async def test_baselines(store: Store) -> None:
    assert await store.baseline(SERVICE) is None
    await store.save_baseline(SERVICE, '{"weights": 120.0}')
    assert await store.baseline(SERVICE) == '{"weights": 120.0}'


async def test_an_unreadable_operation_is_set_aside_and_told(store: Store) -> None:
    await store.save(operation())
    await store.link.redis.set(thread_key("op1", "operation"), b'{"schema_version": 9}')
    assert await store.open_operations() == []
    (aside,) = await store.unreadable()
    assert aside.raw == '{"schema_version": 9}'


async def test_an_unreadable_lock_does_not_hold_for_ever(store: Store) -> None:
    await store.link.redis.set(service_key(SERVICE, "lock"), b"rubbish")
    assert await store.take(holder()) is None
    assert len(await store.unreadable()) == 1


async def test_everything_survives_a_killed_redis(own_redis: RedisServer) -> None:
    store = await Store.open(own_redis.url)
    await store.take(holder())
    await store.save(operation(), [root(), upload(1)], {"op1:1": b"log"})
    await own_redis.restart()
    assert await store.holder(SERVICE) is not None
    assert await store.open_operations() == [operation()]
    assert await store.queue.file(upload(1)) == b"log"
    await store.close()


async def test_redis_gone_is_store_unavailable(own_redis: RedisServer) -> None:
    store = await Store.open(own_redis.url)
    own_redis.kill()
    for asked in (store.take(holder()), store.save(operation(), [root()]), store.open_operations()):
        with pytest.raises(StoreUnavailable):
            await asked
    await store.close()


async def test_the_setup_of_the_last_healthy_start(store: Store) -> None:
    assert await store.setup(SERVICE) is None
    await store.save_setup(SERVICE, '{"at": 1}')
    assert await store.setup(SERVICE) == '{"at": 1}'
    assert await store.baseline(SERVICE) is None


async def test_what_is_forgotten_is_a_first_time_again(store: Store) -> None:
    assert await store.first_time("smoke", 60)
    assert not await store.first_time("smoke", 60)
    await store.forget("smoke")
    assert await store.first_time("smoke", 60)

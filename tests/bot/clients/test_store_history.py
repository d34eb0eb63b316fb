"""The past of a service: newest first, one small record each, the oldest dropped with all they had."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from bot.clients.records import Address, dump
from bot.clients.redis_link import service_key, thread_key
from bot.clients.store import Store
from bot.core.events import MessageTs, OperationId
from tests.support.outgoing import BEGAN, CHANNEL, SERVICE, operation, reply, root

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CLOSED: dict[str, Any] = {"closed": BEGAN + timedelta(minutes=7), "verdict": "healthy"}


@pytest_asyncio.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    store = await Store.open(redis_url)
    yield store
    await store.close()


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
    claim = await store.queue.claim("op1", "me", 60)
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


async def test_what_goes_from_history_goes_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.clients.store_history.HISTORY", 2)
    for number in range(4):
        name = f"op{number}"
        lease = await store.leases.claim(name)
        assert lease is not None
        closed = BEGAN + timedelta(minutes=number)
        waits = [reply(1, thread=name)] if number == 1 else []
        await store.finish(operation(name, closed=closed), waits, lease=lease)
        await store.leases.let_go(lease)
    assert await store.link.redis.keys("kimi:{op0}:*") == []
    waiting = [thread_key("op1", part) for part in ("queue", "known", "operation")]
    assert await store.link.redis.exists(*waiting) == 3  # it still is to be sent
    assert await store.operation(OperationId("op3")) is not None

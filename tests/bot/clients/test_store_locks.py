"""The lock of a service: one operation has it, and none that was never written down for long."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest_asyncio

from bot.clients.redis_link import service_key, thread_key
from bot.clients.store import Store
from bot.core.events import OperationId
from tests.support.outgoing import BEGAN, SERVICE, holder, operation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OP = OperationId("op1")


@pytest_asyncio.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    store = await Store.open(redis_url, owner="me")
    yield store
    await store.close()


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


async def test_what_is_closed_holds_nothing_though_its_lock_is_not_let_go_yet(store: Store) -> None:
    """closed in one slot | somebody who waited for that begins | the lock is let go in another slot"""
    await store.take(holder("op1"))
    await store.save(operation("op1", closed=datetime.now(UTC), verdict="superseded"))
    assert await store.holder(SERVICE) is None
    assert await store.take(holder("op2")) is None
    held = await store.holder(SERVICE)
    assert held is not None
    assert held.operation == "op2"


async def test_an_unreadable_lock_does_not_hold_for_ever(store: Store) -> None:
    await store.link.redis.set(service_key(SERVICE, "lock"), b"rubbish")
    assert await store.take(holder()) is None
    assert len(await store.unreadable()) == 1


async def test_a_lock_whose_operation_was_never_written_down_is_free_after_a_while(store: Store) -> None:
    """The process died between the two."""
    await store.take(holder("op1", since=datetime.now(UTC)))
    held = await store.take(holder("op2"))
    assert held is not None
    assert held.operation == "op1"
    await store.release(SERVICE, OP)
    await store.take(holder("op1", since=datetime.now(UTC) - timedelta(seconds=61)))
    assert await store.holder(SERVICE) is None
    assert await store.take(holder("op2")) is None
    held = await store.holder(SERVICE)
    assert held is not None
    assert held.operation == "op2"


async def test_one_of_many_gets_a_lock_that_is_nobody_s(store: Store) -> None:
    await store.take(holder("never", since=BEGAN))
    answers = await asyncio.gather(*(store.take(holder(f"op{number}")) for number in range(10)))
    assert answers.count(None) == 1


async def test_a_lock_of_an_operation_that_is_written_down_stays(store: Store) -> None:
    await store.take(holder("op1", since=BEGAN))
    await store.save(operation("op1"))
    assert await store.take(holder("op2")) is not None
    assert await store.holder(SERVICE) is not None


async def test_a_lock_whose_operation_is_about_to_be_written_down_stays(store: Store) -> None:
    """Its process has the lease, and waits for a Redis that was slow."""
    lease = await store.leases.claim(OP)
    assert lease is not None
    await store.take(holder("op1", since=BEGAN))
    assert await store.take(holder("op2")) is not None
    await store.leases.let_go(lease)
    assert await store.take(holder("op2")) is None


async def test_a_lease_of_a_dead_process_protects_no_lock(store: Store) -> None:
    identity, _, _ = Store(store.link).leases.owner.rpartition("/")
    key = thread_key(OP, "owner")
    await store.take(holder("op1", since=BEGAN))
    await store.link.ask(store.link.redis.set(key, f"{identity}/1|5"))  # a number that was given away since
    assert await store.take(holder("op2")) is None

"""What people say to an operation: heard soon, each once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from bot.clients.records import Mail
from bot.core.events import OperationId, PatienceExtended, Superseded, UnwatchAsked, UserId, Verb
from bot.mailing import Mailbox, event_of
from tests.support.memory_store import MemoryStore
from tests.support.outgoing import BEGAN
from tests.support.outgoing import operation as make_operation

if TYPE_CHECKING:
    from bot.clients.store import Store

pytestmark = pytest.mark.looptime
OP = OperationId("op1")
BY = UserId("U1")


def mail(name: str, **changes: Any) -> Mail:
    return Mail(id=name, kind="unwatch", by=BY, at=BEGAN).model_copy(update=changes)


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore([])
    await store.save(make_operation())
    return store


async def test_each_is_handed_out_once_though_it_stays_until_it_is_saved(store: MemoryStore) -> None:
    box = Mailbox(cast("Store", store), OP)
    for name in ("a", "b", "a"):
        await store.mail(OP, mail(name))
    await box.look()
    await box.look()
    assert [each.id for each in box.take()] == ["a", "b"]
    await box.look()
    assert box.take() == []
    await store.save(make_operation(), read=2)
    await store.mail(OP, mail("c"))
    await box.look()
    assert [each.id for each in box.take()] == ["c"]


async def test_it_is_looked_for_every_second_and_at_once_when_told(store: MemoryStore) -> None:
    box, loop, woken = Mailbox(cast("Store", store), OP), asyncio.get_running_loop(), asyncio.Event()
    task = asyncio.create_task(box.run(woken.set))
    await asyncio.sleep(0.1)
    began = loop.time()
    await store.mail(OP, mail("a"))  # by another process
    await woken.wait()
    assert 0.5 < loop.time() - began < 1.5
    box.take()
    await asyncio.sleep(0.1)
    woken.clear()
    began = loop.time()
    await store.mail(OP, mail("b"))
    box.arrived.set()
    await woken.wait()
    assert loop.time() - began < 0.1
    task.cancel()


async def test_a_redis_that_is_away_delays_it(store: MemoryStore) -> None:
    box, woken = Mailbox(cast("Store", store), OP), asyncio.Event()
    await store.mail(OP, mail("a"))
    store.away = True
    task = asyncio.create_task(box.run(woken.set))
    await asyncio.sleep(60)
    assert not woken.is_set()
    store.away = False
    await woken.wait()
    assert [each.id for each in box.take()] == ["a"]
    task.cancel()


def test_each_kind_is_an_event_of_the_core() -> None:
    until = BEGAN + timedelta(minutes=30)
    assert event_of(mail("a")) == UnwatchAsked(BY)
    assert event_of(mail("b", kind="wait", until=until)) == PatienceExtended(BY, until)
    assert event_of(mail("c", kind="superseded", verb=Verb.STOP)) == Superseded(BY, Verb.STOP)

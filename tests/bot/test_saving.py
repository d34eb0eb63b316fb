"""One record: what is noted comes to Redis in one go and in order, also after Redis was away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from bot.clients.records import Address, Mail, Operation
from bot.core.events import ChannelId, MessageTs, OperationId, UserId
from bot.errors import OwnershipLost, StoreEmptied
from bot.saving import Ledger
from tests.support.memory_store import InstantOutbox, MemoryStore
from tests.support.outgoing import edit, reply, upload
from tests.support.outgoing import operation as make_operation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bot.clients.slack import Outbox
    from bot.clients.store import Store

pytestmark = pytest.mark.looptime
OP = OperationId("op1")


class Desk:
    """A ledger on a store in memory; `state` is what its startup would say."""

    def __init__(self) -> None:
        self.diary: list[str] = []
        self.store = MemoryStore(self.diary)
        self.state = "0"
        self.ledger: Ledger | None = None
        self.task: asyncio.Task[None] | None = None

    async def open(self) -> Ledger:
        lease = await self.store.leases.claim(OP)
        assert lease is not None
        outbox = InstantOutbox(self.store, self.diary)
        store = cast("Store", self.store)
        self.ledger = Ledger(store, cast("Outbox", outbox), make_operation(), lease)
        self.task = asyncio.create_task(self.ledger.run(self.describe))
        return self.ledger

    def describe(self) -> dict[str, Any]:
        return {"state": self.state}

    @property
    def saved(self) -> Operation:
        return self.store.operations[OP]

    def saves(self) -> int:
        return self.diary.count("saved")


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    yield desk
    if desk.task is not None:
        desk.task.cancel()
        await asyncio.wait({desk.task})


async def test_state_and_words_are_saved_together_as_they_are_at_that_moment(desk: Desk) -> None:
    ledger = await desk.open()
    ledger.note([reply(1)])
    desk.state = "1"
    await ledger.saved()
    assert (desk.saved.state, list(desk.store.queued), desk.saves()) == ("1", ["op1:1"], 1)
    assert ledger.operation.state == "1"


async def test_nothing_noted_is_nothing_saved(desk: Desk) -> None:
    ledger = await desk.open()
    await ledger.saved()
    await asyncio.sleep(600)
    assert desk.saves() == 0


async def test_while_redis_is_away_all_waits_in_order_and_the_newest_edit_alone(desk: Desk) -> None:
    ledger = await desk.open()
    desk.store.away = True
    for number in (1, 2, 3):
        ledger.note([reply(number), edit(f"present {number}")])
        await asyncio.sleep(30)
    waiting = asyncio.create_task(ledger.saved())
    ledger.note([upload(4)], {"op1:4": b"log"})
    await asyncio.sleep(60)
    assert not waiting.done()
    desk.store.away = False
    await waiting
    await ledger.saved()
    assert list(desk.store.queued) == ["op1:1", "op1:2", "op1:3", "op1:4"]
    assert [each.text for each in desk.store.edits] == ["present 3"]
    assert desk.store.files == {"op1:4": b"log"}
    assert desk.saves() == 1


async def test_an_answer_that_was_lost_is_asked_for_again(desk: Desk) -> None:
    ledger = await desk.open()
    desk.store.deaf = ["save"]
    ledger.note([reply(1)])
    await ledger.saved()
    assert (desk.saves(), list(desk.store.queued)) == (2, ["op1:1"])


async def test_what_came_while_it_was_saving_is_saved_next(desk: Desk) -> None:
    ledger = await desk.open()
    desk.store.deaf = ["save"]
    ledger.note([reply(1), edit("old")])
    await asyncio.sleep(0.5)
    ledger.note([edit("new"), reply(2)])
    await ledger.saved()
    assert list(desk.store.queued) == ["op1:1", "op1:2"]
    assert desk.store.edits[-1].text == "new"


async def test_a_former_owner_writes_nothing(desk: Desk) -> None:
    ledger = await desk.open()
    desk.store.leases.steal(OP)
    ledger.note([reply(1)])
    assert desk.task is not None
    with pytest.raises(OwnershipLost):
        await desk.task
    assert (desk.store.operations, desk.store.queued) == ({}, {})


async def test_mail_leaves_the_inbox_with_the_state_that_holds_it(desk: Desk) -> None:
    ledger = await desk.open()
    await desk.store.save(ledger.operation)
    for name in "abc":
        mail = Mail(id=name, kind="unwatch", by=UserId("U1"), at=ledger.operation.began)
        assert await desk.store.mail(OP, mail)
    desk.store.away = True
    ledger.note(heard=1)
    await asyncio.sleep(3)
    ledger.note(heard=1)
    desk.store.away = False
    await ledger.saved()
    assert [mail.id for mail in await desk.store.inbox(OP)] == ["c"]
    ledger.note()
    await ledger.saved()
    assert [mail.id for mail in await desk.store.inbox(OP)] == ["c"]


async def test_a_closed_operation_lets_its_service_go_and_may_have_a_last_word(desk: Desk) -> None:
    ledger = await desk.open()
    ledger.operation = ledger.operation.model_copy(update={"closed": ledger.operation.began})
    ledger.note()
    await ledger.saved()
    assert desk.diary[-1] == "finished"
    ledger.note([upload(4)], {"op1:4": b"log"})
    await ledger.saved()
    assert list(desk.store.queued) == ["op1:4"]
    assert desk.saved.closed is not None


async def test_positions_are_saved_as_they_were_with_that_state(desk: Desk) -> None:
    ledger = await desk.open()
    ledger.operation.positions["m"] = "1"  # type: ignore[index]
    ledger.note()
    await ledger.saved()
    ledger.operation.positions["m"] = "2"  # type: ignore[index]
    assert desk.saved.positions == {"m": "1"}


async def test_what_was_queued_is_known_without_the_bytes(desk: Desk) -> None:
    ledger = await desk.open()
    ledger.note([reply(1), edit("present"), upload(4)], {"op1:4": b"log"})
    await ledger.saved()
    assert set(ledger.known) == {"op1:1", "op1:edit", "op1:4"}
    assert (ledger._files, ledger._waiting) == ({}, {})


async def test_the_thread_is_waited_for_and_then_remembered(desk: Desk) -> None:
    ledger = await desk.open()
    loop = asyncio.get_running_loop()
    began = loop.time()
    await ledger.await_address(5, unless=lambda: False)
    assert 5 <= loop.time() - began < 6
    await ledger.await_address(5, unless=lambda: True)
    assert loop.time() - began < 6
    desk.store.addresses[OP] = Address(channel=ChannelId("C1"), ts=MessageTs("1.1"))
    assert await ledger.find_address()
    desk.store.addresses.clear()
    desk.store.away = True
    assert await ledger.find_address()
    assert ledger.address is not None


async def test_a_stranded_record_is_not_saved_until_it_goes_on_with_what_was_lost_first(desk: Desk) -> None:
    ledger = await desk.open()
    ledger.note([reply(1)])
    await ledger.saved()
    ledger.strand()
    assert ledger.is_stranded
    mark = ledger.note([reply(3), edit("new")])
    await asyncio.sleep(60)
    assert list(desk.store.queued) == ["op1:1"]
    async with ledger.at_rest():
        ledger.go_on([reply(2), upload(4)], {"op1:4": b"log"})
    await ledger.saved(mark)
    await ledger.saved()
    assert list(desk.store.queued) == ["op1:1", "op1:2", "op1:4", "op1:3"]
    assert desk.store.files == {"op1:4": b"log"}
    assert list(ledger.known) == ["op1:1", "op1:2", "op1:4", "op1:3", "op1:edit"]


async def test_an_emptied_redis_strands_the_record(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = await desk.open()

    async def emptied(*_: object, **__: object) -> None:
        raise StoreEmptied("nothing is known of op1")

    with monkeypatch.context() as patched:
        patched.setattr(desk.store, "save", emptied)
        ledger.note([reply(1)])
        await asyncio.sleep(1)
    assert ledger.is_stranded
    ledger.go_on([], {})
    await ledger.saved()
    assert list(desk.store.queued) == ["op1:1"]


async def test_what_redis_had_last_is_known_as_it_was(desk: Desk) -> None:
    ledger = await desk.open()
    assert ledger.record == ledger.operation
    desk.state = "1"
    ledger.note()
    await ledger.saved()
    assert ledger.record == desk.saved

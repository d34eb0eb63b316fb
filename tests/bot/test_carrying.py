"""What a process carries out: taken when nobody has it, lost in silence, left in order."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from structlog.testing import capture_logs

from bot.adoption import adopt
from bot.carrying import Carrying
from bot.core.events import OperationId, ServiceName, Verb
from bot.core.startup import Startup
from bot.errors import StoreUnavailable
from tests.support.carriers import CLOSED, UP, backstage
from tests.support.outgoing import operation as make_operation

if TYPE_CHECKING:
    from bot.clients.leases import Lease
    from bot.ground import Ground
    from bot.running import Running

pytestmark = pytest.mark.looptime


async def test_what_a_living_process_has_is_not_adopted() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin(Verb.WATCH)
        await stage.crash()
        stage.store.leases.steal(running.operation.operation)
        assert await stage.startups.adopt() == 0
        assert stage.startups.owned == set()


async def test_the_schedule_lets_it_be_adopted_soon() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin(Verb.WATCH)
        await stage.crash()
        stage.adopts = True
        stage.store.failing = ["open_names"]
        await stage.until(lambda: running.operation.operation in stage.startups.running)
        stage.probe.answer = UP
        assert (await stage.closed(running)).verdict == "healthy"


async def test_looks_at_many_are_begun_one_after_the_other() -> None:
    """And each of them within the time that its kind has."""
    loop = asyncio.get_running_loop()
    begun: list[float] = []

    class Looked:
        def tick(self) -> None:
            begun.append(loop.time())

    async with backstage() as stage:
        carrying = stage.startups
        for number in range(100):
            fake = SimpleNamespace(looks=Looked())
            carrying.running[OperationId(f"op{number}")] = cast("Running", fake)
        before = loop.time()
        carrying.tick()
        assert len(begun) == 1
        await asyncio.sleep(1)
        carrying.running.clear()
    assert len(begun) == len(set(begun)) == 100
    assert begun[-1] - before < 1


async def test_many_are_taken_up_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that cannot be asked for keeps none of the others."""
    loop = asyncio.get_running_loop()
    names = [OperationId(f"op{number}") for number in range(40)]
    asked: list[OperationId] = []
    places: list[int] = []

    async def take(_: Carrying, name: OperationId, *, after: int) -> bool:
        asked.append(name)
        places.append(after)
        await asyncio.sleep(1)
        if name in broken:
            raise StoreUnavailable("Redis does not answer")
        return name != "op7"  # which another process has

    async with backstage() as stage:
        monkeypatch.setattr(Carrying, "_adopt", take)
        monkeypatch.setattr(stage.store, "open_names", lambda: asyncio.sleep(0, names))
        broken: set[str] = set()
        before = loop.time()
        assert await stage.startups.adopt() == 39
        assert loop.time() - before < 5
        assert places == sorted(places)
        assert places[-1] > 16
        broken, asked = {"op3"}, []
        with pytest.raises(StoreUnavailable):
            await stage.startups.adopt()
        assert asked == names


async def test_after_many_others_a_startup_is_followed_at_once_and_asks_its_engine_later() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: stage.host.orders)
        await stage.crash()
        asked = stage.probe.checks
        assert await stage.startups._adopt(running.operation.operation, after=90)
        await asyncio.sleep(0.5)
        assert (stage.host.following, stage.probe.checks) == (1, asked)
        await asyncio.sleep(0.6)
        assert stage.probe.checks == asked + 1


async def test_what_was_left_in_order_is_taken_up_without_a_word() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: stage.host.orders)
        await asyncio.sleep(6)
        await stage.startups.hand_over()
        assert stage.startups.running == {}
        assert stage.startups.owned == set()
        await stage.crash()
        before = stage.store.texts()
        assert await stage.startups.adopt() == 1
        await asyncio.sleep(6)
        assert stage.store.texts() == before
        stage.probe.answer = UP
        assert (await stage.closed(running)).verdict == "healthy"
    assert len(stage.host.orders) == 1


async def test_an_answer_that_came_at_the_last_moment_is_taken_along() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: stage.host.orders)  # and its answer is still to come
        await stage.startups.hand_over()
        assert '"sent":"accepted"' in stage.saved(running).state
        await stage.crash()
        await stage.startups.adopt()
        await asyncio.sleep(5)
        assert not any("no answer came back" in text for text in stage.store.texts())


async def test_a_process_on_its_way_out_neither_begins_nor_adopts() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        await stage.begin()
        await stage.startups.hand_over()
        assert await stage.startups.adopt() == 0
        assert stage.startups.running == {}


async def test_a_service_of_another_configuration_is_left_to_others_and_logged_once() -> None:
    async with backstage() as stage:
        stage.store.operations["op1"] = make_operation(service=ServiceName("gone"))
        with capture_logs() as logs:
            for _ in range(3):
                assert await stage.startups.adopt() == 0
        assert [entry["event"] for entry in logs] == ["service_not_configured"]
        assert stage.store.leases.held == {}
        assert stage.store.operations["op1"].closed is None


async def test_what_another_process_took_ends_without_a_word() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        identity = running.operation.operation
        await stage.until(lambda: stage.host.orders and stage.host.follows)
        await asyncio.sleep(10)
        stage.store.leases.steal(identity)
        before, saved = dict(stage.store.queued), stage.saved(running)
        lease = running.ledger.lease
        stage.store.leases.tell_lost(replace(lease, number=lease.number - 1))  # of an earlier time
        await asyncio.sleep(0.5)
        stage.store.leases.tell_lost(lease)
        await asyncio.sleep(30)
        assert (stage.startups.running, stage.startups.owned) == ({}, set())
        assert (stage.store.queued, stage.saved(running)) == (before, saved)
        assert stage.host.following == 0


async def test_a_fault_of_our_own_in_what_another_process_took_is_its_affair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: stage.host.orders)
        await asyncio.sleep(10)
        stage.store.leases.steal(running.operation.operation)
        before = dict(stage.store.queued)

        def break_down(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(Startup, "handle", break_down)
        await stage.until(lambda: not stage.startups.owned)
        assert stage.store.queued == before
        assert stage.saved(running).closed is None


async def test_what_cannot_even_be_given_up_is_tried_again_later_and_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def break_down(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    with capture_logs() as logs:
        async with backstage() as stage:
            stage.probe.answer = CLOSED
            running = await stage.begin(Verb.WATCH)
            stage.adopts = True
            finish = stage.store.finish
            monkeypatch.setattr(stage.store, "finish", break_down)
            monkeypatch.setattr(Startup, "handle", break_down)
            await asyncio.sleep(1800)
            told = [entry for entry in logs if entry["event"] == "operation_put_off"]
            put_off = [entry["seconds"] for entry in told]
            assert [entry["exc_info"] is None for entry in told] == [False, *[True] * (len(told) - 1)]
            assert stage.ground.tallies.put_off == {"startup": len(told)}
            assert stage.saved(running).closed is None
            monkeypatch.setattr(stage.store, "finish", finish)
            operation = running.operation.operation
            await stage.until(lambda: stage.store.operations[operation].closed)
            await stage.until(lambda: not stage.startups.owned)
            assert stage.store.leases.held == {}
            await asyncio.sleep(600)
            assert len(stage.startups._put_off) == 0
    assert put_off[:8] == [4, 8, 16, 32, 64, 128, 256, 300]
    assert set(put_off[8:]) == {300}
    assert len(put_off) < 14
    assert stage.store.holders == {}


async def test_one_that_breaks_as_it_is_adopted_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def break_down(ground: Ground, name: OperationId, lease: Lease) -> Running | None:
        if name == "op1":
            raise ZeroDivisionError
        return await adopt(ground, name, lease)

    async with backstage() as stage:
        stage.probe.answer = CLOSED
        stage.store.operations["op1"] = make_operation()
        running = await stage.begin(Verb.WATCH)
        await stage.crash()
        monkeypatch.setattr("bot.carrying.adopt", break_down)
        with capture_logs() as logs:
            assert await stage.startups.adopt() == 1
            assert await stage.startups.adopt() == 0
        assert [entry["event"] for entry in logs].count("operation_put_off") == 1
        assert running.operation.operation in stage.startups.running


async def test_what_does_not_come_to_an_end_is_not_waited_for() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        await stage.begin()
        await stage.until(lambda: stage.host.orders)
        await asyncio.sleep(10)
        stage.store.away = True
        began = asyncio.get_running_loop().time()
        with capture_logs() as logs:
            await stage.startups.hand_over()
        assert asyncio.get_running_loop().time() - began < 5
        assert "operation_not_left_in_order" in [entry["event"] for entry in logs]


async def test_nothing_is_begun_while_it_is_barred() -> None:
    async with backstage() as stage:
        startups = stage.startups
        assert await startups.refusal() == ""
        startups.bar("not now")
        assert await startups.refusal() == "not now"
        soon = asyncio.create_task(startups.refusal())
        await asyncio.sleep(0.5)
        startups.unbar()
        assert await soon == ""

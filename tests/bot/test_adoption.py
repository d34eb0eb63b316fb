"""Operations without an owner: what is gone on with, what is settled, and what is said of it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from bot.adoption import NOT_BEGUN, NOT_RESTORED, restore, view_of
from bot.core.events import OperationId, ServiceName, UserId, Verb
from bot.startups import Startups
from tests.support.carriers import CLOSED, MEMBER, SERVICE, backstage

pytestmark = pytest.mark.looptime


async def test_how_long_nobody_had_it_is_told_once() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: stage.host.orders)
        await asyncio.sleep(6)
        await stage.crash()
        await asyncio.sleep(42)
        await stage.startups.adopt()
        await stage.until(lambda: any("resumed" in text for text in stage.store.texts()))
        [told] = [text for text in stage.store.texts() if "resumed" in text]
        assert "42s" in told
        assert stage.saved(running).closed is None


async def test_how_long_nobody_had_it_is_told_by_who_can_go_on_with_it() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        await stage.begin()
        await stage.until(lambda: stage.host.orders)
        await asyncio.sleep(6)
        await stage.crash()
        await asyncio.sleep(30)
        fewer = stage.ground.configuration.model_copy(update={"services": {}})
        other = Startups(replace(stage.ground, configuration=fewer))  # of a process not configured anew yet
        for _ in range(6):
            assert await other.adopt() == 0
            await asyncio.sleep(2)
        await stage.startups.adopt()
        await stage.until(lambda: any("resumed" in text for text in stage.store.texts()))
        assert ["42s" in text for text in stage.store.texts() if "resumed" in text] == [True]


async def test_a_record_that_was_set_aside_is_told_where_its_thread_stands() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin(Verb.WATCH)
        identity = running.operation.operation
        await stage.crash()
        names = await stage.store.open_names()
        record = stage.store.operations.pop(identity)

        async def still_named() -> list[OperationId]:
            return names

        stage.store.open_names = still_named  # type: ignore[method-assign]
        with capture_logs() as logs:
            assert await stage.startups.adopt() == 0
            assert await stage.startups.adopt() == 0
        assert stage.store.texts() == [NOT_RESTORED]
        assert stage.store.queued[f"{identity}:notice"].channel == record.channel
        assert "operation_without_record" in [entry["event"] for entry in logs]
        assert stage.startups.owned == set()


async def test_a_record_whose_state_knows_no_member_of_its_plan_holds_nobody_up() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin(Verb.WATCH)
        identity = running.operation.operation
        await stage.crash()
        record = stage.store.operations[identity]
        state = json.loads(record.state) | {"members": {}}
        stage.store.operations[identity] = record.model_copy(update={"state": json.dumps(state)})
        with capture_logs() as logs:
            assert await stage.startups.adopt() == 0
        assert NOT_RESTORED in stage.store.texts()
        assert stage.saved(running).closed is not None
        assert "service_not_configured" not in [entry["event"] for entry in logs]


async def test_what_never_came_to_be_has_no_thread_to_tell_it_in() -> None:
    async with backstage() as stage:

        async def named() -> list[OperationId]:
            return [OperationId("op9")]

        stage.store.open_names = named  # type: ignore[method-assign]
        assert await stage.startups.adopt() == 0
        assert stage.store.queued == {}


async def test_the_root_of_what_is_not_gone_on_with_shows_the_end() -> None:
    async with backstage() as stage:
        stage.outbox.away = True
        await stage.begin()
        await asyncio.sleep(1)
        await stage.crash()
        await asyncio.sleep(600)
        await stage.startups.adopt()
        assert stage.store.texts() == [NOT_BEGUN]
        shown = stage.store.edits[-1]
        assert "no longer watched" in shown.text
        assert shown.tags["state"] == "closed"
        root = next(each for each in stage.store.queued.values() if each.kind == "root")
        assert [block["type"] for block in shown.blocks] == [block["type"] for block in root.blocks]


async def test_the_present_of_another_process_s_operation_is_that_of_its_record() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: stage.host.orders)
        await asyncio.sleep(60)
        record, now = stage.saved(running), stage.clock.now()
        view = view_of(stage.ground, record)
        assert view is not None
        own = running.startup.view(now)
        assert (view.operation, view.phase, view.began) == (own.operation, own.phase, own.began)
        assert view.elapsed >= timedelta(seconds=60)
        assert view_of(stage.ground, record.model_copy(update={"state": "{"})) is None
        assert view_of(stage.ground, record.model_copy(update={"service": ServiceName("gone")})) is None
        assert view_of(stage.ground, record.model_copy(update={"closed": now})) is None


async def test_status_knows_what_another_process_does() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: stage.host.orders)
        stage.startups.running.clear()  # as seen by a process that does not carry it out
        status = await stage.startups.status(SERVICE)
        assert status.startup is not None
        assert status.startup.operation == running.operation.operation


async def test_a_member_out_of_sight_stays_so_until_it_is_seen() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await running.ledger.saved()
        running.startup.state.members[MEMBER].lost = "no route"
        running.ledger.note()
        await running.ledger.saved()
        again = restore(stage.ground, stage.saved(running), lease=running.ledger.lease)
        assert again.orders.links[MEMBER].lost
        with pytest.raises(ValueError, match="configured no more"):
            restore(
                stage.ground,
                stage.saved(running).model_copy(
                    update={"plan": stage.saved(running).plan.replace(MEMBER, "llm-two/other.service")}
                ),
                lease=running.ledger.lease,
            )
        assert await stage.startups.unwatch(SERVICE, UserId("U9"))

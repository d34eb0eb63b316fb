"""Files of a thread: owed from the order on until they are queued, by whichever process has the operation."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bot.core.actions import Pace, UploadStacks, UploadTail
from bot.core.events import Rank, UserId
from bot.uploads import OWED
from tests.support.carriers import CLOSED, MEMBER, SERVICE, Backstage, backstage, configured

if TYPE_CHECKING:
    from bot.running import Running

pytestmark = pytest.mark.looptime
BEGIN = "[2026-05-29 23:49:47 TP0] Load weight begin. avail mem=78.50 GB"


async def stalled(stage: Backstage) -> Running:
    """The stall is told, and its log is on its way for as long as the host hangs over it."""
    stage.probe.answer = CLOSED
    stage.host.log = None
    running = await stage.begin()
    await stage.until(lambda: stage.host.orders and stage.host.follows)
    stage.host.say(1, BEGIN)
    await stage.until(lambda: running.startup.view(stage.clock.now()).pace is Pace.STALLED)
    await running.ledger.saved()
    return running


def test_what_is_owed_is_read_back_as_it_was() -> None:
    owed = (UploadTail(3, "The whole log."), UploadStacks(4, {MEMBER: {Rank("TP0"): 4711}}))
    assert OWED.validate_json(OWED.dump_json(owed)) == owed


async def test_it_is_owed_until_it_is_queued() -> None:
    async with backstage(configured(patience={"weights": "60s"})) as stage:
        running = await stalled(stage)
        [order] = OWED.validate_json(stage.saved(running).owed)
        assert isinstance(order, UploadTail)
        await stage.until(lambda: stage.store.texts("upload"))
        assert stage.saved(running).owed == ""


async def test_the_log_of_a_stall_whose_process_died_is_fetched_by_the_next() -> None:
    async with backstage(configured(patience={"weights": "60s"})) as stage:
        running = await stalled(stage)
        await stage.crash()
        assert stage.store.texts("upload") == []
        stage.host.log = b""
        await stage.startups.adopt()
        await stage.until(lambda: stage.store.texts("upload"))
        await asyncio.sleep(60)
        assert len(stage.store.texts("upload")) == 1
        assert stage.saved(running).owed == ""
        assert stage.saved(running).closed is None


async def test_an_operation_that_is_over_still_owes_it() -> None:
    async with backstage(configured(patience={"weights": "60s"})) as stage:
        running = await stalled(stage)
        assert await stage.startups.unwatch(SERVICE, UserId("U9"))
        operation = await stage.closed(running)
        assert operation.closed is not None
        assert (stage.store.holders, stage.store.texts("upload")) == ({}, [])
        await stage.crash()
        stage.host.log = b""
        stage.host.follows.clear()
        assert await stage.startups.adopt() == 1
        await stage.until(lambda: stage.store.texts("upload"))
        await stage.until(lambda: not stage.startups.owned)
        after = stage.saved(running)
        assert after == operation.model_copy(update={"owed": "", "state": after.state})
        assert stage.host.follows == []
        assert await stage.store.open_names() == []


async def test_one_that_breaks_is_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async with backstage(configured(patience={"weights": "60s"})) as stage:
        running = await stalled(stage)

        async def break_down(*_: object, **__: object) -> None:
            raise ZeroDivisionError

        await stage.crash()
        monkeypatch.setattr("bot.uploads.read_start", break_down)
        await stage.startups.adopt()
        operation = await stage.closed(stage.startups.running[running.operation.operation])
        assert operation.verdict == "unwatched"
        await stage.until(lambda: not stage.startups.owned)
        assert stage.saved(running).owed == ""
        assert await stage.startups.adopt() == 0


async def test_a_process_that_leaves_lets_the_next_one_fetch_it() -> None:
    async with backstage(configured(patience={"weights": "60s"})) as stage:
        running = await stalled(stage)
        began = asyncio.get_running_loop().time()
        await stage.startups.hand_over()
        assert asyncio.get_running_loop().time() - began < 4
        assert stage.startups.running == {}
        assert OWED.validate_json(stage.saved(running).owed) != ()
        stage.host.log = b""
        await stage.crash()
        await stage.startups.adopt()
        await stage.until(lambda: stage.store.texts("upload"))
        assert len(stage.store.texts("upload")) == 1


async def test_a_start_that_cannot_be_drawn_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_letter(*_: object, **__: object) -> None:
        return None

    monkeypatch.setattr("bot.uploads.waterfall_letter", no_letter)
    async with backstage() as stage:
        operation = await stage.closed(await stage.begin())
        assert operation.verdict == "healthy"
        assert stage.store.texts("upload") == []


async def test_stacks_come_from_the_hosts_that_give_any() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        stage.host.stacks = {4711: "main"}
        order = UploadStacks(7, {MEMBER: {Rank("TP0"): 4711}})
        await running.uploads.fetch(order)
        await running.uploads.fetch(replace(order, sequence=8, processes={MEMBER: {Rank("TP0"): 1}}))
        await running.ledger.saved()
        assert [name.rpartition(":")[2] for name in stage.store.files] == ["7"]


async def test_a_file_that_redis_has_lost_is_had_once_more() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        stage.host.stacks = {4711: "main"}
        await running.uploads.fetch(UploadStacks(7, {MEMBER: {Rank("TP0"): 4711}}))
        await running.ledger.saved()
        [content] = stage.store.files.values()
        [message] = [each for each in running.ledger.known.values() if each.kind == "upload"]
        assert await running.uploads.anew(message) == content
        assert await running.uploads.anew(message.model_copy(update={"id": "of another process"})) is None

"""What a crash, or a fault of our own, leaves behind: taken up, undone, let go; never done twice."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from bot.adoption import NOT_BEGUN
from bot.baselines import USUAL
from bot.core.events import ServiceName, Verb
from bot.core.journal import Position
from bot.core.startup import Startup
from bot.errors import HostUnreachable, StoreUnavailable
from bot.startups import Startups
from tests.support.carriers import (
    CLOSED,
    DEAD,
    MEMBER,
    NEW,
    OLD,
    RUNNING,
    SERVICE,
    UNIT,
    UP,
    ask,
    backstage,
    configured,
)
from tests.support.journal_entries import make_entry, write_entries
from tests.support.outgoing import operation as make_operation

pytestmark = pytest.mark.looptime
GONE = HostUnreachable("llm-two", "llm-two: no connection: refused")


async def test_a_lock_that_redis_would_not_give_back_is_given_back_later() -> None:
    async with backstage() as stage:
        stage.store.failing = ["save"]
        with pytest.raises(StoreUnavailable):
            await stage.startups.request(ask(confirmed=True))
        stage.store.away = True
        await asyncio.sleep(60)
        stage.store.away = False
        assert stage.store.holders != {}
        await stage.until(lambda: stage.store.holders == {})


async def test_a_lock_that_redis_gave_without_saying_so_is_given_back() -> None:
    async with backstage() as stage:
        stage.store.deaf = ["take"]
        with pytest.raises(StoreUnavailable):
            await stage.startups.request(ask(confirmed=True))
        assert stage.store.holders != {}
        await stage.until(lambda: stage.store.holders == {})


async def test_a_baseline_of_another_shape_keeps_nobody_from_starting() -> None:
    async with backstage() as stage:
        stage.store.baselines[SERVICE] = '{"samples": 7}'
        operation = await stage.closed(await stage.begin())
    assert operation.verdict == "healthy"
    assert (SERVICE, "baseline") in [(service, kind) for service, kind, _ in stage.store.given_up]
    assert USUAL.validate_json(stage.store.baselines[SERVICE]).whole is not None


async def test_a_record_that_redis_took_without_saying_so_is_closed_and_never_begun() -> None:
    async with backstage() as stage:
        stage.store.deaf = ["save"]
        with pytest.raises(StoreUnavailable):
            await stage.startups.request(ask(confirmed=True))
        await stage.until(lambda: stage.store.holders == {})
        [operation] = stage.store.operations.values()
        assert operation.verdict == "unwatched"
        assert stage.store.texts() == [NOT_BEGUN]
        assert await stage.startups.adopt() == 0
    assert stage.host.orders == []


# ---- after a crash ------------------------------------------------------------------------------------


async def test_an_open_operation_is_taken_up_where_it_stood_and_the_verb_is_not_repeated() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: stage.host.follows)
        stage.host.say(1, "[2026-05-29 23:49:47 TP0] Load weight begin. avail mem=78.50 GB")
        await stage.until(lambda: MEMBER in stage.saved(running).positions)
        await asyncio.sleep(6)
        await stage.crash()
        assert stage.saved(running).closed is None
        stage.host.follows.clear()
        assert await stage.startups.adopt() == 1
        assert await stage.startups.adopt() == 0
        again = stage.startups.running[running.operation.operation]
        await stage.until(lambda: stage.host.follows)
        [(position, _)] = stage.host.follows
        assert position is not None
        assert "i=1;" in str(position.cursor)
        stage.probe.answer = UP
        stage.host.say(2, "[2026-05-29 23:50:47] The server is fired up and ready to roll!")
        assert (await stage.closed(again)).verdict == "healthy"
    assert len(stage.host.orders) == 1
    assert stage.diary.count("queued root") == 1
    assert len(stage.store.texts()) == len(set(stage.store.texts()))


async def test_an_answer_that_the_crash_swallowed_is_not_asked_for_by_a_second_order() -> None:
    async with backstage() as stage:
        running = await stage.begin()
        await stage.until(lambda: stage.host.orders)
        await stage.crash()
        await stage.startups.adopt()
        stage.host.units[UNIT] = replace(RUNNING, invocation=NEW)
        again = stage.startups.running[running.operation.operation]
        assert (await stage.closed(again)).verdict == "healthy"
    assert len(stage.host.orders) == 1
    assert not any("went out" in text for text in stage.store.texts())


async def test_a_verb_that_was_written_down_and_never_ordered_is_ordered_now() -> None:
    async with backstage() as stage:
        stage.outbox.away = True
        running = await stage.begin()
        await asyncio.sleep(1)
        await stage.crash()
        assert stage.host.orders == []
        stage.outbox.away = False
        stage.outbox.wake()
        await stage.startups.adopt()
        again = stage.startups.running[running.operation.operation]
        assert (await stage.closed(again)).verdict == "healthy"
    assert len(stage.host.orders) == 1


@pytest.mark.parametrize("loss", ["time", "lock"])
async def test_a_verb_that_nobody_expects_any_more_is_not_ordered(loss: str) -> None:
    async with backstage() as stage:
        stage.outbox.away = True
        running = await stage.begin()
        await asyncio.sleep(1)
        await stage.crash()
        if loss == "time":
            await asyncio.sleep(600)
        else:
            stage.store.holders.clear()
        assert await stage.startups.adopt() == 0
        assert stage.saved(running).verdict == "unwatched"
        assert stage.store.texts() == [NOT_BEGUN]
        assert stage.store.holders == {}
    assert stage.host.orders == []


async def test_a_watch_is_taken_up_however_long_the_process_was_away() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin(Verb.WATCH)
        await asyncio.sleep(6)
        await stage.crash()
        await asyncio.sleep(1800)
        assert await stage.startups.adopt() == 1
        stage.probe.answer = UP
        assert (await stage.closed(running)).verdict == "healthy"
    assert stage.host.orders == []


async def test_a_watch_whose_process_died_before_it_read_a_line_reads_them_all() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin(Verb.WATCH)
        record = running.ledger.record  # as it was written down at first
        await stage.until(lambda: stage.host.follows)
        await stage.crash()
        stage.store.operations[record.operation] = record
        assert await stage.startups.adopt() == 1
        await stage.until(lambda: len(stage.host.follows) == 2)
    assert stage.host.follows == [(None, OLD)] * 2


async def test_a_watch_whose_host_booted_anew_meanwhile_reads_the_start_that_comes() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin(Verb.WATCH)
        await asyncio.sleep(6)
        assert not running.operation.positions, "no line yet"
        await stage.crash()
        stage.host.boot = "another-boot"
        assert await stage.startups.adopt() == 1
        await stage.until(lambda: len(stage.host.follows) == 2)
    assert stage.host.follows == [(None, OLD), (Position(None), None)]


async def test_a_watch_that_died_amid_its_smoke_test_asks_for_it_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with backstage() as stage:
        monkeypatch.setattr(stage.probe, "smoke", asyncio.Event().wait)
        running = await stage.begin(Verb.WATCH)
        await stage.until(lambda: running.startup.state.proof.smoke_asked)
        await asyncio.sleep(1)
        await stage.crash()
        monkeypatch.undo()
        await stage.startups.adopt()
        assert (await stage.closed(running)).verdict == "healthy"
    assert stage.probe.smokes == 1


async def test_a_host_that_was_out_of_sight_at_the_crash_can_be_seen_again() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: stage.host.orders and stage.host.follows)
        await asyncio.sleep(6)
        stage.host.show_error = GONE
        await stage.until(lambda: running.startup.state.members[MEMBER].lost)
        await asyncio.sleep(6)
        await stage.crash()
        stage.host.show_error = None
        stage.probe.answer = UP
        await stage.startups.adopt()
        assert (await stage.closed(running)).verdict == "healthy"


async def test_an_operation_whose_members_are_configured_no_more_is_closed_and_told() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await asyncio.sleep(2)
        await stage.crash()
        moved = configured(host=None, unit=None, members=[{"host": "llm-two", "unit": "moved.service"}])
        stage.startups = Startups(replace(stage.ground, configuration=moved))
        assert await stage.startups.adopt() == 0
        assert stage.saved(running).verdict == "unwatched"
        assert stage.store.texts()[-1].startswith("kimi cannot go on from its own record")
        assert stage.store.holders == {}


async def test_a_crash_between_the_verdict_and_its_last_steps_loses_none_of_them() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        stage.host.log = write_entries(make_entry(1, "first", _SYSTEMD_INVOCATION_ID=NEW))
        running = await stage.begin()
        await stage.until(lambda: stage.host.orders)
        stage.host.say(1, "first")
        await asyncio.sleep(6)
        stage.host.log = None  # the tail does not come before the crash
        stage.host.units[UNIT] = replace(DEAD, active="failed", result="signal", invocation=NEW)
        await stage.until(lambda: running.startup.verdict)
        await stage.crash()
        assert stage.saved(running).closed is None
        assert stage.store.texts("upload") == []
        stage.host.log = write_entries(make_entry(1, "first", _SYSTEMD_INVOCATION_ID=NEW))
        await stage.startups.adopt()
        operation = await stage.closed(running)
    assert operation.verdict == "failed"
    tail, picture = stage.store.texts("upload")
    assert "whole log" in tail
    assert picture.startswith("Where the time went")
    assert sum("failed" in text for text in stage.store.texts()) == 1
    assert stage.store.holders == {}


async def test_a_lock_that_an_open_operation_holds_stays() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.startups.adopt()
        assert stage.store.holders[SERVICE].operation == running.operation.operation


async def test_an_operation_of_a_service_that_is_configured_no_more_is_left_and_told() -> None:
    async with backstage() as stage:
        stage.store.operations["op1"] = make_operation(service=ServiceName("gone"))
        with capture_logs() as logs:
            await stage.startups.adopt()
        assert stage.startups.running == {}
    assert [entry["event"] for entry in logs] == ["service_not_configured"]


async def test_one_record_that_cannot_be_read_does_not_keep_the_bot_from_starting() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await asyncio.sleep(2)
        await stage.crash()
        broken = make_operation("broken", plan=json.dumps({"of": "another shape"}))
        stage.store.operations = {"broken": broken} | stage.store.operations
        with capture_logs() as logs:
            await stage.startups.adopt()
        assert list(stage.startups.running) == [running.operation.operation]
        assert stage.store.operations["broken"].verdict == "unwatched"
        assert stage.store.queued["broken:notice"].text
    assert "operation_not_restored" in [entry["event"] for entry in logs]


# ---- faults of our own --------------------------------------------------------------------------------


async def test_a_fault_of_our_own_is_told_and_lets_the_service_go(monkeypatch: pytest.MonkeyPatch) -> None:
    async with backstage() as stage:
        running = await stage.begin()

        def break_down(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(Startup, "handle", break_down)
        with capture_logs() as logs:
            operation = await stage.closed(running)
    assert operation.verdict == "unwatched"
    assert stage.store.holders == {}
    assert stage.store.queued[f"{operation.operation}:notice"].text.startswith("Something broke inside kimi")
    assert len(stage.host.orders) == 1
    shown = stage.store.edits[-1]
    assert "no longer watched" in shown.text
    assert shown.tags["state"] == "closed"
    broke = next(entry for entry in logs if entry["event"] == "startup_broke")
    assert broke["operation"] == operation.operation

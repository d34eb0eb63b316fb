"""All operations of a process: begun once, taken up after a crash, answered for."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from bot.core.actions import Pace
from bot.core.events import ChannelId, MessageTs, OperationId, ServiceName, UserId, Verb
from bot.core.journal import Position
from bot.core.request import Busy, Declined, NeedsConfirmation, Standing, Started
from bot.core.startup import Startup
from bot.errors import HostUnreachable, PermissionRefused, StoreUnavailable
from bot.startups import NOT_BEGUN
from tests.support.carriers import (
    CLOSED,
    DEAD,
    MEMBER,
    NEW,
    OLD,
    RUNNING,
    SECRET,
    SERVICE,
    UNIT,
    UP,
    ask,
    backstage,
    configured,
)
from tests.support.configurations import ALICE, BOB, OPS
from tests.support.journal_entries import make_entry, write_entries
from tests.support.outgoing import holder
from tests.support.outgoing import operation as make_operation

pytestmark = pytest.mark.looptime
GONE = HostUnreachable("llm-two", "llm-two: no connection: refused")


# ---- what is begun, and what is not -------------------------------------------------------------------


async def test_the_verb_is_ordered_once_after_the_record_and_the_root_message() -> None:
    async with backstage() as stage:
        operation = await stage.closed(await stage.begin())
    assert operation.verdict == "healthy"
    assert stage.host.orders == [(Verb.RESTART, UNIT, "system")]
    first = stage.diary.index("ordered restart")
    assert stage.diary[:first] == ["queued root", "saved", "posted root", "saved"]
    assert stage.store.holders == {}


async def test_the_root_message_goes_to_the_channel_of_the_service() -> None:
    async with backstage(configured(channel="C0LAB")) as stage:
        running = await stage.begin()
    assert [m.channel for m in stage.store.queued.values() if m.kind == "root"] == ["C0LAB"]
    assert running.operation.channel == "C0LAB"
    assert running.operation.reason == "new parser"


async def test_a_slack_that_does_not_answer_delays_the_verb_and_no_more() -> None:
    async with backstage() as stage:
        stage.outbox.away = True
        with capture_logs() as logs:
            running = await stage.begin()
            await asyncio.sleep(4.5)
            assert stage.host.orders == []
            await asyncio.sleep(1)
        assert len(stage.host.orders) == 1
        assert (await stage.closed(running)).verdict == "healthy"
    assert "root_not_posted_yet" in [entry["event"] for entry in logs]


@pytest.mark.parametrize(
    ("verb", "unit", "word"),
    [
        (Verb.RESTART, replace(RUNNING, load="masked"), "unmask"),
        (Verb.RESTART, replace(DEAD, load="not-found"), "no such unit (not-found)"),
        (Verb.START, RUNNING, "runs already"),
        (Verb.STOP, DEAD, "nothing to stop"),
        (Verb.WATCH, DEAD, "`start kimi-k2.5` starts it"),
        (Verb.WATCH, replace(DEAD, active="failed"), "`start kimi-k2.5` starts it"),
    ],
)
async def test_what_makes_no_sense_is_declined_and_holds_nothing(verb: Verb, unit: Any, word: str) -> None:
    async with backstage() as stage:
        stage.host.units[UNIT] = unit
        answer = await stage.startups.request(ask(verb, confirmed=True))
    assert isinstance(answer, Declined)
    assert word in answer.sentence
    assert (stage.diary, stage.store.holders, stage.store.operations) == ([], {}, {})


async def test_an_unreachable_host_is_declined_with_its_own_words() -> None:
    async with backstage() as stage:
        stage.host.show_error = GONE
        assert await stage.startups.request(ask()) == Declined(str(GONE))
    assert stage.diary == []


async def test_without_the_right_to_sudo_an_order_is_declined_and_a_watch_is_not() -> None:
    async with backstage() as stage:
        refused = stage.host.sudo_error = PermissionRefused("llm-two", "llm-two: sudo says no")
        assert await stage.startups.request(ask(confirmed=True)) == Declined(str(refused))
        assert isinstance(await stage.startups.request(ask(Verb.WATCH)), Started)


@pytest.mark.parametrize("verb", [Verb.RESTART, Verb.STOP])
async def test_a_service_that_answers_is_taken_away_only_when_a_person_said_so(verb: Verb) -> None:
    async with backstage() as stage:
        answer = await stage.startups.request(ask(verb))
        assert answer == NeedsConfirmation("kimi-k2.5 answers requests at present.")
        assert stage.diary == []
        assert isinstance(await stage.startups.request(ask(verb, confirmed=True)), Started)


@pytest.mark.parametrize("slow", [False, True])
async def test_a_service_that_does_not_answer_is_restarted_without_a_question(slow: bool) -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        if slow:
            stage.probe.gate.clear()
        began = stage.clock.now()
        assert isinstance(await stage.startups.request(ask()), Started)
        assert stage.clock.now() - began < timedelta(seconds=5)


async def test_of_two_requests_at_the_same_moment_one_wins() -> None:
    async with backstage() as stage:
        requests = [ask(confirmed=True, by=UserId(name)) for name in (ALICE, BOB)]
        answers = await asyncio.gather(*(stage.startups.request(request) for request in requests))
        [started] = [answer for answer in answers if isinstance(answer, Started)]
        [busy] = [answer for answer in answers if isinstance(answer, Busy)]
        assert busy.held.operation == started.operation
        assert busy.held.by == ALICE
        assert len(stage.startups.running) == 1
        await stage.until(lambda: not stage.startups.running)
    assert len(stage.host.orders) == 1


async def test_who_comes_later_is_told_who_since_when_and_where() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await asyncio.sleep(60)
        answer = await stage.startups.request(ask(confirmed=True, by=UserId(BOB)))
        assert isinstance(answer, Busy)
        held = answer.held
        assert (held.operation, held.by, held.verb) == (running.operation.operation, ALICE, Verb.RESTART)
        assert timedelta(seconds=59) < held.age < timedelta(seconds=62)
        assert held.link == "https://s/p1700000000.000100"
        assert held.headline == running.operation.headline != ""
    assert len(stage.host.orders) == 1


@pytest.mark.parametrize("call", ["take", "save", "baseline", "operation"])
async def test_without_redis_nothing_is_begun_and_nothing_stays_held(call: str) -> None:
    async with backstage() as stage:
        if call == "operation":
            stage.store.holders[SERVICE] = holder()
        stage.store.failing = [call]
        with pytest.raises(StoreUnavailable):
            await stage.startups.request(ask(confirmed=True))
        if call == "operation":
            del stage.store.holders[SERVICE]
        await stage.until(lambda: stage.store.holders == {})
        assert (stage.host.orders, stage.startups.running) == ([], {})
        assert isinstance(await stage.startups.request(ask(confirmed=True)), Started)


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


async def test_a_record_that_redis_took_without_saying_so_is_closed_and_never_begun() -> None:
    async with backstage() as stage:
        stage.store.deaf = ["save"]
        with pytest.raises(StoreUnavailable):
            await stage.startups.request(ask(confirmed=True))
        await stage.until(lambda: stage.store.holders == {})
        [operation] = stage.store.operations.values()
        assert operation.verdict == "unwatched"
        assert stage.store.texts() == [NOT_BEGUN]
        assert await stage.startups.resume() == 0
    assert stage.host.orders == []


# ---- one after the other ------------------------------------------------------------------------------


async def test_a_yes_over_an_operation_takes_its_place() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        first = await stage.begin()
        await asyncio.sleep(30)
        answer = await stage.startups.request(
            ask(Verb.STOP, confirmed=True, over=first.operation.operation, by=UserId(BOB))
        )
        assert isinstance(answer, Started)
        assert stage.saved(first).verdict == "superseded"
        assert any(BOB in text for text in stage.store.texts())
        second = await stage.closed(stage.startups.running[answer.operation])
    assert second.verdict == "stopped"
    assert [verb for verb, *_ in stage.host.orders] == [Verb.RESTART, Verb.STOP]


async def test_a_yes_over_another_operation_than_the_one_that_has_it_is_none() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        first = await stage.begin()
        answer = await stage.startups.request(ask(confirmed=True, over=OperationId("yesterday's")))
        assert isinstance(answer, Busy)
        assert first.startup.verdict is None


async def test_an_operation_of_another_process_is_not_superseded_here() -> None:
    async with backstage() as stage:
        stage.store.holders[SERVICE] = holder("elsewhere")
        stage.store.operations["elsewhere"] = make_operation("elsewhere")
        answer = await stage.startups.request(ask(confirmed=True, over=OperationId("elsewhere")))
        assert isinstance(answer, Busy)
    assert stage.host.orders == []


async def test_an_operation_that_does_not_end_keeps_its_service() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        first = await stage.begin()
        await asyncio.sleep(5)
        stage.store.failing = ["finish"] * 1000
        began = stage.clock.now()

        async def hold() -> None:
            while True:  # Redis takes no end of it
                stage.store.failing = ["finish"]
                await asyncio.sleep(0.01)

        stage.tasks.spawn("hold", hold())
        answer = await stage.startups.request(ask(confirmed=True, over=first.operation.operation))
        assert isinstance(answer, Busy)
        assert timedelta(seconds=29) < stage.clock.now() - began < timedelta(seconds=32)
    assert len(stage.host.orders) == 1


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
        assert await stage.startups.resume() == 1
        assert await stage.startups.resume() == 0
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
        await stage.startups.resume()
        stage.host.units[UNIT] = replace(RUNNING, invocation=NEW)
        again = stage.startups.running[running.operation.operation]
        assert (await stage.closed(again)).verdict == "healthy"
    assert len(stage.host.orders) == 1
    assert any("kimi was restarted before the answer came" in text for text in stage.store.texts())


async def test_a_verb_that_was_written_down_and_never_ordered_is_ordered_now() -> None:
    async with backstage() as stage:
        stage.outbox.away = True
        running = await stage.begin()
        await asyncio.sleep(1)
        await stage.crash()
        assert stage.host.orders == []
        stage.outbox.away = False
        stage.outbox.wake()
        await stage.startups.resume()
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
        assert await stage.startups.resume() == 0
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
        assert await stage.startups.resume() == 1
        stage.probe.answer = UP
        assert (await stage.closed(running)).verdict == "healthy"
    assert stage.host.orders == []


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
        await stage.startups.resume()
        operation = await stage.closed(running)
    assert operation.verdict == "failed"
    assert len(stage.store.texts("upload")) == 1
    assert sum("failed" in text for text in stage.store.texts()) == 1
    assert stage.store.holders == {}


async def test_a_lock_that_nobody_holds_is_freed() -> None:
    async with backstage() as stage:
        stage.store.holders[SERVICE] = holder("dead")
        with capture_logs() as logs:
            assert await stage.startups.resume() == 0
        assert stage.store.holders == {}
    assert [entry["event"] for entry in logs] == ["orphaned_lock_released"]


async def test_a_lock_that_an_open_operation_holds_stays() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.startups.resume()
        assert stage.store.holders[SERVICE].operation == running.operation.operation


async def test_an_operation_of_a_service_that_is_configured_no_more_is_left_and_told() -> None:
    async with backstage() as stage:
        stage.store.operations["op1"] = make_operation(service=ServiceName("gone"))
        with capture_logs() as logs:
            await stage.startups.resume()
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
            await stage.startups.resume()
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
    broke = next(entry for entry in logs if entry["event"] == "startup_broke")
    assert broke["operation"] == operation.operation


# ---- what people ask of what runs ---------------------------------------------------------------------


async def test_unwatch_ends_the_watch_and_leaves_the_service_alone() -> None:
    async with backstage() as stage:
        assert not await stage.startups.unwatch(SERVICE, UserId(BOB))
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: stage.host.orders)
        assert await stage.startups.unwatch(SERVICE, UserId(BOB))
        operation = await stage.closed(running)
    assert operation.verdict == "unwatched"
    assert [verb for verb, *_ in stage.host.orders] == [Verb.RESTART]
    assert BOB in stage.store.texts()[-1]


async def test_keep_waiting_puts_a_stall_off() -> None:
    async with backstage(configured(patience={"process": "60s"})) as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        identity = running.operation.operation
        await stage.until(lambda: running.startup.view(stage.clock.now()).pace is Pace.STALLED)
        assert await stage.startups.keep_waiting(identity, UserId(BOB), timedelta(minutes=5))
        await asyncio.sleep(4 * 60)
        assert running.startup.view(stage.clock.now()).pace is not Pace.STALLED
        assert sum("stalled" in text for text in stage.store.texts()) == 1
        assert any(BOB in text for text in stage.store.texts())
        await stage.until(lambda: sum("stalled" in text for text in stage.store.texts()) == 2)
        assert not await stage.startups.keep_waiting(OperationId("other"), UserId(BOB), timedelta(1))


async def test_a_watch_orders_nothing_and_reads_the_start_from_its_beginning() -> None:
    async with backstage() as stage:
        running = await stage.begin(Verb.WATCH)
        assert (await stage.closed(running)).verdict == "healthy"
    assert stage.host.orders == []
    assert stage.host.follows[0] == (None, OLD)


async def test_a_restart_reads_on_from_where_the_journal_ended() -> None:
    async with backstage() as stage:
        await stage.begin()
        await stage.until(lambda: stage.host.follows)
    position, invocation = stage.host.follows[0]
    assert isinstance(position, Position)
    assert (position.cursor, invocation) == ("end", None)


async def test_status_tells_what_is_seen_and_what_runs() -> None:
    async with backstage() as stage:
        assert (await stage.startups.status(SERVICE)).standing is Standing.SERVING
        stage.probe.answer = CLOSED
        running = await stage.begin()
        view = await stage.startups.status(SERVICE)
        assert view.standing is Standing.STARTING
        assert view.startup is not None
        assert view.held is not None
        assert view.held.operation == view.startup.operation == running.operation.operation


async def test_logs_come_masked_as_a_file_into_the_thread_they_were_asked_in() -> None:
    async with backstage() as stage:
        stage.host.log = write_entries(make_entry(1, f"key={SECRET}"), make_entry(2, "loading"))
        refusal = await stage.startups.logs(
            SERVICE, by=UserId(BOB), channel=ChannelId(OPS), thread_ts=MessageTs("17.1"), lines=200
        )
        assert refusal is None
        [letter] = stage.store.queued.values()
        assert (letter.kind, letter.channel, letter.thread_ts) == ("upload", OPS, "17.1")
        assert letter.file is not None
        assert (letter.file.name, letter.file.lines, letter.file.masked) == ("kimi-k2.5-llm-two.log", 2, 1)
        assert f"<@{BOB}>" in letter.text
        content = stage.store.files[letter.id]
        assert SECRET.encode() not in content
        assert b"loading" in content
    assert stage.host.reads[0]["lines"] == 200


async def test_logs_of_a_host_that_refuses_are_its_words() -> None:
    async with backstage() as stage:
        stage.host.read_error = GONE
        logs = partial(stage.startups.logs, SERVICE, by=UserId(BOB), channel=ChannelId(OPS), thread_ts=None)
        assert await logs() == str(GONE)
        stage.host.read_error, stage.host.log = None, None
        told = await logs(since=timedelta(days=30))
        assert told is not None
        assert "not handed over within 60 s" in told
    assert stage.store.queued == {}

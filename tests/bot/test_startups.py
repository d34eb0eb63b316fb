"""All operations of a process: begun once, taken up after a crash, answered for."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from bot.core.actions import Pace
from bot.core.events import ChannelId, OperationId, UserId, Verb
from bot.core.journal import Position
from bot.core.request import Busy, Declined, NeedsConfirmation, Standing, Started, operation_of
from bot.errors import HostUnreachable, Leaving, PermissionRefused, StoreUnavailable
from tests.support.carriers import (
    CLOSED,
    DEAD,
    MEMBER,
    NEW,
    OLD,
    RUNNING,
    SERVICE,
    UNIT,
    ask,
    backstage,
    configured,
)
from tests.support.configurations import ALICE, BOB, OPS
from tests.support.outgoing import holder
from tests.support.outgoing import operation as make_operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.clients.records import Holder

pytestmark = pytest.mark.looptime
GONE = HostUnreachable("llm-two", "llm-two: no connection: refused")


# ---- what is begun, and what is not -------------------------------------------------------------------


async def test_the_verb_is_ordered_once_after_the_record_and_the_root_message() -> None:
    async with backstage() as stage:
        operation = await stage.closed(await stage.begin())
    assert operation.verdict == "healthy"
    assert stage.host.orders == [(Verb.RESTART, UNIT, "system")]
    first = stage.diary.index("ordered restart")
    assert stage.diary[:3] == ["queued root", "saved", "posted root"]
    assert set(stage.diary[3:first]) == {"saved"}
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


async def test_a_watch_of_what_has_long_served_begins_nothing_and_a_start_that_was_noticed_is_followed() -> (
    None
):
    async with backstage() as stage:
        since = stage.clock.now() - timedelta(hours=5)
        stage.host.units[UNIT] = replace(RUNNING, active_since=since)
        answer = await stage.startups.request(ask(Verb.WATCH, confirmed=True))
        assert isinstance(answer, Declined)
        assert "Nothing is starting" in answer.sentence
        assert (stage.diary, stage.store.holders, stage.store.operations) == ([], {}, {})
        assert await stage.startups.follow(SERVICE, NEW) is not None


async def test_an_unreachable_host_is_declined_with_its_own_words() -> None:
    async with backstage() as stage:
        stage.host.show_error = GONE
        told = f"No restart of {SERVICE} was begun. {GONE}"
        assert await stage.startups.request(ask()) == Declined(told)
    assert stage.diary == []


@pytest.mark.parametrize("gone", [False, True])
async def test_who_asks_a_silent_host_hears_so_early_and_the_verb_goes_out_at_most_once(gone: bool) -> None:
    async with backstage() as stage:
        stage.host.gate.clear()
        told: list[tuple[tuple[str, ...], float]] = []

        async def slow(hosts: Sequence[str], seconds: float) -> None:
            told.append((tuple(hosts), seconds))

        request = ask(confirmed=True, token="t1")
        asked = [asyncio.create_task(stage.startups.request(request, slow=slow)) for _ in range(2)]
        began = asyncio.get_running_loop().time()
        await stage.until(lambda: len(told) == 2)
        assert asyncio.get_running_loop().time() - began < 4.5
        assert (stage.diary, stage.store.holders) == ([], {})  # told, and nothing begun because of it
        await asyncio.sleep(10)
        stage.host.show_error = GONE if gone else None
        stage.host.gate.set()
        answers = await asyncio.gather(*asked)
        assert told == [(("llm-two",), 4.0)] * 2
        if gone:
            assert answers == [Declined(f"No restart of {SERVICE} was begun. {GONE}")] * 2
            assert stage.host.orders == []
            return
        assert answers == [Started(operation_of("t1"))] * 2
        await stage.until(lambda: not stage.store.holders)
        assert stage.host.orders == [(Verb.RESTART, UNIT, "system")]


async def test_without_the_right_to_sudo_an_order_is_declined_and_a_watch_is_not() -> None:
    async with backstage() as stage:
        refused = stage.host.sudo_error = PermissionRefused("llm-two", "llm-two: sudo says no")
        told = f"No restart of {SERVICE} was begun. {refused}"
        assert await stage.startups.request(ask(confirmed=True)) == Declined(told)
        assert isinstance(await stage.startups.request(ask(Verb.WATCH)), Started)


@pytest.mark.parametrize("verb", [Verb.RESTART, Verb.STOP])
async def test_a_service_that_answers_is_taken_away_only_when_a_person_said_so(verb: Verb) -> None:
    async with backstage() as stage:
        answer = await stage.startups.request(ask(verb))
        assert answer == NeedsConfirmation("It answers requests at present.")
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


async def test_the_units_are_looked_at_anew_once_the_operation_before_has_ended() -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        first = await stage.begin()
        await stage.until(lambda: stage.host.orders)  # its answer is still to come
        answer = await stage.startups.request(
            ask(Verb.STOP, confirmed=True, over=first.operation.operation, by=UserId(BOB))
        )
        assert isinstance(answer, Started)
        second = stage.startups.running[answer.operation]
        assert second.startup.plan.before == {MEMBER: NEW}
        assert (await stage.closed(second)).verdict == "stopped"


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


# ---- one thing asked, however often ------------------------------------------------------------------


async def test_the_same_request_heard_again_is_the_same_operation() -> None:
    async with backstage() as stage:
        request = ask(confirmed=True, token="Ev1")
        answers = await asyncio.gather(*(stage.startups.request(request) for _ in range(3)))
        [operation] = {answer.operation for answer in answers if isinstance(answer, Started)}
        assert len(answers) == 3
        await stage.closed(stage.startups.running[operation])
        assert await stage.startups.request(request) == Started(operation)
    assert len(stage.host.orders) == 1


async def test_a_request_whose_process_died_with_the_lock_alone_goes_on_in_the_next() -> None:
    async with backstage() as stage:
        identity = operation_of("Ev1")
        assert await stage.store.leases.claim(identity) is not None
        assert await stage.store.take(holder(identity)) is None
        await stage.crash()
        answer = await stage.startups.request(ask(confirmed=True, token="Ev1"))
        assert answer == Started(identity)
        assert (await stage.closed(stage.startups.running[identity])).verdict == "healthy"
    assert len(stage.host.orders) == 1


async def test_who_slept_while_another_process_did_it_all_takes_nothing_and_is_no_error() -> None:
    async with backstage() as stage:
        identity = operation_of("Ev1")
        take = stage.store.take

        async def sleep_long(holder: Holder) -> Holder | None:
            done = make_operation(identity, closed=stage.clock.now(), verdict="healthy")
            stage.store.leases.steal(identity)
            stage.store.operations[identity] = done
            return await take(holder)

        stage.store.take = sleep_long  # type: ignore[method-assign]
        assert await stage.startups.request(ask(confirmed=True, token="Ev1")) == Started(identity)
        await asyncio.sleep(20)
        assert (stage.store.holders, stage.startups.running, stage.startups.owned) == ({}, {}, set())
    assert stage.host.orders == []


async def test_a_request_that_meets_a_process_on_its_way_out_is_not_begun_there() -> None:
    async with backstage() as stage:
        await stage.startups.hand_over()
        with pytest.raises(Leaving):
            await stage.startups.request(ask(confirmed=True))
        assert (stage.store.holders, stage.store.operations) == ({}, {})


async def test_a_start_nobody_asked_for_waits_until_something_may_be_begun() -> None:
    async with backstage() as stage:
        stage.startups.bar("not now")
        with pytest.raises(StoreUnavailable, match="not now"):
            await stage.startups.follow(SERVICE, NEW)
        stage.startups.unbar()
        operation = await stage.startups.follow(SERVICE, NEW)
        assert operation in stage.startups.running
        assert await stage.startups.follow(SERVICE, NEW) == operation


async def test_a_start_nobody_asked_for_is_not_given_up_where_redis_came_back_empty_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with backstage() as stage:
        show = stage.host.show

        async def bar_and_show(*words: Any, **more: Any) -> Any:
            stage.startups.bar("not now")
            return await show(*words, **more)

        monkeypatch.setattr(stage.host, "show", bar_and_show)
        with pytest.raises(StoreUnavailable, match="not now"):
            await stage.startups.follow(SERVICE, NEW)


async def test_a_start_nobody_asked_for_is_not_given_up_while_its_host_does_not_answer() -> None:
    async with backstage() as stage:
        stage.host.show_error = GONE
        with pytest.raises(HostUnreachable):
            await stage.startups.follow(SERVICE, NEW)
        assert (stage.store.holders, stage.store.operations) == ({}, {})
        stage.host.show_error = None
        operation = await stage.startups.follow(SERVICE, NEW)
        assert operation in stage.startups.running


async def test_a_start_that_is_over_when_it_is_looked_for_need_not_be_followed() -> None:
    async with backstage() as stage:
        stage.host.units[UNIT] = DEAD
        assert await stage.startups.follow(SERVICE, NEW) is None
        assert (stage.store.holders, stage.store.operations) == ({}, {})

"""Orders to systemd: first on record, and by nobody who may have lost the operation."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from bot.core.actions import SendVerb, Verdict
from bot.core.events import OperationId, Verb, VerbMissed, VerbRefused, VerbSent, VerbUnanswered
from bot.errors import CommandTimedOut, HostError, HostUnreachable, OrderLate, PermissionRefused
from tests.support.carriers import (
    CLOSED,
    DEAD,
    MEMBER,
    NEW,
    RUNNING,
    UNIT,
    Backstage,
    backstage,
)
from tests.support.journal_entries import make_manager_entry, write_entries
from tests.support.outgoing import reply

if TYPE_CHECKING:
    from bot.core.events import Event
    from bot.running import Running

pytestmark = pytest.mark.looptime
ORDER = SendVerb(MEMBER, Verb.RESTART)


async def at_rest(stage: Backstage) -> Running:
    """A watch: it orders nothing by itself."""
    stage.probe.answer = CLOSED
    running = await stage.begin(Verb.WATCH)
    await running.ledger.saved()
    return running


async def test_an_order_waits_until_it_is_on_record() -> None:
    async with backstage() as stage:
        running = await at_rest(stage)
        stage.store.away = True
        running.ledger.note([reply(9)])
        giving = asyncio.create_task(running.orders.give(ORDER))
        await asyncio.sleep(60)
        assert stage.host.orders == []
        stage.store.away = False
        assert await giving == VerbSent(MEMBER)
        assert len(stage.host.orders) == 1


async def test_an_order_waits_while_nobody_knows_whose_the_operation_is() -> None:
    async with backstage() as stage:
        running = await at_rest(stage)
        stage.store.leases.sure = False
        giving = asyncio.create_task(running.orders.give(ORDER))
        await asyncio.sleep(20)
        assert stage.host.orders == []
        stage.store.leases.sure = True
        assert await giving == VerbSent(MEMBER)
        assert len(stage.host.orders) == 1


async def test_an_order_of_a_startup_that_is_over_is_not_given() -> None:
    async with backstage() as stage:
        running = await at_rest(stage)
        stage.store.leases.sure = False
        giving = asyncio.create_task(running.orders.give(ORDER))
        await asyncio.sleep(2)
        running.startup.state.verdict = Verdict.UNWATCHED
        stage.store.leases.sure = True
        assert await giving is None
        assert stage.host.orders == []


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (CommandTimedOut("llm-two", "llm-two: hung", sent=True), VerbUnanswered(MEMBER, "llm-two: hung")),
        (PermissionRefused("llm-two", "llm-two: no"), VerbRefused(MEMBER, "llm-two: no")),
    ],
)
async def test_what_the_host_says_is_what_came_of_it(
    error: HostError, event: VerbUnanswered | VerbRefused
) -> None:
    async with backstage() as stage:
        running = await at_rest(stage)
        stage.host.change_errors = [error]
        assert await running.orders.give(ORDER) == event


async def test_an_owner_that_slept_through_its_lease_orders_nothing() -> None:
    async with backstage() as stage:
        stage.outbox.away = True  # the order waits for its thread
        running = await stage.begin()
        identity = running.operation.operation
        await asyncio.sleep(1)
        stage.store.leases.steal(OperationId(identity))
        await stage.until(lambda: identity not in stage.startups.running)
        assert running.is_lost
        assert stage.host.orders == []
        assert stage.store.texts() == []
        assert stage.saved(running).closed is None
        assert stage.startups.owned == set()


async def test_an_owner_that_hears_of_its_loss_ends_in_the_midst_of_its_wait() -> None:
    async with backstage() as stage:
        stage.outbox.away = True
        running = await stage.begin()
        identity = running.operation.operation
        stage.outbox.away = False
        stage.outbox.wake()
        stage.store.leases.sure = False
        await stage.until(lambda: running.begun)
        stage.store.leases.steal(OperationId(identity))
        stage.store.leases.tell_lost(running.ledger.lease)
        await asyncio.sleep(1)
        assert identity not in stage.startups.running
        stage.store.leases.sure = True
        await asyncio.sleep(600)
        assert stage.host.orders == []


# ---- the deadline -------------------------------------------------------------------------------------


async def test_the_record_is_written_between_the_promise_and_the_order() -> None:
    """Whoever takes over has read a record that is younger than the promise, or the order does not go out."""
    async with backstage() as stage:
        running = await at_rest(stage)
        told: list[str] = []

        def note(word: str, work: Any) -> Any:
            async def noted(*words: Any, **options: Any) -> Any:
                if word == "change":
                    told.append(word)
                answer = await work(*words, **options)
                told.append(word)
                return answer

            return noted

        for part, name in ((stage.store, "save"), (stage.host, "promise"), (stage.host, "change")):
            setattr(part, name, note(name, getattr(part, name)))
        with capture_logs() as logs:
            assert await running.orders.give(ORDER) == VerbSent(MEMBER)
        change_at = told.index("change")
        assert "save" in told[told.index("promise") : change_at]
        [deadline] = [entry["deadline"] for entry in logs if entry["event"] == "verb_leaves"]
        assert 1000 < float(deadline) < 1100


async def test_an_order_whose_record_takes_too_long_is_promised_anew() -> None:
    async with backstage() as stage:
        running = await at_rest(stage)
        promise = stage.host.promise

        async def promise_and_lose_redis(seconds: float) -> Any:
            promised = await promise(seconds)
            if not stage.store.away and stage.host.late == 0:
                stage.store.away = True
                asyncio.get_running_loop().call_later(30, setattr, stage.store, "away", False)
            return promised

        stage.host.promise = promise_and_lose_redis  # type: ignore[method-assign]
        assert await running.orders.give(ORDER) == VerbSent(MEMBER)
        assert (stage.host.late, len(stage.host.orders)) == (1, 1)


async def test_an_order_that_is_always_late_is_refused_with_a_sentence() -> None:
    async with backstage() as stage:
        running = await at_rest(stage)
        stage.host.delays = [11.0] * 9
        assert await running.orders.give(ORDER) == VerbRefused(MEMBER, "llm-two: late")
        assert (stage.host.late, stage.host.orders) == (5, [])


async def test_a_host_out_of_sight_before_the_order_is_a_refusal() -> None:
    async with backstage() as stage:
        running = await at_rest(stage)
        stage.host.promise_error = HostUnreachable("llm-two", "llm-two: gone")
        assert await running.orders.give(ORDER) == VerbRefused(MEMBER, "llm-two: gone")


async def test_a_host_without_uptime_gets_its_order_all_the_same() -> None:
    async with backstage() as stage:
        running = await at_rest(stage)
        stage.host.tells_uptime = False
        with capture_logs() as logs:
            assert await running.orders.give(ORDER) == VerbSent(MEMBER)
        assert "order_without_deadline" in [entry["event"] for entry in logs]
        assert "none" in [entry.get("deadline") for entry in logs]


def test_late_is_an_error_of_the_host_of_which_nothing_was_sent() -> None:
    assert not OrderLate("llm-two", "llm-two: late").sent


# ---- what a process before had under way --------------------------------------------------------------


async def settle(running: Running) -> tuple[Event | None, float]:
    """What comes of it, and after how many seconds."""
    began = asyncio.get_running_loop().time()
    event = await running.orders.settle(MEMBER, asked=running.startup.plan.began)
    return event, asyncio.get_running_loop().time() - began


async def amid_an_order(stage: Backstage) -> Running:
    """Taken up by a second process, while the order of the first never came out."""
    stage.probe.answer = CLOSED
    stage.host.delays = [1e9, 1e9]
    first = await stage.begin()
    await asyncio.sleep(3)
    await stage.crash()
    await stage.startups.adopt()
    return stage.startups.running[first.operation.operation]


async def test_what_left_no_trace_until_the_deadline_never_will() -> None:
    async with backstage() as stage:
        running = await amid_an_order(stage)
        event, took = await settle(running)
        assert event == VerbMissed(MEMBER, running.startup.plan.began)
        assert 15 < took < 16


@pytest.mark.parametrize("seconds", [0, 5, 14])
async def test_what_arrives_until_then_is_seen(seconds: int) -> None:
    async with backstage() as stage:
        running = await amid_an_order(stage)
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, stage.host.units.__setitem__, UNIT, replace(RUNNING, job=7))
        event, took = await settle(running)
        assert event == VerbSent(MEMBER)
        assert took < seconds + 1


@pytest.mark.parametrize(("text", "kind"), [("Stopping sglang.service...", VerbSent), ("hi", VerbMissed)])
async def test_what_only_the_journal_tells_is_read_there(text: str, kind: type[Event]) -> None:
    async with backstage() as stage:
        running = await amid_an_order(stage)
        stage.host.units[UNIT] = replace(DEAD, active="failed")
        stage.host.rest = write_entries(make_manager_entry(2, text))
        event, _ = await settle(running)
        assert type(event) is kind
        assert stage.host.rests[-1][0] == UNIT


@pytest.mark.parametrize("why", ["gone", "uptime", "boot", "cursor"])
async def test_what_nobody_can_tell_remains_in_doubt(why: str) -> None:
    async with backstage() as stage:
        running = await amid_an_order(stage)
        if why == "gone":
            stage.host.show_error = HostUnreachable("llm-two", "llm-two: gone")
        elif why == "uptime":
            stage.host.tells_uptime = False
        elif why == "boot":
            running.startup.state.members[MEMBER].boot = "b" * 32
            stage.host.boot = "c" * 32
        else:
            running.orders.since[MEMBER] = None
        event, _ = await settle(running)
        assert event == VerbUnanswered(MEMBER, "kimi itself went away before the answer came")


async def test_what_ends_meanwhile_needs_no_settling() -> None:
    async with backstage() as stage:
        running = await amid_an_order(stage)
        loop = asyncio.get_running_loop()
        loop.call_later(4, setattr, running.startup.state, "verdict", Verdict.UNWATCHED)
        event, took = await settle(running)
        assert event is None
        assert took < 5


# ---- for any moment of a pause or a death --------------------------------------------------------------

DEATHS = (0.0, 0.05, 0.2, 3.0)
DELAYS = (0.0, 0.1, 5.0, 9.9, 10.1, 12.0, 14.9, 16.0, 40.0)


@pytest.mark.parametrize("second_delay", [0.0, 9.0, 20.0])
@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("death", DEATHS)
async def test_at_most_one_order_is_carried_out_whenever_they_die_or_wake(
    death: float, delay: float, second_delay: float
) -> None:
    """Each order goes out by itself after its delay, as of a process that sleeps behind its last look."""
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        change, sleepers = stage.host.change, []
        delays = [delay, second_delay]

        async def oversleep(*words: Any, **options: Any) -> None:
            options.pop("check")()
            late = delays.pop(0) if delays else 0.0

            async def wake() -> None:
                await asyncio.sleep(late)
                await change(*words, **options)

            sleepers.append(asyncio.ensure_future(wake()))
            await asyncio.shield(sleepers[-1])

        stage.host.change = oversleep  # type: ignore[method-assign]
        running = await stage.begin()
        await stage.until(lambda: running.begun)
        for pause in (death, 17.0):
            await asyncio.sleep(pause)
            await stage.crash()
            await stage.startups.adopt()
        again = stage.startups.running[running.operation.operation]
        await asyncio.sleep(60)
        answers = await asyncio.gather(*sleepers, return_exceptions=True)
        assert len(stage.host.orders) == 1, answers
        assert stage.host.units[UNIT].invocation == NEW
        assert again.startup.verdict is None
        assert not any("went out" in text for text in stage.store.texts())

"""Orders to systemd: first on record, and by nobody who may have lost the operation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from bot.core.actions import SendVerb, Verdict
from bot.core.events import OperationId, Verb, VerbRefused, VerbSent, VerbUnanswered
from bot.errors import CommandTimedOut, HostError, PermissionRefused
from tests.support.carriers import CLOSED, MEMBER, Backstage, backstage
from tests.support.outgoing import reply

if TYPE_CHECKING:
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
        mark = running.ledger.note([reply(9)])
        giving = asyncio.create_task(running.orders.give(ORDER, mark))
        await asyncio.sleep(60)
        assert stage.host.orders == []
        stage.store.away = False
        assert await giving == VerbSent(MEMBER)
        assert len(stage.host.orders) == 1


async def test_an_order_waits_while_nobody_knows_whose_the_operation_is() -> None:
    async with backstage() as stage:
        running = await at_rest(stage)
        stage.store.leases.sure = False
        giving = asyncio.create_task(running.orders.give(ORDER, 0))
        await asyncio.sleep(20)
        assert stage.host.orders == []
        stage.store.leases.sure = True
        assert await giving == VerbSent(MEMBER)
        assert len(stage.host.orders) == 1


async def test_an_order_of_a_startup_that_is_over_is_not_given() -> None:
    async with backstage() as stage:
        running = await at_rest(stage)
        stage.store.leases.sure = False
        giving = asyncio.create_task(running.orders.give(ORDER, 0))
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
        assert await running.orders.give(ORDER, 0) == event


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

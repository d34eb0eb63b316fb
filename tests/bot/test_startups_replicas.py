"""Several processes on one Redis: one carries an operation out, any may take it over, none acts twice."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from bot.adoption import NOT_RESTORED
from bot.clients.redis_link import thread_key
from bot.core.events import UserId, Verb
from bot.core.request import Busy, Request, Standing, Started
from bot.errors import StoreUnavailable
from bot.practice.workspace import ALICE, BOB
from tests.support.replicas import NAME, replicas

if TYPE_CHECKING:
    from tests.support.redis import RedisServer


async def test_another_process_goes_on_where_a_dead_one_stood() -> None:
    async with replicas() as every:
        first, second = await every.start(), await every.start()
        operation = await first.begin()
        await every.until(lambda: every.said("Ranks connected"))
        await first.die()
        await every.until(lambda: operation in second.startups.running)
        assert (await every.closed(second, operation)).verdict == "healthy"
        assert every.orders() == ["restart"]
        assert len(every.roots()) == 1
        assert len(every.replies()) == len(set(every.replies()))
        assert every.said("Ranks connected") == every.said("resumed") == every.said("healthy") == 1
        assert await second.store.holder(NAME) is None


async def test_a_process_that_dozed_beyond_its_lease_neither_writes_nor_orders_nor_says_a_word() -> None:
    async with replicas() as every:
        first = await every.start(outbox=False)  # its verb waits for the thread
        operation = await first.begin()
        running = first.startups.running[operation]
        first.doze()
        second = await every.start()
        await every.until(lambda: operation in second.startups.running)
        await every.until(lambda: running.is_lost and operation not in first.startups.running)
        assert (await every.closed(second, operation)).verdict == "healthy"
        assert every.orders() == ["restart"]
        assert len(every.replies()) == len(set(every.replies()))
        assert every.said("Something broke") == 0


async def test_a_process_that_dozed_in_the_midst_ends_without_a_word() -> None:
    async with replicas() as every:
        first = await every.start(adopts=False)
        operation = await first.begin()
        await every.until(lambda: every.said("Ranks connected"))
        running = first.startups.running[operation]
        first.doze()
        second = await every.start()
        await every.until(lambda: operation in second.startups.running)
        await every.until(lambda: running.is_lost and operation not in first.startups.running)
        assert (await every.closed(second, operation)).verdict == "healthy"
        assert every.orders() == ["restart"]
        assert len(every.replies()) == len(set(every.replies()))
        assert every.said("Something broke") == 0
        assert first.startups.owned == set()


async def test_a_process_that_is_stopped_leaves_its_operations_to_the_next_at_once() -> None:
    async with replicas() as every:
        first = await every.start()
        operation = await first.begin()
        await every.until(lambda: every.said("Ranks connected"))
        await first.leave()
        second = await every.start()
        assert operation in second.startups.running  # no lease had to run out
        assert (await every.closed(second, operation)).verdict == "healthy"
        assert every.orders() == ["restart"]
        assert every.said("resumed") == 0
        assert len(every.replies()) == len(set(every.replies()))


async def test_what_people_say_reaches_an_operation_wherever_it_is_carried_out() -> None:
    async with replicas() as every:
        first, second = await every.start(), await every.start()
        operation = await first.begin()
        await every.until(lambda: every.said("Ranks connected"))
        status = await second.startups.status(NAME)
        assert status.standing is Standing.STARTING
        assert status.startup is not None
        assert status.startup.operation == operation
        assert [seen.mark for seen in status.startup.phases if seen.took] != []
        longer = timedelta(minutes=30)
        for _ in range(2):  # a button that is heard twice
            assert await second.startups.keep_waiting(operation, UserId(BOB), longer, token="press-1")
        await every.until(lambda: every.said("Keeps waiting"))
        assert await second.startups.unwatch(NAME, UserId(BOB))
        assert (await every.closed(first, operation)).verdict == "unwatched"
        assert every.said("Keeps waiting") == 1
        assert not await second.startups.keep_waiting(operation, UserId(BOB), longer)
        assert not await second.startups.unwatch(NAME, UserId(BOB))


async def test_an_operation_of_another_process_is_superseded_there() -> None:
    async with replicas() as every:
        first, second = await every.start(), await every.start()
        operation = await first.begin()
        await every.until(lambda: every.said("Ranks connected"))
        request = Request(NAME, Verb.STOP, UserId(BOB), confirmed=True)
        assert isinstance(await second.startups.request(request), Busy)
        stop = await second.begin(Verb.STOP, over=operation)
        assert (await every.closed(second, operation)).verdict == "superseded"
        assert (await every.closed(second, stop)).verdict == "stopped"
        assert every.orders() == ["restart", "stop"]


async def test_what_is_asked_once_begins_once_over_all_processes() -> None:
    async with replicas() as every:
        both = [await every.start() for _ in range(2)]
        request = Request(NAME, Verb.RESTART, UserId(ALICE), confirmed=True, token="Ev1")
        answers = await asyncio.gather(*(each.startups.request(request) for each in both))
        operations = {answer.operation for answer in answers if isinstance(answer, Started)}
        assert len(operations) == 1
        operation = operations.pop()
        assert await both[1].startups.request(request) == Started(operation)
        assert (await every.closed(both[0], operation)).verdict == "healthy"
        assert every.orders() == ["restart"]
        assert len(every.roots()) == 1
        assert await both[1].startups.request(request) == Started(operation)  # long over


async def test_redis_gone_for_a_while_costs_the_thread_nothing(own_redis: RedisServer) -> None:
    async with replicas(redis_url=own_redis.url) as every:
        first = await every.start()
        operation = await first.begin()
        await every.until(lambda: every.said("Ranks connected"))
        startup = first.startups.running[operation].startup
        own_redis.kill()
        with pytest.raises(StoreUnavailable):
            await first.begin()
        seen = startup.state.lines
        await every.until(lambda: startup.state.lines > seen + 20)  # it watches on
        before = len(every.replies())
        await asyncio.to_thread(own_redis.start)
        assert (await every.closed(first, operation)).verdict == "healthy"
        replies = every.replies()
        assert len(replies) > before
        assert len(replies) == len(set(replies))
        told = [reply.split(" in ")[0].split(" after ")[0] for reply in replies]
        assert (
            told.index("Ranks connected") < told.index("Weights loaded") < told.index("CUDA graphs captured")
        )
        assert every.orders() == ["restart"]
        assert every.said("resumed") == 0
        assert await first.store.holder(NAME) is None


async def test_an_order_waits_for_a_redis_that_is_gone(own_redis: RedisServer) -> None:
    async with replicas(redis_url=own_redis.url) as every:
        first = await every.start(outbox=False)
        operation = await first.begin()
        own_redis.kill()
        await asyncio.sleep(6)  # longer than it waits for its thread
        assert every.orders() == []
        await asyncio.to_thread(own_redis.start)
        first.app.tasks.spawn("outbox", first.outbox.run())
        assert (await every.closed(first, operation)).verdict == "healthy"
        assert every.orders() == ["restart"]


async def test_a_record_that_cannot_be_read_is_told_in_its_thread() -> None:
    async with replicas() as every:
        first = await every.start()
        operation = await first.begin()
        await every.until(lambda: every.said("Ranks connected"))
        await first.die()
        second = await every.start(adopts=False)
        await second.store.link.redis.set(thread_key(operation, "operation"), b'{"of": "another shape"}')
        adopting = await every.start()
        await every.until(lambda: every.said(NOT_RESTORED[:40]))
        assert await adopting.store.open_names() == []
        assert [operation in each.key for each in await adopting.store.unreadable()] == [True]
        assert every.orders() == ["restart"]

"""After a Redis that came back empty: what is rebuilt from memory, what from Slack, and who does it.

The whole bot is met in tests/whole/test_redis_gone.py; here stand the ways that need two processes or a Slack
that does not let us look.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from bot.core.emptied import BARRED, KEPT, TAKEN_UP
from bot.core.events import UserId, Verb
from bot.core.request import Busy, Declined, Request
from bot.errors import StoreUnavailable
from bot.practice.slack_faults import FaultPlan
from bot.practice.workspace import ALICE
from tests.support.replicas import NAME, loading, replicas, watch_over

if TYPE_CHECKING:
    from tests.support.redis import RedisServer

ASKED = Request(NAME, Verb.RESTART, UserId(ALICE), confirmed=True)


async def test_a_replica_that_has_nothing_waits_for_who_has(own_redis: RedisServer) -> None:
    async with replicas(redis_url=own_redis.url) as every:
        every.workspace.slack.rates.limits = {}  # the pace of before was in Redis too
        first, second = await every.start(), await every.start()
        for replica in (first, second):
            await watch_over(every, replica)
        operation = await first.begin()
        await every.until(lambda: loading(every))
        own_redis.ask("FLUSHALL")
        assert isinstance(await second.startups.request(ASKED), Declined | Busy)
        assert (await every.closed(first, operation)).verdict == "healthy"
        assert operation not in second.startups.recent
        assert every.orders() == ["restart"]
        replies = every.replies()
        assert len(replies) == len(set(replies))
        assert every.said(KEPT[:40]) == 1
        assert every.said(TAKEN_UP[:60]) == 0
        announced = [root for root in every.roots() if "Redis came back empty" in root.plain]
        assert len(announced) == 1


async def test_while_slack_does_not_tell_nothing_is_begun(own_redis: RedisServer) -> None:
    async with replicas(redis_url=own_redis.url) as every:
        first = await every.start()
        await watch_over(every, first)
        every.workspace.slack.faults.add("conversations.history", FaultPlan.status(500), times=None)
        own_redis.ask("FLUSHALL")
        assert await first.startups.request(ASKED) == Declined(BARRED)
        await every.until(lambda: first.startups.barred)
        every.workspace.slack.faults.clear()
        await every.until(lambda: not first.startups.barred, within=60)


@pytest.mark.parametrize("call", ["enqueue", "take"])
async def test_a_redis_that_fails_amid_the_search_leaves_nothing_lost(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    async with replicas(redis_url=own_redis.url) as every:
        every.workspace.slack.rates.limits = {}  # the pace of before was in Redis too
        first, second = await every.start(), await every.start()
        operation = await first.begin()
        await every.until(lambda: loading(every))
        await watch_over(every, second)
        await first.die()
        sound, failures = getattr(second.store, call), iter([True])

        async def fail_once(*words: Any, **options: Any) -> Any:
            if next(failures, False):
                raise StoreUnavailable("Redis is full")
            return await sound(*words, **options)

        monkeypatch.setattr(second.store, call, fail_once)
        own_redis.ask("FLUSHALL")
        await every.until(lambda: operation in second.startups.running)
        assert next(failures, False) is False
        assert (await every.closed(second, operation)).verdict == "healthy"
        assert not second.startups.barred
        assert every.orders() == ["restart"]


async def test_a_channel_that_may_not_be_read_hinders_nobody(own_redis: RedisServer) -> None:
    async with replicas(redis_url=own_redis.url) as every:
        first = await every.start()
        every.workspace.slack.faults.add(
            "conversations.history", FaultPlan.error("missing_scope"), times=None
        )
        await watch_over(every, first)
        assert await first.store.is_rebuilt()
        every.workspace.slack.refusals.clear()


async def test_what_is_over_and_told_is_kept_in_memory_no_longer(own_redis: RedisServer) -> None:
    async with replicas(redis_url=own_redis.url) as every:
        first = await every.start()
        await watch_over(every, first)
        operation = await first.begin()
        assert operation in first.startups.recent
        assert (await every.closed(first, operation)).verdict == "healthy"
        await every.until(lambda: operation not in first.startups.recent)
        await asyncio.sleep(0)

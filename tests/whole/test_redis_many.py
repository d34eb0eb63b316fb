"""Redis fails over or moves slots amid sending: each message once, in order; the whole bot on a Cluster."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from redis.crc import key_slot

from bot.clients.redis_link import thread_key
from bot.clients.store import Store
from bot.errors import StoreUnavailable
from bot.practice.scenarios import SCENARIOS
from bot.practice.workspace import PracticeWorkspace
from tests.support.outbox import Stage, open_slack, until
from tests.support.outgoing import CHANNEL, reply, root
from tests.support.practice import Practice

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from bot.clients.records import Outgoing
    from tests.support.redis_many import RedisCluster, SentinelGroup

THREADS = ["op1", "op2", "op3"]
REPLIES = 30
LONG = 60.0  # seconds


@asynccontextmanager
async def two_processes(url: str) -> AsyncIterator[Stage]:
    """Each with an outbox that sends; the stage has the store of the first."""
    async with open_slack() as slack, contextlib.AsyncExitStack() as stack:
        stages = [Stage(slack, await Store.open(url, owner=name)) for name in ("first", "second")]
        for stage in stages:
            stack.push_async_callback(stage.store.close)
            await stack.enter_async_context(stage.outbox())
        yield stages[0]


async def put(store: Store, message: Outgoing) -> None:
    """As the bot does: what was not confirmed is given again."""
    while True:
        try:
            return await store.enqueue([message])
        except StoreUnavailable:
            await asyncio.sleep(0.05)


async def write_all(store: Store, thread: str) -> None:
    await put(store, root(f"{thread} begins", thread=thread))
    for number in range(REPLIES):
        await put(store, reply(number, f"{thread} {number}", thread=thread))
        await asyncio.sleep(0.03)


def told(stage: Stage) -> dict[str, list[str]]:
    """What each thread says, by its first word."""
    roots = stage.slack.channel_messages(CHANNEL)
    said = [
        [message.text for message in stage.slack.thread(CHANNEL, each.ts)]
        for each in roots
        if not each.thread_ts
    ]
    return {texts[0].split()[0]: texts for texts in said}


def expected() -> dict[str, list[str]]:
    return {name: [f"{name} begins", *(f"{name} {n}" for n in range(REPLIES))] for name in THREADS}


async def test_a_master_killed_amid_sending_costs_and_doubles_nothing(
    own_sentinels: SentinelGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_processes(own_sentinels.url) as stage:
        former = own_sentinels.master()
        writing = asyncio.gather(*(write_all(stage.store, name) for name in THREADS))
        with monkeypatch.context() as patch:
            # What no replica confirmed in time dies with its master, and a busy machine confirms late.
            patch.setattr("bot.clients.redis_sentinel.REPLICA_MILLISECONDS", 3000)
            await until(lambda: sum(map(len, told(stage).values())) > REPLIES)
            await asyncio.to_thread(former.kill)
        await writing
        await until(lambda: sum(map(len, told(stage).values())) >= len(THREADS) * (REPLIES + 1), LONG)
        await until(lambda: nothing_waits(stage.store), LONG)
        assert told(stage) == expected()
        assert own_sentinels.master() is not former


async def nothing_waits(store: Store) -> bool:
    with contextlib.suppress(StoreUnavailable):
        return await store.queue.pending() == 0
    return False


async def test_a_thread_whose_slot_moves_amid_sending_goes_on(redis_cluster: RedisCluster) -> None:
    slot = key_slot(thread_key("op1", "queue").encode())
    async with two_processes(redis_cluster.url) as stage:
        writing = asyncio.gather(*(write_all(stage.store, name) for name in THREADS))
        moves = 0
        while not writing.done():
            source = redis_cluster.owner(slot)
            target = redis_cluster.another(source)
            redis_cluster.open(slot, source, target)
            await asyncio.sleep(0.05)  # keys here, keys there: the thread waits
            redis_cluster.carry(slot, source, target)
            await asyncio.sleep(0.05)
            redis_cluster.close(slot, source, target)
            moves += 1
            await asyncio.sleep(0.1)
        await writing
        await until(lambda: nothing_waits(stage.store), LONG)
        assert told(stage) == expected()
        assert moves > 1


async def test_a_restart_on_a_cluster_ends_healthy(redis_cluster: RedisCluster) -> None:
    workspace = PracticeWorkspace(SCENARIOS["healthy"], speed=120, watched=False)
    try:
        await workspace.start_surroundings()
        workspace.redis_url = redis_cluster.url
        practice = Practice(workspace, await workspace.start_app())
        thread = await practice.begin("restart kimi-k2.5")
        operation = await practice.verdict()
        assert operation.verdict == "healthy"
        assert practice.orders() == ["restart"]
        assert any("healthy" in line for line in practice.replies(thread))
        assert await practice.app.startups.held(operation.service) is None
        slot = key_slot(thread_key(operation.operation, "operation").encode())
        assert redis_cluster.owner(slot).line.exists(thread_key(operation.operation, "operation"))
        assert workspace.slack.refusals == []
    finally:
        await workspace.stop()

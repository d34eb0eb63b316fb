"""Redis killed, paused, or emptied amid a start: the thread at the end, and what is said meanwhile.

The thread of an undisturbed run is the yardstick. A practice minute is less than a second, so leases are
shorter than in production, but for one.
"""

from __future__ import annotations

import asyncio
import re
import traceback
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import bot.app as app_module
from bot.app import App
from bot.clients.slack import Outbox, Timing
from bot.clients.store import Store
from bot.core.answers import REDIS_GONE
from bot.core.emptied import ANNOUNCED, BARRED, KEPT, STOP_LOST, TAKEN_UP
from bot.core.events import ServiceName
from bot.core.pacing import POST
from bot.practice.scenarios import SCENARIOS, loading
from bot.practice.scenarios import sglang_log as log
from bot.practice.scenarios import stage as scene
from bot.practice.slack_faults import FaultPlan
from bot.practice.workspace import ALICE, CHANNEL, SERVICE, PracticeWorkspace
from tests.support.pace import PACE
from tests.support.practice import Practice
from tests.support.redis import RedisServer
from tests.support.redis_many import RedisCluster, SentinelGroup
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from bot.practice.slack_state import PostedMessage

SPEED = 20.0
LEASE = 1.5
SLEEP = 30.0  # seconds, beyond each lease and every time-out
NOTICES = [words[:80] for words in (KEPT, TAKEN_UP)]
# What is always told: a phase that a busy machine is done with in no time is not.
USUAL = [
    "Ranks connected",
    "Weights loaded",
    "CUDA graphs captured",
    "Warmed up",
    "✅ *healthy*",
    "Where the time went",
]


async def short(act: scene.Stage) -> None:
    """A start of two minutes, told; each phase is long against what a busy machine loses."""
    await loading.launch(act)
    await loading.distributed(act)
    await loading.begin_weights(act)
    await loading.shard_bar(act, total=8, seconds=22)
    act.say_all(log.weight_end(act.dialect, 24.0, draft=False))
    await loading.graphs(act, 18)
    await loading.listen(act)
    await loading.warm_up(act)
    await loading.serve(act)


SCENARIO = scene.Scenario("short", "Two ranks come up", (short,), before="stopped", ranks=2)


@dataclass(slots=True)
class Stage:
    """One workspace on a Redis of its own; `apps`: the bots it has had."""

    workspace: PracticeWorkspace
    redis: RedisServer | SentinelGroup | RedisCluster
    apps: list[App] = field(default_factory=list)

    @property
    def practice(self) -> Practice:
        return Practice(self.workspace, self.apps[-1])

    async def bring_up(self) -> Practice:
        self.apps.append(await self.workspace.start_app())
        return self.practice

    def empty(self) -> None:
        assert isinstance(self.redis, RedisServer)
        assert self.redis.ask("FLUSHALL") == "+OK"

    def roots(self) -> list[PostedMessage]:
        return [root for root in self.practice.roots() if not announces(root)]

    def announced(self) -> int:
        return sum(map(announces, self.practice.roots()))

    async def end(self, verdict: str = "healthy") -> list[str]:
        """What the one thread says once all of it is told, without the words that Redis caused."""
        ends = (verdict, "failed")
        await self.practice.until(lambda _: any(word in root.plain for root in self.roots() for word in ends))
        await self.practice.until(lambda _: not any(app.startups.owned for app in self.apps))
        await self.practice.until(lambda _: not self.practice.app.startups.barred)
        assert (await self.practice.verdict()).verdict == verdict
        assert await self.practice.app.startups.held(ServiceName(SERVICE)) is None
        [root] = self.roots()
        told = [kind_of(each) for each in self.practice.thread(root)[1:]]
        assert len(told) == len(set(told)), told
        return [kind for kind in told if kind in USUAL]

    def notices(self) -> list[str]:
        [root] = self.roots()
        return [each.plain[:80] for each in self.practice.thread(root)[1:] if each.plain[:80] in NOTICES]


def announces(root: PostedMessage) -> bool:
    return root.plain.startswith(ANNOUNCED[:80])


def kind_of(message: PostedMessage) -> str:
    """Its words up to the first that a time or a number follows."""
    return re.split(r" (?:in|after) |\d|[(,;.]", message.plain.strip())[0].strip()


@asynccontextmanager
async def stage(
    redis: RedisServer | SentinelGroup | RedisCluster,
    *,
    speed: float = SPEED,
    scenario: scene.Scenario = SCENARIO,
) -> AsyncIterator[Stage]:
    # Two real seconds: a busy machine hears a probe's answer that much sooner than the lines before it.
    workspace = PracticeWorkspace(scenario, speed=speed, service={"stable_for": "40s"}, watched=False)
    workspace.slack.rates.limits = {}
    try:
        await workspace.start_surroundings()
        workspace.redis_url = redis.url
        yield Stage(workspace, redis)
    finally:
        await workspace.stop()
    assert workspace.slack.refusals == [], "the stand-in Slack refused a call"
    assert workspace.slack.warnings == []


Way: TypeAlias = Callable[[RedisServer], Awaitable[None]]
WAYS: list[Way] = []


def way(play: Way) -> Way:
    WAYS.append(play)
    return play


async def play(way: Way) -> None:
    redis = RedisServer()
    try:
        await asyncio.to_thread(redis.start)
        await way(redis)
    finally:
        await asyncio.to_thread(redis.remove)


@way
async def the_usual(own_redis: RedisServer) -> None:
    async with stage(own_redis) as here:
        practice = await here.bring_up()
        await practice.begin()
        assert await here.end() == USUAL


@way
async def a_redis_that_is_killed_and_started_again_costs_the_thread_nothing(own_redis: RedisServer) -> None:
    async with stage(own_redis) as here:
        practice = await here.bring_up()
        root = await practice.begin()
        await practice.reply(root, "Ranks connected")
        own_redis.kill()
        assert await practice.ask("restart kimi-k2.5") == REDIS_GONE
        await asyncio.to_thread(own_redis.start)
        assert await here.end() == USUAL
        assert practice.orders() == ["restart"]
        assert here.notices() == []
        assert here.announced() == 0


@way
async def a_redis_that_sleeps_beyond_the_leases_costs_the_thread_nothing(own_redis: RedisServer) -> None:
    async with stage(own_redis) as here:
        practice = await here.bring_up()
        root = await practice.begin()
        await practice.reply(root, "Ranks connected")
        with own_redis.paused():
            asked = asyncio.create_task(practice.ask("restart kimi-k2.5"))
            await asyncio.sleep(3 * LEASE)
            assert await asked == REDIS_GONE
        assert await here.end() == USUAL
        assert practice.orders() == ["restart"]
        assert here.notices() == []


async def test_a_redis_that_sleeps_beyond_the_lease_of_production(own_redis: RedisServer) -> None:
    async with stage(own_redis) as here:
        practice = await here.bring_up()
        assert practice.app.startups.ground.store.leases.seconds < SLEEP / 2
        root = await practice.begin()
        await practice.reply(root, "Ranks connected")
        with own_redis.paused():
            await asyncio.sleep(SLEEP)
        assert await here.end() == USUAL
        assert practice.orders() == ["restart"]
        assert here.notices() == []


@way
async def an_emptied_redis_is_filled_again_from_memory(own_redis: RedisServer) -> None:
    async with stage(own_redis) as here:
        practice = await here.bring_up()
        root = await practice.begin()
        await practice.reply(root, "Ranks connected")
        practice.slack.faults.add("conversations.history", FaultPlan.status(500), times=None)
        here.empty()
        assert await practice.ask("restart kimi-k2.5") == BARRED
        practice.slack.faults.clear()
        assert await here.end() == USUAL
        assert practice.orders() == ["restart"]
        assert here.notices() == [NOTICES[0]]
        await practice.until(lambda _: here.announced())


@way
async def what_waited_for_slack_when_redis_was_emptied_is_told_all_the_same(own_redis: RedisServer) -> None:
    async with stage(own_redis) as here:
        practice = await here.bring_up()
        root = await practice.begin()
        await practice.reply(root, "Ranks connected")
        practice.slack.faults.add(POST, FaultPlan.status(500), times=None)
        ledger = next(iter(practice.app.startups.running.values())).ledger
        await practice.until(lambda _: any("graphs" in each.text for each in ledger.known.values()))
        lease = ledger.lease
        here.empty()
        await until(lambda: ledger.is_stranded or ledger.lease is not lease)
        practice.slack.faults.clear()
        assert await here.end() == USUAL
        assert practice.orders() == ["restart"]
        assert here.notices() == [NOTICES[0]]


@way
async def what_was_said_last_is_told_though_redis_was_emptied_before(own_redis: RedisServer) -> None:
    """The operation is closed and over, and only its queue is left."""
    async with stage(own_redis) as here:
        practice = await here.bring_up()
        root = await practice.begin()
        await practice.reply(root, "Warmed up")
        practice.slack.faults.add(POST, FaultPlan.status(500), times=None)
        await practice.until(lambda _: not practice.app.startups.owned)
        here.empty()
        await until(lambda: practice.app.startups.barred)  # it does not last
        practice.slack.faults.clear()
        await practice.reply(root, "healthy")
        assert await here.end() == USUAL
        assert here.notices() == []


@way
async def a_redis_emptied_while_the_bot_is_down_is_filled_again_from_slack(own_redis: RedisServer) -> None:
    async with stage(own_redis) as here:
        practice = await here.bring_up()
        root = await practice.begin()
        await practice.reply(root, "Weights loaded")
        await practice.app.close()
        here.empty()
        practice.slack.faults.add("conversations.history", FaultPlan.status(500), times=None)
        practice = await here.bring_up()
        assert await practice.ask("restart kimi-k2.5") == BARRED
        practice.slack.faults.clear()
        assert await here.end() == USUAL
        assert practice.orders() == ["restart"]
        assert here.notices() == [NOTICES[1]]
        assert here.announced() == 1


@way
async def of_two_that_start_beside_an_emptied_redis_one_takes_it_up(own_redis: RedisServer) -> None:
    async with stage(own_redis) as here:
        practice = await here.bring_up()
        root = await practice.begin()
        await practice.reply(root, "Ranks connected")
        await practice.app.close()
        here.empty()
        for _ in range(2):  # both look before either takes anything up
            await here.bring_up()
        assert await here.end() == USUAL
        assert practice.orders() == ["restart"]
        assert here.notices() == [NOTICES[1]]
        assert here.announced() == 1


@way
async def a_stop_whose_record_is_lost_is_told_as_that(own_redis: RedisServer) -> None:
    async with stage(own_redis, speed=10, scenario=SCENARIOS["healthy"]) as here:
        practice = await here.bring_up()
        root = await practice.begin("stop kimi-k2.5")
        await practice.app.close()
        here.empty()
        practice = await here.bring_up()
        await practice.reply(root, STOP_LOST[:80])


@way
async def a_first_start_is_silent(own_redis: RedisServer) -> None:
    async with stage(own_redis) as here:
        practice = await here.bring_up()
        await practice.until(lambda _: not practice.app.startups.barred)
        assert practice.slack.channel_messages(CHANNEL) == []
        assert practice.slack.ephemerals(ALICE) == []


async def test_however_redis_goes_the_thread_is_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """All ways at once: most of each is waiting."""
    monkeypatch.setattr(app_module, "Outbox", partial(Outbox, pace=PACE, timing=Timing(LEASE, 0.2, 0.2)))
    monkeypatch.setattr(Store, "open", partial(Store.open, lease_seconds=LEASE))
    ends = await asyncio.gather(*map(play, WAYS), return_exceptions=True)
    wrong = {each.__name__: end for each, end in zip(WAYS, ends, strict=True) if end is not None}
    for name, end in wrong.items():
        print(name, *traceback.format_exception(end), sep="\n")  # noqa: T201 - for failures
    assert wrong == {}

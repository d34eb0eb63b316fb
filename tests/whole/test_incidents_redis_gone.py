"""Redis emptied amid an outage while no process of the bot lives: the next one goes on in the same thread."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import bot.app as app_module
from bot.clients.slack import Outbox, Timing
from bot.clients.store import Store
from bot.clients.store_incidents import IncidentStore
from bot.incident_ledger import STATE
from bot.practice.scenarios import SCENARIOS
from bot.practice.workspace import ALICE, CHANNEL, PracticeWorkspace
from tests.support.pace import PACE
from tests.support.practice import Practice
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from bot.practice.slack_state import PostedMessage
    from tests.support.redis import RedisServer

LEASE, WITHIN = 1.5, 90.0
GAP = "the record of this incident is gone"
MARKS = ("🔴", "was gone", "was down")


@asynccontextmanager
async def outage(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch, scenario: str = "host-gone", *, speed: float
) -> AsyncIterator[tuple[Practice, PostedMessage]]:
    """An incident is told, and Alice is on it. A host that is gone is so for three minutes."""
    monkeypatch.setattr(app_module, "Outbox", partial(Outbox, pace=PACE, timing=Timing(LEASE, 0.2, 0.2)))
    monkeypatch.setattr(Store, "open", partial(Store.open, lease_seconds=LEASE))
    workspace = PracticeWorkspace(SCENARIOS[scenario], speed=speed)
    workspace.slack.rates.limits = {}
    try:
        await workspace.start_surroundings()
        workspace.redis_url = redis.url
        practice = Practice(workspace, await workspace.start_app())
        [root] = await practice.until(lambda _: outages(practice), within=WITHIN)
        await practice.slack.press(ALICE, CHANNEL, root.ts, "kimi:ack")
        await practice.until(lambda _: f"<@{ALICE}> is on it" in root.plain)
        yield practice, root
    finally:
        await workspace.stop()
    assert workspace.slack.refusals == []
    assert workspace.slack.warnings == []


def outages(practice: Practice) -> list[PostedMessage]:
    return [root for root in practice.roots() if any(mark in root.text for mark in MARKS)]


async def begin_anew(practice: Practice) -> Practice:
    return Practice(practice.workspace, await practice.workspace.start_app())


async def see_it_end(practice: Practice, root: PostedMessage) -> None:
    await practice.reply(root, GAP, within=WITHIN)
    await practice.reply(root, "resolved", within=WITHIN)
    assert await practice.app.startups.ground.outbox.drain(WITHIN)
    told = practice.replies(root)
    assert sum(GAP in text for text in told) == 1, told
    assert sum("resolved" in text for text in told) == 1, told
    assert outages(practice) == [root]
    [record] = await IncidentStore(practice.app.startups.ground.store.link).opened()
    assert STATE.validate_json(record.state).acked_by == ALICE
    await practice.until(lambda _: "was gone" in root.text)


async def test_what_is_still_gone_goes_on_and_ends(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with outage(own_redis, monkeypatch, speed=8) as (practice, root):
        await practice.app.close()
        assert own_redis.ask("FLUSHALL") == "+OK"
        await see_it_end(await begin_anew(practice), root)


async def test_what_came_back_meanwhile_is_closed_with_facts(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with outage(own_redis, monkeypatch, speed=20) as (practice, root):
        await practice.app.close()
        assert own_redis.ask("FLUSHALL") == "+OK"
        await until(lambda: practice.workspace.host.reachable)
        await see_it_end(await begin_anew(practice), root)


async def test_a_service_that_is_still_down_goes_on_with_its_incident_and_opens_no_other(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with outage(own_redis, monkeypatch, "loops-at-3am", speed=20) as (practice, root):
        await practice.reply(root, "Attempt 2", within=WITHIN)
        await practice.app.close()
        assert own_redis.ask("FLUSHALL") == "+OK"
        anew = await begin_anew(practice)
        await anew.reply(root, GAP, within=WITHIN)
        told = len(anew.replies(root))
        await anew.until(
            lambda _: any("died in weights" in text for text in anew.replies(root)[told:]), within=WITHIN
        )
        await anew.until(lambda _: "attempts so far" in root.plain)
        assert "GPU kernel touched memory" in root.plain
        assert outages(anew) == [root]
        assert sum(GAP in text for text in anew.replies(root)) == 1

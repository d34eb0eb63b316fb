"""How an operation ends while something of it is still under way."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bot.core.actions import Pace
from bot.core.events import UserId
from tests.support.carriers import CLOSED, NEW, OLD, RUNNING, SERVICE, UNIT, backstage, configured

pytestmark = pytest.mark.looptime
BEGIN = "[2026-05-29 23:49:47 TP0] Load weight begin. avail mem=78.50 GB"
BROKEN = replace(RUNNING, active="failed", sub="failed", result="exit-code", invocation=NEW, main_pid=0)


async def test_the_log_of_a_stall_comes_even_when_the_watch_ends_before_it_was_fetched() -> None:
    async with backstage(configured(patience={"weights": "60s"})) as stage:
        stage.probe.answer = CLOSED
        stage.host.log = None  # the host hangs over it
        running = await stage.begin()
        await stage.until(lambda: stage.host.orders and stage.host.follows)
        stage.host.say(1, BEGIN)
        await stage.until(lambda: running.startup.view(stage.clock.now()).pace is Pace.STALLED)
        assert await stage.startups.unwatch(SERVICE, UserId("U9"))
        await stage.closed(running)
        assert stage.store.texts("upload") == []
        await stage.until(lambda: stage.store.texts("upload"))
        [content] = stage.store.files.values()
    assert BEGIN.encode() in content


async def test_a_verdict_that_was_told_stands_though_its_last_steps_break(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with backstage() as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin()
        await stage.until(lambda: stage.host.orders and stage.host.follows)
        stage.host.say(1, BEGIN)

        async def break_down(*_: object, **__: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr("bot.uploads.read_start", break_down)
        await asyncio.sleep(4)
        stage.host.units[UNIT] = BROKEN
        operation = await stage.closed(running)
    assert operation.verdict == "failed"
    assert stage.store.holders == {}


@pytest.mark.parametrize("crash", [False, True])
async def test_an_end_asked_for_before_the_order_went_out_comes_before_it(crash: bool) -> None:
    async with backstage() as stage:
        stage.outbox.away = True  # the order waits for its thread
        running = await stage.begin()
        await asyncio.sleep(1)
        assert await stage.startups.unwatch(SERVICE, UserId("U9"))
        if crash:
            await stage.until(lambda: running.startup.verdict)
            await stage.crash()
            await stage.startups.adopt()
        operation = await stage.closed(running)
    assert operation.verdict == "unwatched"
    assert stage.host.orders == []
    assert stage.store.holders == {}


async def test_an_order_on_its_way_arrives_before_the_service_is_let_go() -> None:
    async with backstage() as stage:
        running = await stage.begin()
        await stage.until(lambda: stage.host.orders)
        assert stage.host.units[UNIT].invocation == OLD
        assert await stage.startups.unwatch(SERVICE, UserId("U9"))
        operation = await stage.closed(running)
    assert operation.verdict == "unwatched"
    assert stage.host.units[UNIT].invocation == NEW

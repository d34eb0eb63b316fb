"""How an operation ends while something of it is still under way."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from bot.clients.records import Operation, Outgoing, dump
from bot.core.actions import Action, Close, Pace
from bot.core.events import UserId
from bot.messages import messages_of
from bot.running import OWN_FAULT
from tests.support.carriers import CLOSED, NEW, OLD, RUNNING, SERVICE, UNIT, backstage, configured
from tests.support.outgoing import reply

if TYPE_CHECKING:
    from collections.abc import Sequence

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


@pytest.mark.parametrize("when", ["while it is watched", "with its verdict"])
async def test_words_that_cannot_be_written_down_hold_the_service_for_no_longer(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with capture_logs():
        async with backstage() as stage:
            stage.probe.answer = CLOSED
            running = await stage.begin()
            await stage.until(lambda: stage.host.orders and stage.host.follows)
            save = stage.store.save

            async def write(
                operation: Operation, outgoing: Sequence[Outgoing] = (), *rest: Any, **how: Any
            ) -> None:
                for message in outgoing:
                    dump(message)
                await save(operation, outgoing, *rest, **how)

            def spoil(actions: Sequence[Action], *rest: Any, **how: Any) -> list[Outgoing]:
                messages = messages_of(actions, *rest, **how)
                if when == "while it is watched" or any(isinstance(action, Close) for action in actions):
                    messages.append(reply(1).model_copy(update={"text": "\ud83d"}))
                return messages

            monkeypatch.setattr(stage.store, "save", write)
            monkeypatch.setattr("bot.running.messages_of", spoil)
            stage.host.say(1, BEGIN)
            await asyncio.sleep(4)
            stage.host.units[UNIT] = BROKEN
            async with asyncio.timeout(600):
                operation = await stage.closed(running)
                await stage.until(lambda: not stage.startups.owned)
    assert operation.verdict is not None
    assert stage.store.texts()[-1] == OWN_FAULT
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

"""What is looked at, and that nothing of it piles up or is begun after the end."""

from __future__ import annotations

import asyncio

import pytest

from bot.core.events import Verb
from tests.support.carriers import CLOSED, MEMBER, UNIT, backstage, configured

pytestmark = pytest.mark.looptime


async def test_every_member_is_observed_and_sampled() -> None:
    members = [{"host": "llm-two", "unit": f"node{number}.service"} for number in (0, 1)]
    async with backstage(configured(host=None, unit=None, members=members)) as stage:
        stage.probe.answer = CLOSED
        running = await stage.begin(Verb.WATCH)
        await running.ledger.saved()
        stage.host.samples.clear()
        running.looks.sample()
        await asyncio.sleep(0.1)
        assert sorted(unit for unit, *_ in stage.host.samples) == ["node0.service", "node1.service"]


async def test_a_log_file_is_followed_beside_the_journal() -> None:
    async with backstage(configured(log_file="/var/log/kimi.log")) as stage:
        stage.probe.answer = CLOSED
        await stage.begin()
        await stage.until(lambda: stage.host.log_follows and stage.host.follows and stage.host.kernel_follows)
        assert [path for path, _ in stage.host.log_follows] == ["/var/log/kimi.log"]


async def test_a_smoke_test_that_runs_is_known() -> None:
    async with backstage() as stage:
        running = await stage.begin(Verb.WATCH)
        stage.probe.gate.clear()
        running.looks.smoke()
        running.looks.smoke()
        await asyncio.sleep(0.1)
        assert running.looks.is_smoking
        assert stage.probe.smokes == 1
        stage.probe.gate.set()
        await stage.until(lambda: not running.looks.is_smoking)


async def test_nothing_is_looked_at_after_the_end() -> None:
    async with backstage() as stage:
        running = await stage.begin()
        await stage.closed(running)
        seen = (stage.host.shows, stage.probe.checks, stage.probe.smokes, len(stage.host.samples))
        running.looks.tick()
        running.looks.observe()
        running.looks.probe()
        running.looks.sample()
        running.looks.smoke()
        running.looks.setup(MEMBER)
        await asyncio.sleep(5)
        assert (stage.host.shows, stage.probe.checks, stage.probe.smokes, len(stage.host.samples)) == seen
        assert UNIT in stage.host.units

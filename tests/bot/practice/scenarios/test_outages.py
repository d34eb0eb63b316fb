"""What happens to the practice service by itself while it serves."""

from __future__ import annotations

import pytest

from bot.clock import Clock
from bot.practice.engine import ServerStatus
from bot.practice.host import PracticeHost
from bot.practice.scenarios import SCENARIOS
from tests.support.waiting import until

SPEED = 120.0


async def far(name: str) -> PracticeHost:
    host = PracticeHost(Clock(SPEED), SCENARIOS[name])
    await host.start()
    return host


def said(host: PracticeHost, text: str) -> bool:
    return any(text in entry.text("MESSAGE") for entry in host.journal.entries)


@pytest.mark.parametrize("name", ["dies-at-3am", "slow-death", "loops-at-3am"])
async def test_it_dies_and_systemd_starts_it_again(name: str) -> None:
    host = await far(name)
    try:
        assert host.unit.active == "active"
        first = host.unit.invocation
        await until(lambda: said(host, "Scheduled restart job, restart counter is at 1"))
        await until(lambda: host.unit.invocation not in {None, first})
        assert said(host, "Scheduler hit an exception")
        assert said(host, "KV cache pool is full") is (name == "slow-death")
    finally:
        await host.stop()


async def test_it_hangs_and_answers() -> None:
    host = await far("hangs-but-answers")
    try:
        await until(lambda: host.engine.dying)
        assert host.engine.status is ServerStatus.UP
    finally:
        await host.stop()


async def test_it_flaps() -> None:
    host = await far("flapping")
    try:
        seen: list[ServerStatus] = []

        def changed() -> bool:
            if not seen or seen[-1] is not host.engine.status:
                seen.append(host.engine.status)
            return len(seen) == 5

        await until(changed)
        assert seen == [ServerStatus.UP, ServerStatus.UNHEALTHY] * 2 + [ServerStatus.UP]
    finally:
        await host.stop()


async def test_the_host_goes_away_and_comes_back_as_it_was() -> None:
    host = await far("host-gone")
    try:
        run = host.unit.invocation
        await until(lambda: host._server is None)
        await until(lambda: host._server is not None)
        assert host.unit.invocation == run
    finally:
        await host.stop()


async def test_somebody_restarts_it() -> None:
    host = await far("restarted-in-terminal")
    try:
        run = host.unit.invocation
        await until(lambda: host.unit.invocation not in {None, run})
        assert said(host, "Stopping ")
        assert host.commands == []
    finally:
        await host.stop()


def test_outages_say_that_they_are_some() -> None:
    outages = {name for name, scenario in SCENARIOS.items() if scenario.is_outage}
    assert outages == {
        "dies-at-3am",
        "loops-at-3am",
        "hangs-but-answers",
        "host-gone",
        "flapping",
        "restarted-in-terminal",
        "slow-death",
    }

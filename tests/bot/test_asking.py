"""A person who waits learns early which hosts keep silent, and nothing is asked twice for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from bot.asking import SLOW_AFTER, ask_each, noticing
from bot.errors import HostUnreachable
from tests.support.carriers import SERVICE, Backstage, backstage, configured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.core.events import HostName
    from bot.sources import Link

pytestmark = pytest.mark.looptime
MEMBERS = [{"host": "llm-two", "unit": f"node{number}.service"} for number in (0, 1)]
GONE = HostUnreachable("llm-two", "llm-two: no connection")


class Told(list[tuple[tuple[str, ...], float]]):
    async def __call__(self, hosts: Sequence[HostName], seconds: float) -> None:
        self.append((tuple(hosts), seconds))


def now() -> float:
    return asyncio.get_running_loop().time()


def links_of(stage: Backstage) -> list[Link]:
    return list(stage.ground.links(SERVICE).values())


async def take(seconds: float, answer: str = "here") -> str:
    await asyncio.sleep(seconds)
    return answer


async def test_of_hosts_that_answer_nothing_is_told() -> None:
    async with backstage(configured(host=None, unit=None, members=MEMBERS)) as stage:
        told = Told()
        answers = await ask_each(links_of(stage), lambda link: take(1, link.unit), slow=told)
    assert answers == ["node0.service", "node1.service"]
    assert told == []


async def test_who_answered_in_the_last_moment_is_not_told_to_be_silent() -> None:
    """the last host answers | the time is up | what all answered comes together"""
    async with backstage(configured(host=None, unit=None, members=MEMBERS)) as stage:
        told, loop = Told(), asyncio.get_running_loop()

        async def ask(link: Link) -> str:
            answered: asyncio.Future[str] = loop.create_future()
            # So near that both are due in one turn of the loop, this one first.
            loop.call_at(began + SLOW_AFTER - 1e-12, answered.set_result, link.unit)
            return await answered

        began = now()
        assert await ask_each(links_of(stage), ask, slow=told) == ["node0.service", "node1.service"]
    assert told == []


async def test_a_host_that_keeps_silent_is_told_once_and_asked_on() -> None:
    async with backstage(configured(host=None, unit=None, members=MEMBERS)) as stage:
        told, asked = Told(), list[str]()

        async def ask(link: Link) -> str:
            asked.append(link.unit)
            return await take(0.1 if link.unit == "node0.service" else 12)

        began = now()
        assert await ask_each(links_of(stage), ask, slow=told) == ["here", "here"]
        assert now() - began == pytest.approx(12, abs=0.1)
    assert told == [(("llm-two",), SLOW_AFTER)]
    assert asked == ["node0.service", "node1.service"]


async def test_what_goes_wrong_is_raised_at_once_before_and_after_the_notice() -> None:
    async with backstage() as stage:
        for seconds, notices in ((1, 0), (15, 1)):
            told, began = Told(), now()

            async def fail(_link: Link, span: float = seconds) -> str:
                await asyncio.sleep(span)
                raise GONE

            with pytest.raises(HostUnreachable):
                await ask_each(links_of(stage), fail, slow=told)
            assert now() - began == pytest.approx(seconds, abs=0.1)
            assert len(told) == notices


async def test_a_slack_that_hangs_delays_nothing_for_long() -> None:
    async def hang(hosts: Sequence[HostName], seconds: float) -> None:
        del hosts, seconds
        await asyncio.Event().wait()

    async with backstage() as stage:
        began = now()
        assert await ask_each(links_of(stage), lambda _link: take(5), slow=hang) == ["here"]
        assert now() - began < SLOW_AFTER + 2.5


async def test_who_asks_no_longer_lets_the_hosts_be() -> None:
    async with backstage() as stage:
        ended = asyncio.Event()

        async def ask(_link: Link) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        task = asyncio.create_task(ask_each(links_of(stage), ask, slow=Told()))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await ended.wait()


async def test_of_what_takes_long_only_a_silent_host_is_told() -> None:
    async with backstage() as stage:
        told = Told()
        async with noticing(links_of(stage), told):
            await asyncio.sleep(60)
        assert told == []
        stage.host.gate.clear()
        async with noticing(links_of(stage), told):
            await asyncio.sleep(60)
        assert told == [(("llm-two",), SLOW_AFTER)]
        async with noticing(links_of(stage), told):
            await asyncio.sleep(1)
        assert len(told) == 1


async def test_a_host_that_refuses_is_told_by_what_is_done_there() -> None:
    async with backstage() as stage:
        stage.host.show_error = GONE
        told = Told()
        async with noticing(links_of(stage), told):
            await asyncio.sleep(10)
    assert told == []

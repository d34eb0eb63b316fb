"""A host that is muted by its name before somebody works on it, and in the thread of its outage."""

from __future__ import annotations

import asyncio

from bot.practice.workspace import ALICE, CHANNEL
from tests.support.practice import Practice, practise
from tests.support.waiting import until

WITHIN = 90.0


def looks(practice: Practice) -> int:
    """How often its units were asked for."""
    return sum("show" in command for command in practice.workspace.host.commands)


async def test_while_somebody_works_on_it_nothing_is_told_of_it() -> None:
    async with practise("host-gone", speed=20, watched=True) as practice:
        host = practice.workspace.host
        told = await practice.ask("mute llm-two 2h disk swap")
        assert "The host `llm-two` is muted until" in told
        await practice.until(lambda _: not host.reachable, within=WITHIN)
        await practice.until(lambda _: host.reachable, within=WITHIN)
        before = looks(practice)
        await until(lambda: looks(practice) >= before + 4)
        assert practice.roots() == []
        assert "Muted: host" in await practice.ask("incidents")
        assert "with its host" in await practice.ask("status")
        assert "no longer muted" in await practice.ask("unmute llm-two")
        async with asyncio.timeout(WITHIN):
            while "uted" in await practice.ask("status"):
                pass  # its watch hears of it a moment later


async def test_in_its_thread_it_needs_no_name_and_the_thread_tells_who() -> None:
    async with practise("host-gone", speed=20, watched=True) as practice:
        root = (await practice.until(lambda _: practice.roots(), within=WITHIN))[0]
        assert (
            await practice.slack.mention(ALICE, CHANNEL, "mute 2h disk swap", thread_ts=root.ts)
        ).acknowledged
        told = await practice.reply(root, "Muted by")
        assert "disk swap" in told.plain
        await practice.until(lambda _: "muted until" in practice.roots()[0].plain)
        await practice.reply(root, "resolved", within=WITHIN)
        assert len(practice.roots()) == 1

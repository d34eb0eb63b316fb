"""Hosts that go out of sight, go dark, or are rebooted amid a start: what the thread says in the end."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from tests.support.practice import Practice, practise

if TYPE_CHECKING:
    from bot.practice.slack_state import PostedMessage


async def loading(practice: Practice) -> PostedMessage:
    """A restart that loads weights."""
    root = await practice.begin()
    await practice.reply(root, "Ranks connected")
    return root


def count(replies: list[str], words: str) -> int:
    return sum(words in reply for reply in replies)


async def test_a_host_out_of_sight_is_told_and_its_start_goes_on() -> None:
    async with practise("healthy", speed=120) as practice:
        root = await loading(practice)
        await practice.workspace.host.close_door()
        await practice.reply(root, "has been out of sight for")
        await practice.workspace.host.open_door()
        assert (await practice.verdict()).verdict == "healthy"
        replies = practice.replies(root)
        assert count(replies, "has been out of sight for") == count(replies, "can be seen again") == 1
        assert count(replies, "Weights loaded") == 1
        assert count(replies, "no longer holds") == count(replies, "rebooted") == 0
        assert practice.orders() == ["restart"]


async def test_the_start_that_comes_with_a_boot_is_followed_to_its_proof() -> None:
    async with practise("healthy", speed=120) as practice:
        root = await loading(practice)
        await practice.workspace.host.reboot(takes=timedelta(minutes=2))
        assert (await practice.verdict()).verdict == "healthy"
        replies = practice.replies(root)
        told = next(at for at, reply in enumerate(replies) if "was rebooted in the midst" in reply)
        assert count(replies[:told], "Weights loaded") == 0
        assert count(replies[told:], "Weights loaded") == 1
        assert count(replies, "was rebooted") == 1
        assert count(replies, "failed") == 0
        assert practice.orders() == ["restart"]


async def test_a_unit_that_does_not_come_up_with_its_host_has_failed() -> None:
    async with practise("healthy", speed=120) as practice:
        root = await loading(practice)
        await practice.workspace.host.reboot(enabled=False)
        assert (await practice.verdict()).verdict == "failed"
        verdict = await practice.reply(root, "failed")
        assert "host rebooted: the unit did not come up with it" in verdict.plain
        assert "systemctl enable" in verdict.plain
        assert practice.orders() == ["restart"]


async def test_a_stop_outside_chat_is_still_told_as_one() -> None:
    async with practise("healthy", speed=120) as practice:
        root = await loading(practice)
        practice.workspace.host.unit.submit("stop")
        assert (await practice.verdict()).verdict == "failed"
        assert "it was stopped outside chat" in (await practice.reply(root, "failed")).plain

"""Hosts that go out of sight, go dark, or are rebooted amid a start: what the thread says in the end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.clients.ssh import Host
from bot.clock import Clock
from bot.core.events import HostName, LineRead, Member, UnitName
from bot.core.journal import Position
from bot.core.redact import Redactor
from bot.practice.host import PracticeHost
from bot.practice.scenarios import SCENARIOS
from bot.practice.workspace import ALICE
from bot.sources import Inbox, Link, follow_journal
from config.services import HostSection
from tests.support.black_hole import black_hole
from tests.support.practice import Practice, practise
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bot.core.events import Cursor
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


async def test_a_network_that_swallows_every_byte_costs_no_line_and_doubles_none(tmp_path: Path) -> None:
    """Nobody is told that such a link is dead; it is found out, and the journal is read on over another."""
    practice = PracticeHost(Clock(200), SCENARIOS["healthy"])
    await practice.start()
    try:
        async with black_hole(practice.port) as way, dialled(practice, way.port, tmp_path) as host:
            unit = UnitName(practice.unit_name)
            start = Position(await host.journal_end(scope="system"))
            link = Link(Member(f"llm-two/{unit}"), unit, "system", host, position=start)
            written, before = practice.journal.entries, len(practice.journal.entries)
            heard: list[Cursor | None] = []
            task = asyncio.create_task(listen(link, heard))
            practice.unit.submit("restart")
            await until(lambda: len(heard) > 10)
            way.swallow()
            await until(lambda: link.lost)
            way.let_through()
            await until(lambda: any("ready to roll" in entry.text("MESSAGE") for entry in written[before:]))
            await until(lambda: len(heard) >= len(written) - before)
            task.cancel()
            assert heard == [entry.cursor for entry in written[before:]][: len(heard)]
            assert way.passed == 2
    finally:
        await practice.stop()


@asynccontextmanager
async def dialled(practice: PracticeHost, port: int, folder: Path) -> AsyncIterator[Host]:
    """The bot's way to the practice host over another port."""
    known = practice.known_hosts.read_text().replace(str(practice.port), str(port))
    (folder / "known_hosts").write_text(known)
    section = HostSection(
        address=practice.address,
        port=port,
        user=practice.user,
        identity_file=str(practice.identity_file),
        known_hosts=str(folder / "known_hosts"),
    )
    host = Host(HostName("llm-two"), section, keepalive=0.2)
    try:
        yield host
    finally:
        await host.close()


async def listen(link: Link, heard: list[Cursor | None]) -> None:
    inbox: Inbox = asyncio.Queue()
    following = asyncio.create_task(follow_journal(link, inbox, redactor=Redactor()))
    try:
        while True:
            lines = [event.line for event in (await inbox.get()).events if isinstance(event, LineRead)]
            heard += [line.cursor for line in lines if not line.partial]
    finally:
        following.cancel()


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


async def test_who_asks_a_dark_host_hears_so_before_it_is_given_up_and_nothing_is_begun() -> None:
    async with practise("healthy", speed=120) as practice:
        await practice.workspace.host.go_dark()
        assert "has not answered for 4s; still trying" in await practice.ask("restart")
        _, given_up = await practice.until(
            lambda slack: slack.ephemerals(ALICE)[1:] and slack.ephemerals(ALICE)
        )
        assert given_up.plain.startswith("No restart of kimi-k2.5 was begun.")
        assert practice.roots() == []
        assert practice.orders() == []

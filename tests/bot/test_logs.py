"""The log of a service as a person gets it who asked for it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from bot.core.events import ChannelId, MessageTs, UserId
from bot.errors import HostUnreachable
from tests.support.carriers import SECRET, SERVICE, backstage, configured
from tests.support.configurations import BOB, OPS
from tests.support.journal_entries import make_entry, write_entries

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

pytestmark = pytest.mark.looptime


async def test_logs_come_masked_as_a_file_into_the_thread_they_were_asked_in() -> None:
    async with backstage() as stage:
        stage.host.log = write_entries(make_entry(1, f"key={SECRET}"), make_entry(2, "loading"))
        refusal = await stage.startups.logs(
            SERVICE, by=UserId(BOB), channel=ChannelId(OPS), thread_ts=MessageTs("17.1"), lines=200
        )
        assert refusal is None
        [letter] = stage.store.queued.values()
        assert (letter.kind, letter.channel, letter.thread_ts) == ("upload", OPS, "17.1")
        assert letter.file is not None
        assert (letter.file.name, letter.file.lines, letter.file.masked) == ("kimi-k2.5-llm-two.log", 2, 1)
        assert f"<@{BOB}>" in letter.text
        content = stage.store.files[letter.id]
        assert SECRET.encode() not in content
        assert b"loading" in content
    assert stage.host.reads[0]["lines"] == 200


async def test_logs_asked_for_outside_a_thread_hang_under_a_message_of_their_own() -> None:
    async with backstage() as stage:
        stage.host.log = write_entries(make_entry(1, "loading"))
        asked = partial(stage.startups.logs, SERVICE, by=UserId(BOB), channel=ChannelId(OPS), thread_ts=None)
        assert await asked() is None
        root, letter = stage.store.queued.values()
        assert (root.kind, root.channel) == ("root", OPS)
        assert f"<@{BOB}>" in root.text
        assert (letter.kind, letter.thread, letter.thread_ts) == ("upload", root.thread, None)
        assert await asked() is None
        assert len({queued.thread for queued in stage.store.queued.values()}) == 2


async def test_what_another_process_sent_already_is_not_sent_again() -> None:
    async with backstage() as stage:
        stage.host.log = write_entries(make_entry(1, "loading"))
        asked = partial(stage.startups.logs, SERVICE, by=UserId(BOB), channel=ChannelId(OPS), thread_ts=None)
        for _ in range(2):
            assert await asked(token="1.2.same") is None
        assert [message.kind for message in stage.store.queued.values()] == ["root", "upload"]


async def test_of_several_members_one_host_that_is_gone_withholds_no_log_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    members = [{"host": "llm-two", "unit": f"node{number}.service"} for number in (0, 1)]
    async with backstage(configured(host=None, unit=None, members=members)) as stage:
        told: list[tuple[str, ...]] = []

        async def slow(hosts: Sequence[str], seconds: float) -> None:
            assert seconds == 4
            told.append(tuple(hosts))

        async def read_journal(unit: str, **_asked: object) -> AsyncGenerator[bytes, None]:
            if unit == "node0.service":
                await asyncio.sleep(15)
                assert stage.store.queued  # nobody waits for it
                raise HostUnreachable("llm-two", "llm-two: no connection.")
            yield write_entries(make_entry(1, "loading"))

        monkeypatch.setattr(stage.host, "read_journal", read_journal)
        stage.host.gate.clear()
        refusal = await stage.startups.logs(
            SERVICE, by=UserId(BOB), channel=ChannelId(OPS), thread_ts=MessageTs("17.1"), slow=slow
        )
        assert refusal == "llm-two: no connection."
        assert told == [("llm-two",)]
        [letter] = stage.store.queued.values()
        assert letter.file is not None
        assert letter.file.name == "kimi-k2.5-llm-two-node1.log"  # of its own
        assert "on llm-two/node1.service" in letter.text


async def test_outside_a_thread_the_files_of_all_members_hang_below_one_message() -> None:
    members = [{"host": "llm-two", "unit": f"node{number}.service"} for number in (0, 1)]
    async with backstage(configured(host=None, unit=None, members=members)) as stage:
        stage.host.log = write_entries(make_entry(1, "loading"))
        assert (
            await stage.startups.logs(SERVICE, by=UserId(BOB), channel=ChannelId(OPS), thread_ts=None) is None
        )
        assert [message.kind for message in stage.store.queued.values()] == ["root", "upload", "upload"]

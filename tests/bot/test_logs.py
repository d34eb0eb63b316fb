"""The log of a service as a person gets it who asked for it."""

from __future__ import annotations

from functools import partial

import pytest

from bot.core.events import ChannelId, MessageTs, UserId
from tests.support.carriers import SECRET, SERVICE, backstage
from tests.support.configurations import BOB, OPS
from tests.support.journal_entries import make_entry, write_entries

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

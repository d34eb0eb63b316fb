"""The reply that stands in for a file: the end of it, what is missing, within Slack's limits."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.clients.slack_calls import connect_slack
from bot.clients.slack_files import complete, stand_in, upload
from bot.core.events import LogLine
from bot.core.tail import render_tail
from bot.errors import SlackRefused
from bot.practice.slack_faults import UPLOAD, FaultPlan
from tests.support import outgoing
from tests.support.outbox import open_slack

if TYPE_CHECKING:
    from bot.clients.records import FileNote

CODE = "file_uploads_disabled"
AT = datetime(2026, 5, 29, 23, 49, 47, tzinfo=UTC)
MOST = 12_000  # bytes of blocks below which Slack takes a message


def words(content: bytes | None) -> str:
    return json.dumps(stand_in(outgoing.upload(1), content, CODE).blocks, ensure_ascii=False)


def test_a_short_file_is_told_whole() -> None:
    told = words(b"first\nsecond\n")
    assert r"first\nsecond" in told
    assert "All of it follows: 2 lines." in told
    assert CODE in told


def test_a_long_file_is_told_from_its_end() -> None:
    content = "".join(f"line {number}\n" for number in range(10_000)).encode()
    told = words(content)
    assert "line 9999" in told
    assert "line 1\\n" not in told
    assert "of 10,000 lines follow; the rest is missing here" in told


def test_a_log_has_as_many_lines_in_the_note_as_in_its_comment() -> None:
    text = "first\nand its second row\x0c and \u2028 more"
    tail = render_tail([LogLine(text, text, at=AT)] * 80)
    told = words(tail.text.encode())
    assert "of 80 lines follow; the rest is missing here" in told
    assert r"first\n\tand its second row" in told
    assert "# kimi-bot log" not in words(render_tail([LogLine("x", "x", at=AT)]).text.encode())


def test_one_line_too_long_is_told_by_its_end() -> None:
    assert "the end" in words(b"x" * 120_000 + b"the end\n")


def test_the_content_may_be_gone() -> None:
    assert "no longer there" in words(None)


def test_colours_and_controls_are_not_shown() -> None:
    assert "red text" in words(b"\x1b[31mred\x1b[0m\x00 text\n")


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=6000), st.text(max_size=3000))
def test_whatever_the_file_holds_slack_takes_it(content: bytes, comment: str) -> None:
    message = outgoing.upload(1)
    assert message.file
    told = stand_in(
        message.model_copy(update={"file": message.file.model_copy(update={"comment": comment})}),
        content,
        CODE,
    )
    assert len(json.dumps(told.blocks).encode()) < MOST
    assert told.text.strip()
    assert told.kind == "reply"
    assert told.id == message.id


def note() -> FileNote:
    file = outgoing.upload(1).file
    assert file is not None
    return file


@pytest.mark.parametrize("content", [b"", b"x", b"\xff\x00" * 100_000, b"a line\n" * 1_000_000])
async def test_the_three_steps_bring_every_byte(content: bytes) -> None:
    heard: list[str] = []

    async def reserved(file_id: str) -> None:
        heard.append(file_id)
        assert slack.files == {}

    async with open_slack() as slack:
        web = connect_slack(slack.bot_token, slack.api_url)
        file_id = await upload(web, note(), content, reserved=reserved)
        await complete(web, outgoing.upload(1), file_id, channel=outgoing.CHANNEL, thread_ts=None)
        assert heard == [file_id]
        assert slack.files[file_id].content == (content or b"(empty)\n")
        assert slack.refusals == []


async def test_a_picture_is_uploaded_with_its_words() -> None:
    async def reserved(_file_id: str) -> None:
        """Nothing to note."""

    async with open_slack() as slack:
        web = connect_slack(slack.bot_token, slack.api_url)
        picture = note().model_copy(update={"name": "start.png", "alt": "w" * 1_200})
        file_id = await upload(web, picture, b"\x89PNG\r\n\x1a\n", reserved=reserved)
        await complete(web, outgoing.upload(1), file_id, channel=outgoing.CHANNEL, thread_ts=None)
        assert slack.files[file_id].alt == "w" * 1_000
        assert slack.refusals == []


def test_a_picture_that_cannot_be_shown_is_told() -> None:
    message = outgoing.upload(1)
    picture = note().model_copy(update={"name": "start.png", "alt": "weights 5m04s; TP5 was slowest"})
    told = stand_in(message.model_copy(update={"file": picture}), b"\x89PNG\r\n\x1a\n", CODE)
    assert told.kind == "reply"
    assert told.text.endswith(
        "The picture could not be attached: Slack answered file_uploads_disabled. "
        "In words: weights 5m04s; TP5 was slowest"
    )
    assert "PNG" not in json.dumps(told.blocks)


async def test_an_upload_address_that_says_no_is_a_refusal() -> None:
    async def reserved(_file_id: str) -> None:
        raise AssertionError

    async with open_slack() as slack:
        slack.faults.add(UPLOAD, FaultPlan.error("no"))
        web = connect_slack(slack.bot_token, slack.api_url)
        with pytest.raises(SlackRefused, match="HTTP status 400"):
            await upload(web, note(), b"x", reserved=reserved)

"""Words about what Slack would not take."""

from __future__ import annotations

import json

import pytest

from bot.core.blocks import Message, actions, button, context, preformatted, section
from bot.core.events import ChannelId
from bot.core.undelivered import (
    mend,
    name_place,
    render_aside,
    render_plain,
    render_refusal,
    render_refusal_with,
    render_untold,
)

CHANNEL = ChannelId("C0123456789")
REFUSAL = render_refusal(CHANNEL, "chat.update", "is_archived")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("not_in_channel", "/invite"),
        ("channel_not_found", "/invite"),
        ("is_archived", "Unarchive"),
        ("restricted_action_read_only_channel", "manages the channel"),
        ("missing_scope", "Reinstall"),
        ("of_next_year", "kimi-bot check"),
    ],
)
def test_each_code_says_who_can_mend_it(code: str, words: str) -> None:
    assert words in mend(code)


def test_a_refusal_names_place_method_and_code() -> None:
    for words in ("<#C0123456789>", "`chat.update`", "`is_archived`"):
        assert words in REFUSAL.text
        assert words in json.dumps(REFUSAL.blocks)


def test_the_present_follows_and_slack_takes_it() -> None:
    small = Message("now", (section("now"),))
    assert render_refusal_with(REFUSAL, small).blocks == (*REFUSAL.blocks, *small.blocks)
    large = Message("now", tuple(section(str(number) * 900) for number in range(60)))
    both = render_refusal_with(REFUSAL, large)
    assert both.text == f"{REFUSAL.text}\nnow"
    assert len(both.blocks) <= 50
    assert len(json.dumps(both.blocks)) <= 12_000
    assert both.blocks[0] == REFUSAL.blocks[0]


def test_who_asked_hears_where_it_is_told_instead() -> None:
    assert "<#C0FALLBACK>" in render_untold(CHANNEL, "is_archived", fallback=ChannelId("C0FALLBACK")).text
    assert "told in" not in render_untold(CHANNEL, "is_archived", fallback=None).text


def test_a_conversation_is_named_by_its_person() -> None:
    assert name_place(ChannelId("U0ALICE")) == "<@U0ALICE>"


def test_a_private_answer_that_is_told_aside_says_why_and_has_no_buttons() -> None:
    answer = Message("Restart it?", (section("Restart it?"), actions(button("Yes", "confirm", "x"))))
    aside = render_aside(answer, "C0OPS", "user_not_in_channel")
    assert [block["type"] for block in aside.blocks] == ["section", "context"]
    for word in ("Restart it?\nAsked in <#C0OPS>", "`user_not_in_channel`", "type it with `/kimi` there"):
        assert word in aside.text
    plain = render_aside(Message("up", (section("up"),)), "C0OPS", "unknown_method")
    assert "buttons" not in plain.text


def test_a_private_answer_told_aside_needs_no_channel() -> None:
    answer = Message("Restart it?", (section("Restart it?"), actions(button("Yes", "confirm", "x"))))
    closed = render_aside(answer, None, "not_found")
    assert closed.text == (
        "Restart it?\nTold here, because Slack would not show it to you there: it answers `not_found`. "
        "It has buttons that work in a channel alone: type it with `/kimi` there to see them."
    )
    assert render_aside(Message("up"), None, None).text.endswith("kimi went down before it could answer you.")


def test_an_answer_without_its_blocks_says_what_stood_in_them_and_stays_short() -> None:
    blocks = (
        section("*kimi-k2.5* went wrong"),
        preformatted("a log", 100),
        context("ask *why*"),
        {"type": "section", "fields": [{"type": "mrkdwn", "text": "a field"}]},
        actions(button("Yes", "confirm", "x")),
    )
    plain = render_plain(Message("short", blocks), "invalid_blocks")
    assert plain == Message(
        "*kimi-k2.5* went wrong\nask *why*\n"
        "Shortened, without tables and buttons: Slack answers `invalid_blocks` to all of it."
    )
    assert render_plain(Message("short"), "no_text").text.startswith("short\nShortened")
    long = render_plain(Message("x", tuple(section("ü" * 400) for _ in range(40))), "msg_too_long")
    assert len(long.text.encode()) < 4_000

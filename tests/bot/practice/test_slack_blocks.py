"""Blocks that Slack would refuse are refused."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk.models.blocks import Block, HeaderBlock, SectionBlock

from bot.practice.slack_blocks import HOME, MODAL, check_blocks

SECTION = {"type": "section", "text": {"type": "mrkdwn", "text": "*weights* 12/64"}}
DIVIDER = {"type": "divider"}
CELL = {"type": "raw_text", "text": "weights"}


def plain(text: str) -> dict[str, str]:
    return {"type": "plain_text", "text": text}


def mrkdwn(text: str) -> dict[str, str]:
    return {"type": "mrkdwn", "text": text}


def button(action_id: str) -> dict[str, Any]:
    return {"type": "button", "text": plain("Go"), "action_id": action_id}


@pytest.mark.parametrize(
    "block",
    [
        SECTION,
        DIVIDER,
        {**SECTION, "text": mrkdwn("x" * 3000)},
        {"type": "section", "fields": [mrkdwn("x" * 2000)] * 10},
        {"type": "header", "text": plain("x" * 150)},
        {"type": "context", "elements": [mrkdwn("x")] * 10},
        {"type": "actions", "elements": [button(str(n)) for n in range(25)]},
        {"type": "table", "rows": [[CELL] * 20] * 50, "column_settings": [{"align": "right"}, None]},
        {"type": "markdown", "text": "x" * 12_000},
        {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": []}]},
        {"type": "image", "image_url": "https://example.com/a.png", "alt_text": "a", "title": plain("A")},
        {"type": "input", "label": plain("Why"), "element": {"type": "plain_text_input"}},
        {"type": "plan", "title": "restart"},
    ],
)
def test_what_slack_takes_passes(block: dict[str, Any]) -> None:
    assert check_blocks([block]) == []


@pytest.mark.parametrize(
    ("block", "finding"),
    [
        ({"type": "section"}, "missing required field: text or fields [json-pointer:/blocks/0]"),
        (
            {**SECTION, "text": mrkdwn("x" * 3001)},
            "must be less than 3001 characters [json-pointer:/blocks/0/text/text]",
        ),
        (
            {"type": "section", "fields": [mrkdwn("x")] * 11},
            "no more than 10 items allowed [json-pointer:/blocks/0/fields]",
        ),
        (
            {"type": "section", "fields": [mrkdwn("x" * 2001)]},
            "must be less than 2001 characters [json-pointer:/blocks/0/fields/0/text]",
        ),
        (
            {"type": "header", "text": plain("x" * 151)},
            "must be less than 151 characters [json-pointer:/blocks/0/text/text]",
        ),
        (
            {"type": "header", "text": mrkdwn("x")},
            "must be a valid enum value: plain_text [json-pointer:/blocks/0/text/type]",
        ),
        (
            {"type": "context", "elements": []},
            "no fewer than 1 items allowed [json-pointer:/blocks/0/elements]",
        ),
        (
            {"type": "context", "elements": [mrkdwn("x")] * 11},
            "no more than 10 items allowed [json-pointer:/blocks/0/elements]",
        ),
        (
            {"type": "actions", "elements": [button(str(n)) for n in range(26)]},
            "no more than 25 items allowed [json-pointer:/blocks/0/elements]",
        ),
        (
            {"type": "actions", "elements": [button("a"), button("a")]},
            "`action_id` a already exists for another action [json-pointer:/blocks/0/elements/1/action_id]",
        ),
        (
            {"type": "table", "rows": [[CELL]] * 101},
            "no more than 100 items allowed [json-pointer:/blocks/0/rows]",
        ),
        (
            {"type": "table", "rows": [[CELL] * 21]},
            "no more than 20 items allowed [json-pointer:/blocks/0/rows/0/cells]",
        ),
        (
            {"type": "table", "rows": [[{"type": "raw_text", "text": ""}]]},
            "must be more than 0 characters [json-pointer:/blocks/0/rows/0/0/text]",
        ),
        (
            {"type": "table", "rows": [[mrkdwn("x")]]},
            "must be a valid enum value: raw_text, rich_text [json-pointer:/blocks/0/rows/0/0/type]",
        ),
        (
            {"type": "markdown", "text": "x" * 12_001},
            "must be less than 12001 characters [json-pointer:/blocks/0/text]",
        ),
        ({**DIVIDER, "text": "x"}, "invalid additional property: text [json-pointer:/blocks/0]"),
        (
            {**DIVIDER, "block_id": "x" * 256},
            "must be less than 256 characters [json-pointer:/blocks/0/block_id]",
        ),
        ({"type": "sparkline"}, "unsupported type: sparkline [json-pointer:/blocks/0]"),
    ],
)
def test_what_slack_refuses_is_named(block: dict[str, Any], finding: str) -> None:
    assert finding in check_blocks([block])


def test_fifty_blocks_in_a_message_and_a_hundred_elsewhere() -> None:
    assert check_blocks([DIVIDER] * 50) == []
    assert check_blocks([DIVIDER] * 51) == ["no more than 50 items allowed [json-pointer:/blocks]"]
    assert check_blocks([DIVIDER] * 100, surface=MODAL) == []
    assert check_blocks([DIVIDER] * 101, surface=HOME) != []


def test_tables_belong_into_messages() -> None:
    assert check_blocks([{"type": "table", "rows": [[CELL]]}], surface=MODAL) == [
        "unsupported type: table [json-pointer:/blocks/0]",
    ]


def test_block_ids_are_unique() -> None:
    twice = [{**DIVIDER, "block_id": "a"}, {**DIVIDER, "block_id": "a"}]
    assert check_blocks(twice) == ['block_id "a" already exists [json-pointer:/blocks/1/block_id]']


def test_tables_share_ten_thousand_characters() -> None:
    table = {"type": "table", "rows": [[{"type": "raw_text", "text": "x" * 5001}]]}
    assert check_blocks([table]) == []
    assert check_blocks([table, table]) == [
        "tables must be less than 10001 characters together [json-pointer:/blocks]",
    ]


def test_markdown_blocks_share_twelve_thousand_characters() -> None:
    assert len(check_blocks([{"type": "markdown", "text": "x" * 6001}] * 2)) == 1


@pytest.mark.parametrize("value", [{}, "[]", None])
def test_blocks_are_an_array(value: Any) -> None:
    assert check_blocks(value) == ["must be an array [json-pointer:/blocks]"]


@pytest.mark.parametrize(
    "block", [HeaderBlock(text="x" * 150), SectionBlock(text="hello", fields=["a", "b"])]
)
def test_the_sdks_own_blocks_pass(block: Block) -> None:
    block.validate_json()
    assert check_blocks([block.to_dict()]) == []

"""Slack's limits, at and beyond each border."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.practice.slack_blocks import HOME, MODAL
from bot.practice.slack_limits import (
    check_content,
    check_same_types,
    check_ts,
    check_update_text,
    check_view,
    read_blocks,
    read_metadata,
    weigh,
)
from bot.practice.slack_state import Refused

SECTION = {"type": "section", "text": {"type": "mrkdwn", "text": "x"}}
DIVIDER = {"type": "divider"}
MODAL_VIEW = {"type": "modal", "title": {"type": "plain_text", "text": "Restart"}, "blocks": [SECTION]}


def section(characters: int) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": "x" * characters}}


@pytest.mark.parametrize("value", ["x", [1], {"type": "divider"}])
def test_blocks_that_are_no_array_of_objects(value: Any) -> None:
    with pytest.raises(Refused, match="invalid_blocks_format"):
        read_blocks(value)


def test_invalid_blocks_come_with_the_place() -> None:
    with pytest.raises(Refused, match="invalid_blocks") as refusal:
        read_blocks([{"type": "section"}])
    body = refusal.value.body()
    finding = "missing required field: text or fields [json-pointer:/blocks/0]"
    assert body["errors"] == [finding]
    assert body["response_metadata"] == {"messages": [f"[ERROR] {finding}"]}


def test_a_message_beyond_thirteen_thousand_bytes_of_blocks() -> None:
    assert len(read_blocks([section(3000)] * 4)) == 4
    with pytest.raises(Refused, match="msg_blocks_too_long"):
        read_blocks([section(3000)] * 5)


def test_bytes_count_not_characters() -> None:
    with pytest.raises(Refused, match="msg_blocks_too_long"):
        read_blocks([{"type": "section", "text": {"type": "mrkdwn", "text": "€" * 3000}}] * 2)


@given(
    st.recursive(
        st.text() | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
@settings(max_examples=50, deadline=None)
def test_weight_is_compact_json(value: Any) -> None:
    assert weigh(value) <= len(json.dumps(value).encode())


def test_a_message_needs_something_to_show() -> None:
    with pytest.raises(Refused, match="no_text"):
        check_content("", ())
    check_content("", (DIVIDER,))
    check_content("", (), [{"text": "old"}])


def test_an_edit_takes_four_thousand_bytes_of_text() -> None:
    check_update_text("x" * 4000)
    with pytest.raises(Refused, match="msg_too_long"):
        check_update_text("x" * 4001)
    with pytest.raises(Refused, match="msg_too_long"):
        check_update_text("é" * 2001)


def test_an_edit_keeps_the_types_of_blocks_in_place() -> None:
    check_same_types((SECTION, DIVIDER), (SECTION,))
    check_same_types((SECTION,), (SECTION, DIVIDER))
    check_same_types((), (SECTION,))
    with pytest.raises(Refused, match="block_mismatch"):
        check_same_types((SECTION, DIVIDER), (DIVIDER,))


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("x", "invalid_metadata_format"),
        ({"event_type": "x"}, "invalid_metadata_schema"),
        ({"event_type": "", "event_payload": {}}, "invalid_metadata_schema"),
        ({"event_type": "x", "event_payload": []}, "invalid_metadata_schema"),
        ({"event_type": "x", "event_payload": {}, "more": 1}, "invalid_metadata_schema"),
        ({"event_type": "x", "event_payload": {"a": "x" * 4000}}, "metadata_too_large"),
    ],
)
def test_metadata_slack_refuses(value: Any, code: str) -> None:
    with pytest.raises(Refused, match=code):
        read_metadata(value)


def test_metadata_slack_takes() -> None:
    value = {"event_type": "kimi_message", "event_payload": {"operation": "op-1", "sequence": 3}}
    assert read_metadata(value) == value
    assert read_metadata(None) is None


@pytest.mark.parametrize("ts", ["", "1", "1700000000.1", "1700000000.1234567", "x700000000.123456"])
def test_a_ts_has_its_form(ts: str) -> None:
    check_ts("1700000000.123456", "invalid_ts")
    with pytest.raises(Refused, match="invalid_ts"):
        check_ts(ts, "invalid_ts")


@pytest.mark.parametrize(
    "change",
    [
        {"type": "home"},
        {"title": {"type": "plain_text", "text": "x" * 25}},
        {"submit": {"type": "plain_text", "text": "x" * 25}},
        {"private_metadata": "x" * 3001},
        {"callback_id": "x" * 256},
        {"blocks": [{"type": "table", "rows": []}]},
        {"colour": "red"},
        {
            "blocks": [
                {
                    "type": "input",
                    "label": {"type": "plain_text", "text": "x"},
                    "element": {"type": "plain_text_input"},
                }
            ]
        },
    ],
)
def test_views_slack_refuses(change: dict[str, Any]) -> None:
    check_view(MODAL_VIEW, kind=MODAL)
    with pytest.raises(Refused, match="invalid_arguments"):
        check_view({**MODAL_VIEW, **change}, kind=MODAL)


def test_a_home_tab_has_no_title() -> None:
    check_view({"type": "home", "blocks": []}, kind=HOME)
    with pytest.raises(Refused, match="invalid_arguments"):
        check_view({**MODAL_VIEW, "type": "home"}, kind=HOME)

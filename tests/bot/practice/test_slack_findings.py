"""What is wrong with an object, in Slack's words."""

from __future__ import annotations

from typing import Any

import pytest

from bot.practice.slack_findings import Findings

WORDS = {"type": "mrkdwn", "text": "hello"}


def text(value: Any, **options: Any) -> list[str]:
    found = Findings()
    found.text(value, "/text", **{"most": 10, **options})
    return found.messages


@pytest.mark.parametrize(
    ("value", "finding"),
    [
        (None, "missing required field [json-pointer:/text]"),
        ("hello", "must be a JSON object [json-pointer:/text]"),
        ({**WORDS, "text": ""}, "must be more than 0 characters [json-pointer:/text/text]"),
        ({**WORDS, "text": "x" * 11}, "must be less than 11 characters [json-pointer:/text/text]"),
        ({**WORDS, "text": 5}, "must be a string [json-pointer:/text/text]"),
        ({"type": "mrkdwn"}, "missing required field: text [json-pointer:/text]"),
        ({**WORDS, "emoji": True}, "invalid additional property: emoji [json-pointer:/text]"),
        ({**WORDS, "verbatim": "yes"}, "must be a boolean [json-pointer:/text/verbatim]"),
        (
            {"type": "markdown", "text": "x"},
            "must be a valid enum value: mrkdwn, plain_text [json-pointer:/text/type]",
        ),
    ],
)
def test_a_text_object_is_refused_in_slacks_words(value: Any, finding: str) -> None:
    assert text(value) == [finding]


def test_a_text_object_within_its_limits_passes() -> None:
    assert text(WORDS) == []
    assert text({"type": "plain_text", "text": "x" * 10, "emoji": True}) == []


def test_a_header_takes_plain_text_alone() -> None:
    assert text(WORDS, kinds=("plain_text",)) == [
        "must be a valid enum value: plain_text [json-pointer:/text/type]",
    ]


@pytest.mark.parametrize(
    ("node", "finding"),
    [
        ({}, "missing required field: rows [json-pointer:/x]"),
        ({"rows": 1}, "must be an array [json-pointer:/x/rows]"),
        ({"rows": []}, "no fewer than 1 items allowed [json-pointer:/x/rows]"),
        ({"rows": [1, 2, 3]}, "no more than 2 items allowed [json-pointer:/x/rows]"),
    ],
)
def test_lists_have_a_least_and_a_most(node: dict[str, Any], finding: str) -> None:
    found = Findings()
    found.items(node, "rows", "/x", least=1, most=2)
    assert found.messages == [finding]


def test_a_url_must_be_one() -> None:
    found = Findings()
    found.url({"url": "javascript:alert(1)"}, "url", "/x")
    assert found.messages == ["must be a valid URL [json-pointer:/x/url]"]

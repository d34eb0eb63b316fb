"""Rich text as Slack takes it."""

from __future__ import annotations

from typing import Any

import pytest

from bot.practice.slack_findings import Findings
from bot.practice.slack_rich_text import check_rich_text

RUN = {"type": "text", "text": "Traceback", "style": {"bold": True}}
SECTION = {"type": "rich_text_section", "elements": [RUN]}


def check(*elements: Any) -> list[str]:
    found = Findings()
    check_rich_text(found, {"type": "rich_text", "elements": list(elements)}, "")
    return found.messages


@pytest.mark.parametrize(
    "element",
    [
        SECTION,
        {"type": "rich_text_section", "elements": []},
        {
            "type": "rich_text_preformatted",
            "elements": [{"type": "text", "text": "``` <!here> ```"}],
            "border": 1,
        },
        {
            "type": "rich_text_quote",
            "elements": [{"type": "link", "url": "https://example.com", "text": "x"}],
        },
        {"type": "rich_text_list", "style": "bullet", "indent": 8, "elements": [SECTION, SECTION]},
        {"type": "rich_text_section", "elements": [{"type": "user", "user_id": "U0"}]},
        {"type": "rich_text_section", "elements": [{"type": "date", "timestamp": 1, "format": "{time}"}]},
    ],
)
def test_what_slack_takes_passes(element: dict[str, Any]) -> None:
    assert check(element) == []


@pytest.mark.parametrize(
    ("element", "finding"),
    [
        ({"type": "section"}, "must be a valid enum value"),
        ({"type": "rich_text_section"}, "missing required field: elements [json-pointer:/elements/0]"),
        (
            {"type": "rich_text_section", "elements": [{"type": "text", "text": ""}]},
            "must be more than 0 characters [json-pointer:/elements/0/elements/0/text]",
        ),
        (
            {"type": "rich_text_section", "elements": [{"type": "mrkdwn", "text": "x"}]},
            "must be a valid enum value",
        ),
        (
            {"type": "rich_text_preformatted", "elements": [{"type": "user", "user_id": "U0"}]},
            "must be a valid enum value: link, text [json-pointer:/elements/0/elements/0/type]",
        ),
        (
            {"type": "rich_text_section", "elements": [{**RUN, "style": {"loud": True}}]},
            "invalid additional property: loud [json-pointer:/elements/0/elements/0/style]",
        ),
        (
            {"type": "rich_text_list", "elements": [SECTION]},
            "missing required field: style [json-pointer:/elements/0]",
        ),
        (
            {"type": "rich_text_list", "style": "bullet", "elements": [RUN]},
            "must be a valid enum value: rich_text_section [json-pointer:/elements/0/elements/0/type]",
        ),
        (
            {"type": "rich_text_list", "style": "bullet", "indent": 9, "elements": [SECTION]},
            "must be a valid enum value: 0, 1, 2, 3, 4, 5, 6, 7, 8 [json-pointer:/elements/0/indent]",
        ),
        (
            {"type": "rich_text_section", "elements": [{"type": "broadcast", "range": "all"}]},
            "must be a valid enum value: channel, everyone, here [json-pointer:/elements/0/elements/0/range]",
        ),
        (
            {"type": "rich_text_section", "elements": [{"type": "date", "timestamp": "1", "format": "x"}]},
            "must be an integer [json-pointer:/elements/0/elements/0/timestamp]",
        ),
        ({"type": "rich_text_quote", "elements": [RUN], "colour": 1}, "invalid additional property: colour"),
    ],
)
def test_what_slack_refuses_is_named(element: dict[str, Any], finding: str) -> None:
    (message,) = check(element)
    assert message.startswith(finding)


def test_a_block_needs_at_least_one_part() -> None:
    assert check() == ["no fewer than 1 items allowed [json-pointer:/elements]"]

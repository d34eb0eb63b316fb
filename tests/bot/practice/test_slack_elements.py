"""Elements of blocks within Slack's limits."""

from __future__ import annotations

from typing import Any

import pytest

from bot.practice.slack_elements import IN_ACTIONS, IN_INPUT, IN_SECTION, check_element
from bot.practice.slack_findings import Findings


def plain(text: str) -> dict[str, str]:
    return {"type": "plain_text", "text": text}


BUTTON = {"type": "button", "text": plain("Stop"), "action_id": "kimi:stop", "value": "{}", "style": "danger"}
CONFIRM = {"title": plain("Stop?"), "text": plain("Really?"), "confirm": plain("Yes"), "deny": plain("No")}
OPTION = {"text": plain("one"), "value": "1"}


def check(element: Any, allowed: set[str] = IN_ACTIONS) -> list[str]:
    found = Findings()
    check_element(found, element, "/e", allowed=allowed)
    return found.messages


@pytest.mark.parametrize(
    ("element", "allowed"),
    [
        (BUTTON, IN_ACTIONS),
        ({**BUTTON, "confirm": CONFIRM}, IN_SECTION),
        (
            {"type": "button", "text": plain("x" * 75), "value": "x" * 2000, "action_id": "x" * 255},
            IN_ACTIONS,
        ),
        ({"type": "overflow", "options": [{**OPTION, "value": str(n)} for n in range(5)]}, IN_ACTIONS),
        ({"type": "static_select", "options": [OPTION], "placeholder": plain("which")}, IN_INPUT),
        (
            {"type": "static_select", "option_groups": [{"label": plain("all"), "options": [OPTION]}]},
            IN_ACTIONS,
        ),
        ({"type": "multi_users_select"}, IN_ACTIONS),
        ({"type": "datepicker"}, IN_SECTION),
        ({"type": "image", "image_url": "https://example.com/a.png", "alt_text": "a"}, IN_SECTION),
        ({"type": "plain_text_input", "max_length": 3000, "multiline": True}, IN_INPUT),
        ({"type": "checkboxes", "options": [OPTION]}, IN_INPUT),
    ],
)
def test_what_slack_takes_passes(element: dict[str, Any], allowed: set[str]) -> None:
    assert check(element, allowed) == []


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"text": plain("x" * 76)}, "must be less than 76 characters [json-pointer:/e/text/text]"),
        (
            {"text": {"type": "mrkdwn", "text": "x"}},
            "must be a valid enum value: plain_text [json-pointer:/e/text/type]",
        ),
        ({"value": "x" * 2001}, "must be less than 2001 characters [json-pointer:/e/value]"),
        ({"action_id": "x" * 256}, "must be less than 256 characters [json-pointer:/e/action_id]"),
        ({"style": "warning"}, "must be a valid enum value: danger, primary [json-pointer:/e/style]"),
        ({"colour": "red"}, "invalid additional property: colour [json-pointer:/e]"),
        ({"url": "example.com"}, "must be a valid URL [json-pointer:/e/url]"),
        (
            {"confirm": {**CONFIRM, "text": plain("x" * 301)}},
            "must be less than 301 characters [json-pointer:/e/confirm/text/text]",
        ),
        (
            {"confirm": {**CONFIRM, "title": plain("x" * 101)}},
            "must be less than 101 characters [json-pointer:/e/confirm/title/text]",
        ),
        (
            {"confirm": {**CONFIRM, "deny": plain("x" * 31)}},
            "must be less than 31 characters [json-pointer:/e/confirm/deny/text]",
        ),
        ({"confirm": {"title": plain("x")}}, None),
    ],
)
def test_a_button_beyond_its_limits_is_refused(change: dict[str, Any], where: str | None) -> None:
    messages = check({**BUTTON, **change})
    assert where is None or messages == [where]
    assert messages


@pytest.mark.parametrize(
    "element",
    [
        {"type": "overflow", "options": [{**OPTION, "value": str(n)} for n in range(6)]},
        {"type": "overflow", "options": [OPTION, OPTION]},
        {"type": "static_select", "options": [{**OPTION, "value": str(n)} for n in range(101)]},
        {"type": "static_select", "options": [{"text": plain("x" * 76), "value": "1"}]},
        {"type": "static_select", "options": [{"text": plain("x"), "value": "x" * 151}]},
        {"type": "static_select"},
        {"type": "datepicker", "placeholder": plain("x" * 151)},
    ],
)
def test_menus_beyond_their_limits_are_refused(element: dict[str, Any]) -> None:
    assert len(check(element)) == 1


def test_elements_have_their_places() -> None:
    image = {"type": "image", "image_url": "https://example.com/a.png", "alt_text": "a"}
    assert check(image, IN_ACTIONS) == ["unsupported type: image [json-pointer:/e]"]
    assert check(BUTTON, IN_INPUT) == ["unsupported type: button [json-pointer:/e]"]
    assert check({"type": "plain_text_input"}, IN_ACTIONS) != []


def test_an_image_needs_its_words_and_one_source() -> None:
    assert check({"type": "image"}, IN_SECTION) == [
        "missing required field: alt_text [json-pointer:/e]",
        "exactly one of image_url and slack_file is needed [json-pointer:/e]",
    ]


def test_an_input_is_bounded() -> None:
    assert check({"type": "plain_text_input", "max_length": 3001}, IN_INPUT) == [
        "must be between 0 and 3000 [json-pointer:/e/max_length]",
    ]

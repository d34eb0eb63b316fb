"""Tests of the smoke test's words and numbers."""

from __future__ import annotations

import pytest

from bot.core.actions import SmokeUsual
from bot.core.baseline import Usual, learn_speeds
from bot.core.events import ServiceName, SmokeResult
from bot.core.smoke import SHOWN, answer_blocks, render_smoke, say_smoke, speeds_of, usual_of
from tests.support.slack_messages import assert_sendable, shown

KIMI = ServiceName("kimi-k2.5")
GOOD = SmokeResult(
    passed=True, first_token=0.312, tokens_per_second=84.2, answer="Hello", tool_call=True, reasoning=True
)


@pytest.mark.parametrize(
    ("result", "usual", "told"),
    [
        (GOOD, SmokeUsual(), "first token 0.31s, 84 tokens/s; tool call and reasoning parsed"),
        (
            GOOD,
            SmokeUsual(0.29, 86.1),
            "first token 0.31s (usual 0.29s), 84 tokens/s (usual 86); tool call and reasoning parsed",
        ),
        (SmokeResult(passed=True, first_token=1), SmokeUsual(None, 9), "first token 1.00s"),
        (SmokeResult(passed=True), SmokeUsual(1, 2), ""),
    ],
)
def test_numbers_stand_beside_the_usual_ones(result: SmokeResult, usual: SmokeUsual, told: str) -> None:
    assert say_smoke(result, usual) == told


def test_what_is_usual_is_learned_from_those_that_passed() -> None:
    usual = Usual()
    for speed in (80, 84, 200):
        usual = learn_speeds(
            usual, speeds_of(SmokeResult(passed=True, first_token=0.3, tokens_per_second=speed))
        )
    assert usual_of(usual) == SmokeUsual(0.3, 84)
    assert speeds_of(SmokeResult(passed=False, first_token=0.3)) == {}
    assert speeds_of(None) == {}
    assert speeds_of(SmokeResult(passed=True)) == {}


def test_the_answer_is_shown_as_it_stands_and_no_further_than_its_beginning() -> None:
    answer = "*bold* <!here> & ```fence``` " + "x" * 1_000
    [block] = answer_blocks(SmokeResult(passed=True, answer=answer))
    [piece] = block["elements"][0]["elements"]
    assert block["elements"][0]["type"] == "rich_text_preformatted"
    assert piece["text"] == answer[:SHOWN]
    assert answer_blocks(SmokeResult(passed=True, answer=" \n")) == ()
    assert answer_blocks(None) == ()


def test_the_verb_is_answered_with_the_same() -> None:
    message = render_smoke(KIMI, GOOD, SmokeUsual(0.29, 86))
    assert_sendable(message)
    assert "passed: first token 0.31s (usual 0.29s)" in message.text
    assert "Hello" in shown(message)


def test_what_did_not_pass_says_why() -> None:
    message = render_smoke(KIMI, SmokeResult(passed=False, error="the <engine> hung up."), SmokeUsual())
    assert_sendable(message)
    assert "not passed: the &lt;engine&gt; hung up." in message.text
    asked = render_smoke(KIMI, SmokeResult(passed=False, error="no answer; is it up?"), SmokeUsual())
    assert asked.text.endswith("not passed: no answer; is it up?")


def test_any_answer_keeps_within_slacks_limits() -> None:
    result = SmokeResult(passed=False, error="\u20ac" * 5_000, answer="\U0001f600" * 5_000)
    assert_sendable(render_smoke(KIMI, result, SmokeUsual()))

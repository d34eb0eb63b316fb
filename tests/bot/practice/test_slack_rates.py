"""Slack's rates: 429 with its seconds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.practice.slack_rates import RATES, Rate, Rates
from bot.practice.slack_state import Refused


class Watch:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def admitted(rates: Rates, method: str = "chat.postMessage", channel: str = "C0") -> bool:
    try:
        rates.admit(method, channel)
    except Refused:
        return False
    return True


def test_a_burst_then_one_a_second() -> None:
    watch = Watch()
    rates = Rates(now=watch)
    assert [admitted(rates) for _ in range(6)] == [True] * 5 + [False]
    watch.seconds = 1.0
    assert [admitted(rates) for _ in range(2)] == [True, False]


def test_each_channel_has_its_own_bucket() -> None:
    rates = Rates({"chat.postMessage": Rate(60, 1, by_channel=True)}, now=Watch())
    assert admitted(rates, channel="C1")
    assert not admitted(rates, channel="C1")
    assert admitted(rates, channel="C2")


def test_an_edit_counts_for_the_whole_workspace() -> None:
    rates = Rates({"chat.update": Rate(60, 1)}, now=Watch())
    assert admitted(rates, "chat.update", "C1")
    assert not admitted(rates, "chat.update", "C2")


def test_the_refusal_tells_whole_seconds() -> None:
    rates = Rates({"users.list": Rate(20, 1)}, now=Watch())
    rates.admit("users.list", "")
    with pytest.raises(Refused) as refusal:
        rates.admit("users.list", "")
    assert refusal.value.extra == {"retry_after": 3}


def test_what_has_no_limit_is_let_through() -> None:
    assert all(admitted(Rates({}), "chat.postMessage") for _ in range(50))


def test_edits_have_fifty_a_minute() -> None:
    assert RATES["chat.update"].per_minute == 50


@given(st.lists(st.floats(0, 5), max_size=60))
@settings(max_examples=50, deadline=None)
def test_never_more_than_the_burst_and_what_time_brought(gaps: list[float]) -> None:
    watch = Watch()
    rates = Rates(now=watch)
    passed = 0
    for gap in gaps:
        watch.seconds += gap
        passed += admitted(rates)
    assert passed <= 5 + watch.seconds + 1e-6

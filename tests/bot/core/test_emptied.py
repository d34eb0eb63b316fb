"""What is said of a Redis that came back empty."""

from __future__ import annotations

from bot.core.emptied import ANNOUNCED, BARRED, KEPT, STOP_LOST, TAKEN_UP, say_not_followed


def test_who_asks_meanwhile_learns_that_nothing_was_done() -> None:
    assert "nothing was done" in BARRED


def test_each_thread_and_the_channel_are_told_what_it_was() -> None:
    for words in (KEPT, TAKEN_UP, ANNOUNCED, STOP_LOST):
        assert "Redis came back empty" in words
    assert "the history" in ANNOUNCED


def test_a_reason_becomes_one_sentence() -> None:
    assert say_not_followed("it does not run").endswith("not followed any more: it does not run.")
    assert say_not_followed("it does not run.").endswith("not followed any more: it does not run.")

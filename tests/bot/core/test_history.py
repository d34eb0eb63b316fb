"""Durations over time as data: which startups, which layers, and the same in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.account import Account
from bot.core.actions import Verdict
from bot.core.events import PhaseId, Role, Verb
from bot.core.history import MOST_COLUMNS, History, describe_history, make_history
from bot.core.picture_words import MOST_ALT
from tests.support.waterfalls import past


def history_of(*verdicts: Verdict, usual: timedelta | None = None) -> History:
    made = make_history(
        "kimi-k2.5", [past(days, verdict) for days, verdict in enumerate(verdicts, 1)], usual=usual
    )
    assert made is not None
    return made


def test_the_oldest_stands_first_and_failures_are_told_apart() -> None:
    made = history_of(Verdict.HEALTHY, Verdict.FAILED, Verdict.HEALTHY)
    assert [column.good for column in made.columns] == [True, False, True]
    assert made.columns[0].began < made.columns[2].began
    assert [column.total for column in made.columns] == [451, 182, 451]


def test_layers_are_the_longest_phases_in_the_order_of_a_start() -> None:
    made = history_of(Verdict.HEALTHY)
    phases = [layer[0] for layer in made.layers]
    assert phases == [
        PhaseId.STOPPING,
        PhaseId.DISTRIBUTED,
        PhaseId.WEIGHTS,
        PhaseId.COMPILE,
        PhaseId.GRAPHS,
    ]
    assert all(role is Role.TARGET for _, role in made.layers)
    [column] = made.columns
    assert sum(column.parts) + column.rest == column.total


def test_the_wait_that_a_start_must_hold_is_no_phase_of_its_own() -> None:
    made = history_of(Verdict.HEALTHY)
    assert PhaseId.READY not in {layer[0] for layer in made.layers}
    assert made.columns[0].rest >= 30


def test_what_failed_after_hours_does_not_flatten_the_others() -> None:
    given_up = replace(past(4, Verdict.FAILED), account=Account(7_200.0))
    made = make_history("kimi-k2.5", [past(1), past(2), given_up])
    assert made is not None
    assert made.ceiling == 451 * 1.5
    assert [column.total for column in made.cut] == [7_200]
    assert "failed 2h" in describe_history(made)


def test_nothing_is_cut_where_no_start_came_through_or_none_took_long() -> None:
    for made in (history_of(Verdict.FAILED, Verdict.FAILED), history_of(Verdict.HEALTHY, Verdict.FAILED)):
        assert made.cut == ()
        assert made.ceiling == max(column.total for column in made.columns)


def test_what_came_to_no_verdict_and_what_was_no_start_is_not_drawn() -> None:
    startups = [
        past(1, Verdict.UNWATCHED),
        past(2, Verdict.SUPERSEDED),
        past(3, Verdict.FAILED, verb=Verb.STOP),
    ]
    assert make_history("kimi-k2.5", startups) is None
    assert make_history("kimi-k2.5", []) is None


def test_only_the_newest_are_drawn() -> None:
    made = history_of(*[Verdict.HEALTHY] * 40)
    assert len(made.columns) == MOST_COLUMNS
    assert made.columns[-1].began == past(1).began


def test_the_usual_is_the_learned_one_else_the_middle_of_what_is_shown() -> None:
    assert history_of(Verdict.HEALTHY, usual=timedelta(minutes=5)).usual == 300
    assert history_of(Verdict.HEALTHY, Verdict.HEALTHY).usual == 451
    assert history_of(Verdict.HEALTHY).usual is None


def test_a_record_older_than_accounts_is_one_grey_piece() -> None:
    made = make_history("kimi-k2.5", [past(known=Account())])
    assert made is not None
    assert made.layers == ()
    assert (made.columns[0].total, made.columns[0].rest) == (460, 460)


def test_the_words_say_what_the_picture_shows() -> None:
    told = describe_history(history_of(Verdict.HEALTHY, Verdict.FAILED, Verdict.HEALTHY))
    assert told.startswith("kimi-k2.5: 3 startups, 2 healthy and 1 failed. Usual: 7m31s. Quickest: 7m31s")
    assert "weights 5m04s" in told
    assert told.endswith(
        "Newest first: 28 May 23:49 healthy 7m31s, 27 May 23:49 failed 3m02s, 26 May 23:49 healthy 7m31s."
    )


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=1_500), st.lists(st.sampled_from(Verdict), max_size=50))
def test_there_are_always_words_that_slack_takes(title: str, verdicts: list[Verdict]) -> None:
    made = make_history(title, [past(days, verdict) for days, verdict in enumerate(verdicts, 1)])
    drawn = sum(verdict in {Verdict.HEALTHY, Verdict.FAILED} for verdict in verdicts)
    assert (made is None) == (drawn == 0)
    if made is not None:
        assert len(describe_history(made)) <= MOST_ALT

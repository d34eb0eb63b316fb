"""Durations, phases and ranks in words."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.events import PhaseId, Rank, Role, Verb
from bot.core.words import (
    Searched,
    count,
    draw_bar,
    end_sentence,
    join_names,
    label_phase,
    name_doing,
    name_done,
    name_phase,
    name_ranks,
    name_units,
    name_verb_doing,
    name_verb_done,
    spell_duration,
    spell_estimate,
    spell_span,
    spell_usual,
)


@pytest.mark.parametrize(
    ("span", "told"),
    [
        (0, "0s"),
        (-5, "0s"),
        (0.04, "0s"),
        (0.31, "0.3s"),
        (0.98, "1s"),
        (14, "14s"),
        (59.6, "1m"),
        (300, "5m"),
        (304, "5m04s"),
        (3599.7, "1h"),
        (3720, "1h02m"),
        (7200, "2h"),
        (97_200, "1d03h"),
        (172_800, "2d"),
    ],
)
def test_duration(span: float, told: str) -> None:
    assert spell_duration(timedelta(seconds=span)) == told


@pytest.mark.parametrize(
    ("span", "told"),
    [
        (-3, "less than a minute"),
        (59, "less than a minute"),
        (61, "about 1 min"),
        (240, "about 4 min"),
        (58 * 60, "about 1 h"),
        (70 * 60, "about 1 h 10 min"),
    ],
)
def test_estimate(span: float, told: str) -> None:
    assert spell_estimate(timedelta(seconds=span)) == told


@given(st.timedeltas())
def test_any_duration_can_be_told(span: timedelta) -> None:
    assert len(spell_duration(span)) < 20
    assert len(spell_estimate(span)) < 40


def test_usual_is_left_out_where_unknown() -> None:
    assert spell_usual(timedelta(seconds=304), timedelta(seconds=310)) == "5m04s (usual 5m10s)"
    assert spell_usual(timedelta(seconds=304), None) == "5m04s"


def test_a_bar_is_full_only_at_the_end() -> None:
    assert draw_bar(38 / 64) == "▓▓▓▓▓▓▓░░░░░"
    assert draw_bar(0.999) == "▓" * 11 + "░"
    assert draw_bar(1.0) == "▓" * 12
    assert draw_bar(7.0, width=3) == "▓▓▓"
    assert draw_bar(-1.0, width=3) == "░░░"


def test_a_sentence_ends_once() -> None:
    assert [end_sentence(words) for words in ("a", "a.", "a?", "a…")] == ["a.", "a.", "a?", "a…"]


def test_names_are_joined() -> None:
    assert join_names([]) == ""
    assert join_names(["a"]) == "a"
    assert join_names(["a", "b", "c"], last="or") == "a, b or c"


def test_many_ranks_are_counted() -> None:
    assert name_ranks([Rank("TP3")]) == "TP3"
    assert name_ranks([Rank(f"TP{n}") for n in range(6)]) == "TP0, TP1, TP2, TP3 and 2 more"


def test_counts() -> None:
    assert (count(1, "rank"), count(4212, "line")) == ("1 rank", "4,212 lines")


def test_every_phase_and_verb_has_its_words() -> None:
    for role in Role:
        for phase in PhaseId:
            assert name_doing(phase, role)
            assert name_phase(phase, role)
            assert name_done(phase, role)[0].isupper()
            assert name_units(phase)
    assert all(name_verb_doing(verb) and name_verb_done(verb) for verb in Verb)


def test_a_draft_phase_is_told_from_the_target() -> None:
    labels = [label_phase(phase, role) for phase in PhaseId for role in Role]
    assert len(set(labels)) == len(labels)
    assert label_phase(PhaseId.WEIGHTS, Role.DRAFT) == "draft weights"
    assert name_done(PhaseId.WEIGHTS, Role.DRAFT) == "Draft model: weights loaded"


def test_no_phase_says_a_word_that_is_searched_for() -> None:
    told = " ".join(
        word(phase, role)
        for phase in PhaseId
        for role in Role
        for word in (name_doing, name_phase, name_done, label_phase)
    )
    assert not any(word in told for word in Searched)


@pytest.mark.parametrize(
    ("least", "most", "told"),
    [
        (240, 360, "about 4 to 6 min"),
        (240, 250, "about 4 min"),
        (10, 20, "less than a minute"),
        (10, 200, "up to 3 min"),
        (3000, 4200, "about 1 h"),
    ],
)
def test_an_estimate_says_how_sure_it_is(least: int, most: int, told: str) -> None:
    assert spell_span(timedelta(seconds=least), timedelta(seconds=most)) == told

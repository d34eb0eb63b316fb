"""Silence counted by our own clock, and what breaks it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.actions import Pace, Progress
from bot.core.events import PHASE_ORDER, PhaseId, Rank
from bot.core.patience import FALLBACK, REMEMBERED_LINES, Silence, pace_of, patience_of, shape_of

BEGAN = datetime(2026, 5, 29, 23, 49, tzinfo=UTC)
TEN = timedelta(minutes=10)


def after(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def test_the_operators_word_goes_before_the_engines_and_that_before_our_own() -> None:
    declared = {PhaseId.WEIGHTS: timedelta(minutes=15)}
    assert patience_of(PhaseId.WEIGHTS, declared=declared, engine=TEN) == timedelta(minutes=15)
    assert patience_of(PhaseId.GRAPHS, declared=declared, engine=TEN) == TEN
    assert patience_of(PhaseId.GRAPHS, declared=declared, engine=None) == FALLBACK[PhaseId.GRAPHS]


def test_whoever_was_silent_long_and_got_there_may_be_so_again() -> None:
    learned = patience_of(PhaseId.GRAPHS, declared={}, engine=TEN, longest=TEN)
    assert learned == timedelta(minutes=15)
    assert patience_of(PhaseId.GRAPHS, declared={}, engine=TEN, longest=TEN / 2) == TEN


def test_every_phase_has_a_patience() -> None:
    assert set(FALLBACK) == set(PHASE_ORDER)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("[2026-05-29 23:49:47 TP5] still waiting 12.5 s", "[2026-05-29 23:51:02 TP5] still waiting 87.5 s"),
        ("address 0x7f00ab12 in use", "address 0x7fffffff in use"),
        ("request 3fa85f64 done", "request 9bc01d22 done"),
        ("a  b", "a b"),
    ],
)
def test_a_line_with_other_numbers_is_the_same_line(one: str, other: str) -> None:
    assert shape_of(one) == shape_of(other)


def test_words_tell_lines_apart() -> None:
    assert shape_of("loading shard 1") != shape_of("loaded shard 1")


def test_each_rank_has_lines_of_its_own() -> None:
    silence = Silence(BEGAN)
    assert silence.is_new_line(Rank("TP0"), "Load weight end. elapsed=1 s")
    assert not silence.is_new_line(Rank("TP0"), "Load weight end. elapsed=2 s")
    assert silence.is_new_line(Rank("TP1"), "Load weight end. elapsed=2 s")


@settings(max_examples=10, deadline=None)
@given(st.lists(st.text(max_size=8), max_size=2000))
def test_memory_of_lines_is_bounded(lines: list[str]) -> None:
    silence = Silence(BEGAN)
    for line in lines:
        silence.is_new_line(None, line)
    assert len(silence.shapes) <= REMEMBERED_LINES


def test_a_bar_is_progress_only_when_it_grew() -> None:
    silence = Silence(BEGAN)
    assert silence.is_grown_bar("weights", Progress(1, 64))
    assert not silence.is_grown_bar("weights", Progress(1, 64))
    assert silence.is_grown_bar("weights", Progress(2, 64))
    assert silence.is_grown_bar("weights", Progress(1, 3))


def test_silence_is_counted_from_the_last_progress() -> None:
    silence = Silence(BEGAN)
    assert not silence.exceeds(TEN, after(599))
    assert silence.exceeds(TEN, after(600))
    assert silence.break_off(after(600)) == TEN
    assert not silence.exceeds(TEN, after(601))


def test_silence_stands_still_while_the_host_is_out_of_sight() -> None:
    silence = Silence(BEGAN)
    silence.pause(after(300))
    silence.pause(after(400))
    assert not silence.exceeds(TEN, after(5000))
    silence.go_on(after(5000))
    assert silence.lasts(after(5000)) == timedelta(seconds=300)
    assert not silence.exceeds(TEN, after(5299))
    assert silence.exceeds(TEN, after(5300))


def test_progress_of_another_member_while_one_is_out_of_sight() -> None:
    silence = Silence(BEGAN)
    silence.pause(after(100))
    silence.break_off(after(200))
    assert not silence.exceeds(TEN, after(5000))
    silence.go_on(after(300))
    assert silence.lasts(after(310)) == timedelta(seconds=10)


def test_a_person_may_ask_for_more_patience() -> None:
    silence = Silence(BEGAN)
    silence.stalled = silence.told = True
    silence.extend(after(1800))
    assert not silence.stalled
    assert silence.told
    assert not silence.exceeds(TEN, after(1799))
    assert silence.exceeds(TEN, after(1800))
    silence.extend(after(900))
    assert silence.until == after(1800)


def test_what_moves_excuses_silence_and_not_for_ever() -> None:
    silence = Silence(BEGAN)
    assert not silence.exceeds(TEN, after(700), moved=after(690))
    assert silence.exceeds(TEN, after(700), moved=after(579))
    assert not silence.exceeds(TEN, after(1799), moved=after(1790))
    assert silence.exceeds(TEN, after(1800), moved=after(1790))


def test_the_longest_silence_of_each_phase_is_kept() -> None:
    silence = Silence(BEGAN, key="weights")
    silence.break_off(after(30))
    silence.break_off(after(40))
    silence.key = "graphs"
    silence.break_off(after(45))
    assert silence.longest == {"weights": 30.0, "graphs": 5.0}
    silence.unsure = True
    silence.break_off(after(4000))
    silence.break_off(after(4010))
    assert silence.longest["graphs"] == 10.0


@pytest.mark.parametrize(
    ("silent", "in_phase", "usual", "stalled", "pace"),
    [
        (0, 10, None, False, Pace.MOVING),
        (0, 100, 90, False, Pace.MOVING),
        (0, 122, 90, False, Pace.MOVING),
        (0, 123, 90, False, Pace.SLOW),
        (0, 520, 370, False, Pace.SLOW),  # usual 6m10s, now 8m40s
        (299, 299, None, False, Pace.MOVING),
        (300, 300, None, False, Pace.QUIET),
        (600, 600, None, True, Pace.STALLED),
    ],
)
def test_pace(silent: int, in_phase: int, usual: int | None, stalled: bool, pace: Pace) -> None:
    silence = Silence(BEGAN, stalled=stalled)
    assert (
        pace_of(
            silence,
            patience=TEN,
            in_phase=timedelta(seconds=in_phase),
            usual=None if usual is None else timedelta(seconds=usual),
            now=after(silent),
        )
        is pace
    )


def test_what_healthy_starts_took_before_is_not_slow() -> None:
    span = timedelta(seconds=90), timedelta(seconds=200)
    for seconds, pace in ((210, Pace.MOVING), (211, Pace.SLOW)):
        spent, usual = timedelta(seconds=seconds), timedelta(seconds=100)
        told = pace_of(Silence(BEGAN), patience=TEN, in_phase=spent, usual=usual, span=span, now=BEGAN)
        assert told is pace

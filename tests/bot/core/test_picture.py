"""The waterfall as data: which rows, which bars, what is marked."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.actions import Mark
from bot.core.events import MAIN_RANK, PhaseId, Rank, Role
from bot.core.picture import (
    MOST_LANES,
    Subject,
    make_waterfall,
)
from bot.core.picture_words import MOST_ALT, describe_waterfall
from tests.support.waterfalls import at, failed_waterfall, failing, healthy_waterfall, phase, start

SUBJECT = Subject("kimi-k2.5", "healthy after 7m31s")
NO_TIME = datetime.min.replace(tzinfo=UTC)


def test_each_rank_has_a_row_and_who_was_slow_is_said() -> None:
    made = healthy_waterfall()
    assert [lane.name for lane in made.lanes] == [f"TP{number}" for number in range(8)]
    assert {lane.name: lane.note for lane in made.lanes if lane.note} == {"TP5": "slowest", "TP2": "fastest"}
    assert made.note == "weights: slowest TP5 5m04s, fastest TP2 4m11s"
    assert made.seconds == 451


def test_bars_stand_where_the_rank_was() -> None:
    lane = healthy_waterfall().lanes[5]
    weights = next(bar for bar in lane.bars if bar.phase is PhaseId.WEIGHTS)
    assert (weights.began, weights.ended, weights.mark) == (45, 349, Mark.DONE)


def test_an_inner_phase_is_drawn_over_the_outer_one() -> None:
    *_, last = healthy_waterfall().whole.bars
    assert (last.phase, last.inner) == (PhaseId.COMPILE, True)
    assert sum(bar.inner for bar in healthy_waterfall().whole.bars) == 1


@pytest.mark.parametrize("ranks", [17, 32, 64])
def test_of_many_ranks_those_that_tell_most_are_shown(ranks: int) -> None:
    made = healthy_waterfall(ranks)
    assert len(made.lanes) <= MOST_LANES
    notes = [lane.note for lane in made.lanes]
    assert notes[0] == "slowest"
    assert notes[-2:] == ["median", "fastest"]
    assert made.ranks == ranks


def test_many_ranks_that_are_alike_are_shown_by_three() -> None:
    left: dict[str, float | None] = {f"TP{number}": 100.0 for number in range(32)}
    made = make_waterfall(SUBJECT, [phase(PhaseId.WEIGHTS, 0, 100, ranks=left)])
    assert made is not None
    assert [lane.name for lane in made.lanes] == ["TP0", "TP16", "TP31"]
    assert made.note == ""
    assert "32 ranks; none far behind." in describe_waterfall(made)


def test_the_failed_rank_is_always_shown() -> None:
    left: dict[str, float | None] = {f"TP{number}": 100.0 + number for number in range(64)} | {"TP40": None}
    wrong = replace(SUBJECT, wrong=(PhaseId.WEIGHTS, Role.TARGET), rank=Rank("TP40"), until=at(120))
    made = make_waterfall(wrong, [phase(PhaseId.WEIGHTS, 0, None, ranks=left)])
    assert made is not None
    assert made.lanes[0].name == "TP40"
    assert [lane.name for lane in made.lanes if lane.mark is Mark.FAILED] == ["TP40"]


def test_what_failed_is_marked_in_the_whole_its_rank_and_its_name() -> None:
    made = failed_waterfall()
    assert [bar.phase for bar in made.whole.bars if bar.mark is Mark.FAILED] == [PhaseId.WEIGHTS]
    assert [lane.name for lane in made.lanes if lane.mark is Mark.FAILED] == ["TP3"]
    assert [share.label for share in made.shares if share.mark is Mark.FAILED] == ["weights"]


def test_of_two_failures_apart_both_ranks_are_marked_and_both_are_told() -> None:
    made = failed_waterfall(also="TP6: A weight file is damaged: x", also_rank=Rank("TP6"))
    assert [lane.name for lane in made.lanes if lane.mark is Mark.FAILED] == ["TP3", "TP6"]
    marked = [bar.phase for lane in made.lanes for bar in lane.bars if bar.mark is Mark.FAILED]
    assert marked == [PhaseId.WEIGHTS, PhaseId.WEIGHTS]
    told = describe_waterfall(made)
    assert "marked: TP3 and TP6. Cause: TP3: Out of GPU memory. Apart from it: TP6: A weight" in told


def test_of_many_ranks_both_that_failed_are_shown() -> None:
    subject = replace(SUBJECT, wrong=(PhaseId.GRAPHS, Role.TARGET), rank=Rank("TP40"), also_rank=Rank("TP41"))
    made = make_waterfall(subject, start(64))
    assert made is not None
    assert [lane.name for lane in made.lanes][:2] == ["TP40", "TP41"]
    assert [lane.mark for lane in made.lanes][:2] == [Mark.FAILED, Mark.FAILED]


def test_a_failure_whose_rank_nobody_knows_marks_those_that_never_got_through() -> None:
    wrong = replace(SUBJECT, wrong=(PhaseId.WEIGHTS, Role.TARGET), until=at(182), mark=Mark.STALLED)
    made = make_waterfall(wrong, failing())
    assert made is not None
    assert [lane.name for lane in made.lanes if lane.mark is Mark.STALLED] == ["TP3"]


@pytest.mark.parametrize("wrong", [PhaseId.SERVER, PhaseId.READY])
def test_a_phase_the_log_never_came_to_is_marked_at_the_end_and_no_other_is(wrong: PhaseId) -> None:
    begun = [each for each in start() if each.phase is not PhaseId.READY]
    made = make_waterfall(replace(SUBJECT, wrong=(wrong, Role.TARGET)), begun)
    assert made is not None
    [marked] = [bar for bar in made.whole.bars if bar.mark is not Mark.DONE]
    assert (marked.phase, marked.began, marked.ended) == (wrong, made.seconds, made.seconds)
    assert made.shares[-1].took is None
    assert f"{made.shares[-1].label} (went wrong here)." in describe_waterfall(made)


def test_the_ranks_of_two_nodes_have_a_row_each() -> None:
    assert len(healthy_waterfall(16).lanes) == 16


def test_a_log_of_a_single_instant_is_not_said_to_have_no_times() -> None:
    made = make_waterfall(replace(SUBJECT, until=at(0)), [phase(PhaseId.PROCESS, 0, None)])
    assert made is not None
    assert not made.timed
    assert "Only the order is shown: all its times are the same." in describe_waterfall(made)


def test_without_times_the_order_is_shown() -> None:
    records = [replace(each, began=NO_TIME, ended=NO_TIME, ranks={}) for each in start(1)]
    made = make_waterfall(SUBJECT, records)
    assert made is not None
    assert not made.timed
    assert all(right.began >= left.began for left, right in pairwise(made.whole.bars[:3]))
    assert "no times" in describe_waterfall(made)
    assert "0s" not in describe_waterfall(made)


def test_lines_before_the_first_time_do_not_stretch_the_picture() -> None:
    records = [replace(phase(PhaseId.PROCESS, 0, 10), began=NO_TIME), phase(PhaseId.WEIGHTS, 10, 60)]
    made = make_waterfall(SUBJECT, records)
    assert made is not None
    assert made.seconds == 50


def test_there_is_nothing_to_show_before_the_first_phase() -> None:
    assert make_waterfall(SUBJECT, []) is None


def test_the_parent_process_is_no_row() -> None:
    made = make_waterfall(SUBJECT, [phase(PhaseId.WEIGHTS, 0, 9, ranks={MAIN_RANK: 9.0})])
    assert made is not None
    assert made.lanes == ()
    assert "rank" not in describe_waterfall(made)


texts = st.text(max_size=2_000)
moments = st.integers(0, 10_000)
names = st.sampled_from(["main", "host-b TP1", "DP1 TP0", *(f"TP{number}" for number in range(30))])
lefts = st.dictionaries(names, st.none() | moments.map(float), max_size=20)


@settings(max_examples=80, deadline=None)
@given(
    texts,
    texts,
    st.lists(st.tuples(st.sampled_from(PhaseId), moments, st.none() | moments, lefts), max_size=14),
    st.none() | st.tuples(st.sampled_from(PhaseId), st.sampled_from(Role)),
)
def test_whatever_was_seen_there_are_words_for_it_and_bars_within_the_width(
    title: str,
    cause: str,
    phases: list[tuple[PhaseId, int, int | None, dict[str, float | None]]],
    wrong: tuple[PhaseId, Role] | None,
) -> None:
    records = [phase(which, began, ended, ranks=ranks) for which, began, ended, ranks in phases]
    made = make_waterfall(Subject(title, "ready", wrong=wrong, cause=cause, until=at(10_000)), records)
    assert (made is None) == (not records)
    if made is None:
        return
    told = describe_waterfall(made)
    assert 0 < len(told) <= MOST_ALT
    assert "\n" not in told
    for bar in made.whole.bars:
        assert 0 <= bar.began <= bar.ended <= made.seconds

"""Tests of markers: what is told, with which lines, how often."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bot.core.marker import EVERY, FOLLOWING_WITHIN, LONGEST, Hit, Marker, Markers, MarkerState

NOW = datetime(2026, 5, 29, 23, 49, tzinfo=UTC)
MARKERS = (Marker("diag", "DIAG"), Marker("rate", r"rate=\d+"))
STATE = TypeAdapter(MarkerState)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def fresh(*markers: Marker) -> Markers:
    return Markers(markers or MARKERS, MarkerState())


def end(markers: Markers, now: datetime) -> tuple[Hit, ...]:
    """The lines that follow a hit; what is told with the last of them."""
    return tuple(hit for line in ("x", "y", "z") for hit in markers.read(line, now))


def test_a_hit_is_told_with_three_lines_around_it() -> None:
    markers = fresh()
    for second, line in enumerate(("one", "two", "three", "four", "now DIAG x", "a", "b")):
        assert markers.read(line, at(second / 10)) == ()
    shown = ("two", "three", "four", "now DIAG x", "a", "b", "c")
    assert markers.read("c", at(1)) == (Hit("diag", shown, 3),)
    assert markers.due(at(200)) == ()


def test_no_line_after_it_is_waited_for_in_vain() -> None:
    markers = fresh()
    markers.read("DIAG", at(0))
    assert markers.due(at(1)) == ()
    assert markers.due(NOW + FOLLOWING_WITHIN) == (Hit("diag", ("DIAG",), 0),)


def test_within_a_minute_the_others_are_counted_and_the_last_is_told() -> None:
    markers = fresh()
    markers.read("DIAG 0", at(0))
    assert end(markers, at(0))
    for second in range(1, 59):
        assert markers.read(f"DIAG {second}", at(second)) == ()
    assert markers.untold() == {"diag": 58}
    (hit,) = markers.due(at(61))
    assert hit == Hit("diag", ("DIAG 55", "DIAG 56", "DIAG 57", "DIAG 58"), 3, others=57)
    assert markers.untold() == {}


def test_hits_in_a_row_are_one_reply() -> None:
    markers = fresh()
    for number in (1, 2, 3):
        assert markers.read(f"DIAG {number}", at(0)) == ()
    shown = ("DIAG 1", "DIAG 2", "DIAG 3", "DIAG 4")
    assert markers.read("DIAG 4", at(0)) == (Hit("diag", shown, 0, others=3),)


def test_each_marker_has_its_own_minute() -> None:
    markers = fresh()
    markers.read("DIAG", at(0))
    markers.read("rate=3", at(1))
    assert [hit.name for hit in end(markers, at(1))] == ["diag", "rate"]


def test_one_line_may_hit_two_markers() -> None:
    markers = fresh()
    markers.read("DIAG rate=4", at(0))
    assert [hit.name for hit in end(markers, at(0))] == ["diag", "rate"]


def test_at_the_end_nothing_is_waited_for_but_the_pace_holds() -> None:
    markers = fresh()
    markers.read("DIAG 1", at(0))
    assert markers.last(at(0)) == (Hit("diag", ("DIAG 1",), 0),)
    markers.read("DIAG 2", at(10))
    assert markers.last(at(11)) == ()
    assert markers.untold() == {"diag": 1}


def test_only_the_beginning_of_a_line_is_searched() -> None:
    markers = fresh()
    markers.read("x" * LONGEST + "DIAG", at(0))
    markers.read("x" * (LONGEST - 4) + "DIAG", at(1))
    (hit,) = end(markers, at(1))
    assert hit.others == 0
    assert all(len(line) <= 300 for line in hit.lines)


def test_without_markers_nothing_is_kept() -> None:
    markers = Markers((), MarkerState())
    assert markers.read("DIAG", at(0)) == ()
    assert markers.state == MarkerState()


STEPS = st.lists(
    st.tuples(
        st.floats(0, 40), st.sampled_from(["DIAG", "rate=1", "DIAG rate=2", "plain", "other", "", None])
    ),
    max_size=40,
)


def play(
    steps: list[tuple[float, str | None]], *, rewritten: bool
) -> tuple[list[tuple[datetime, Hit]], Markers]:
    """None: a tick."""
    markers, now = fresh(), NOW
    told: list[tuple[datetime, Hit]] = []
    for gap, line in steps:
        now += timedelta(seconds=gap)
        if rewritten:
            markers = Markers(MARKERS, STATE.validate_json(STATE.dump_json(markers.state)))
        hits = markers.due(now) if line is None else markers.read(line, now)
        told.extend((now, hit) for hit in hits)
    return told, markers


@settings(max_examples=80, deadline=None)
@given(STEPS)
def test_never_more_than_one_reply_a_minute_and_none_is_lost(steps: list[tuple[float, str | None]]) -> None:
    told, markers = play(steps, rewritten=False)
    for name, word in (("diag", "DIAG"), ("rate", "rate=")):
        times = [when for when, hit in told if hit.name == name]
        assert all(later - earlier >= EVERY for earlier, later in itertools.pairwise(times))
        seen = sum(word in (line or "") for _, line in steps)
        counted = sum(hit.others + 1 for _, hit in told if hit.name == name)
        assert counted + markers.untold().get(name, 0) == seen
    assert all(word_of(hit) in hit.lines[hit.at] and len(hit.lines) <= 7 for _, hit in told)


def word_of(hit: Hit) -> str:
    return {"diag": "DIAG", "rate": "rate="}[hit.name]


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_saved_and_restored_anywhere_it_tells_the_same(steps: list[tuple[float, str | None]]) -> None:
    assert play(steps, rewritten=True)[0] == play(steps, rewritten=False)[0]

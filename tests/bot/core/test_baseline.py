"""What healthy starts teach about the usual, and what they do not."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bot.core.baseline import REMEMBERED, WHOLE, Usual, learn, phase_key
from bot.core.events import PhaseId, Role

KEYS = st.sampled_from(["weights", "weights/draft", "graphs", WHOLE])
DURATIONS = st.dictionaries(KEYS, st.floats(0, 10_000))


def test_keys_tell_the_draft_model_apart() -> None:
    assert phase_key(PhaseId.WEIGHTS) == "weights"
    assert phase_key(PhaseId.WEIGHTS, Role.DRAFT) == "weights/draft"


def test_nothing_learned_is_nothing_usual() -> None:
    usual = Usual()
    assert usual.whole is None
    assert usual.of(PhaseId.WEIGHTS) is None
    assert not usual.expects(PhaseId.WEIGHTS)


def test_the_usual_is_the_median_so_that_one_odd_start_does_not_move_it() -> None:
    usual = Usual()
    for seconds in (300.0, 310.0, 4000.0):
        usual = learn(usual, {"weights": seconds, WHOLE: seconds + 100})
    assert usual.of(PhaseId.WEIGHTS) == timedelta(seconds=310)
    assert usual.whole == timedelta(seconds=410)


def test_a_phase_that_did_not_occur_keeps_what_is_known() -> None:
    usual = learn(learn(Usual(), {"weights": 300.0, "graphs": 45.0}), {"weights": 310.0})
    assert usual.of(PhaseId.GRAPHS) == timedelta(seconds=45)


def test_a_clock_that_was_set_back_teaches_nothing() -> None:
    assert learn(Usual(), {"weights": -3.0}) == Usual()


def test_the_span_leaves_odd_starts_out_once_there_are_enough() -> None:
    few = Usual({"weights": (300.0, 310.0, 4000.0)})
    assert few.span_of(PhaseId.WEIGHTS) == (timedelta(seconds=300), timedelta(seconds=4000))
    many = Usual({"weights": (300.0, 310.0, 320.0, 330.0, 4000.0)})
    assert many.span_of(PhaseId.WEIGHTS) == (timedelta(seconds=310), timedelta(seconds=330))
    assert many.span_of(PhaseId.GRAPHS) is None


def test_the_longest_silence_is_that_of_all_starts_remembered() -> None:
    usual = Usual()
    for seconds in range(1, 31):
        usual = learn(usual, {}, {"weights": float(40 - seconds)})
    assert len(usual.silences["weights"]) == REMEMBERED
    assert usual.longest_silence(PhaseId.WEIGHTS) == timedelta(seconds=29)
    assert usual.longest_silence(PhaseId.GRAPHS) is None


def test_a_record_from_before_silences_were_kept_still_reads() -> None:
    old = TypeAdapter(Usual).validate_json('{"samples": {"weights": [300.0]}}')
    assert old.of(PhaseId.WEIGHTS) == timedelta(seconds=300)
    assert old.longest_silence(PhaseId.WEIGHTS) is None


@settings(max_examples=50, deadline=None)
@given(st.lists(DURATIONS, max_size=30))
def test_memory_is_bounded_and_survives_a_record(starts: list[dict[str, float]]) -> None:
    usual = Usual()
    for durations in starts:
        usual = learn(usual, durations)
    assert all(len(samples) <= REMEMBERED for samples in usual.samples.values())
    adapter = TypeAdapter(Usual)
    assert adapter.validate_json(adapter.dump_json(usual)) == usual

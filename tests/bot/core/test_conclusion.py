"""The cause of a failure put together from the log, systemd and the host; durations worth learning."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bot.core.actions import RankTime
from bot.core.baseline import Usual
from bot.core.cause import Cause
from bot.core.conclusion import conclude, durations_of, finished_reply
from bot.core.events import MAIN_RANK, PhaseId, Rank, Role, Verb
from bot.core.findings import PhaseRecord, RankSpan
from bot.core.startup import fresh_state
from bot.core.startup_state import Downfall, Fall, StartupState
from tests.support.startup_runs import MEMBER, OTHER, make_plan

BEGAN = datetime(2026, 5, 29, 23, 49, tzinfo=UTC)
HERE = (PhaseId.GRAPHS, Role.TARGET)
OOM = Cause(
    id="gpu-memory",
    title="a GPU ran out of memory",
    evidence=("torch.OutOfMemoryError: CUDA out of memory.", "File loader.py"),
    advice="Lower --mem-fraction-static.",
    rank=Rank("TP3"),
    phase=PhaseId.WEIGHTS,
    role=Role.TARGET,
)
UNKNOWN = Cause("unknown", "ValueError: x", ("ValueError: x",), "", MAIN_RANK, PhaseId.MEMORY, Role.TARGET)


def after(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def fallen(kind: Downfall, sentence: str = "it fell") -> Fall:
    return Fall(kind, MEMBER, BEGAN, sentence)


def state_with(**changes: object) -> StartupState:
    state = fresh_state(make_plan())
    for key, value in changes.items():
        setattr(state.members[MEMBER], key, value)
    return state


def test_the_first_root_error_is_the_cause_where_it_happened() -> None:
    state = state_with(exit="killed 9", result="signal")
    told = conclude(make_plan(), state, fall=fallen(Downfall.DOWN), found=OOM, current=HERE)
    assert told.cause == "a GPU ran out of memory"
    assert told.root_error == "torch.OutOfMemoryError: CUDA out of memory."
    assert (told.rank, told.phase, told.advice) == (Rank("TP3"), PhaseId.WEIGHTS, OOM.advice)


def test_an_error_of_no_known_kind_is_quoted_beside_how_the_unit_ended() -> None:
    state = state_with(exit="exited 1", result="exit-code")
    told = conclude(make_plan(), state, fall=fallen(Downfall.DOWN), found=UNKNOWN, current=HERE)
    assert told.cause == "an error ended the engine"
    assert (told.root_error, told.rank, told.advice) == ("ValueError: x", None, None)
    assert told.phase is PhaseId.MEMORY


def test_a_signal_nobody_sends_on_purpose_says_more_than_an_unknown_error() -> None:
    state = state_with(exit="dumped 11", result="core-dump")
    told = conclude(make_plan(), state, fall=fallen(Downfall.DOWN), found=UNKNOWN, current=HERE)
    assert told.cause == "the main process was killed by SIGSEGV"
    assert told.root_error == "ValueError: x"


def test_a_crash_loop_is_told_beside_its_cause() -> None:
    state = state_with(counter=3)
    told = conclude(make_plan(), state, fall=fallen(Downfall.LOOPING), found=OOM, current=HERE)
    assert told.cause.startswith("a GPU ran out of memory; systemd starts it again")
    assert "restart counter 3" in told.cause
    assert told.loops
    unknown = conclude(make_plan(), state, fall=fallen(Downfall.LOOPING), found=None, current=HERE)
    assert unknown.loops
    limited = state_with(counter=3, limited=True)
    assert not conclude(make_plan(), limited, fall=fallen(Downfall.LOOPING), found=OOM, current=HERE).loops
    assert not conclude(make_plan(), state, fall=fallen(Downfall.DOWN), found=OOM, current=HERE).loops


@pytest.mark.parametrize(
    ("member", "words"),
    [
        ({"result": "oom-kill", "exit": "killed 9"}, "host ran out of memory"),
        ({"stopping": True, "exit": "killed 15"}, "stopped outside chat"),
    ],
)
def test_systemd_knows_better_than_a_log_that_was_cut_short(member: dict[str, object], words: str) -> None:
    told = conclude(
        make_plan(), state_with(**member), fall=fallen(Downfall.DOWN), found=UNKNOWN, current=HERE
    )
    assert words in told.cause
    assert told.root_error is None
    assert (told.phase, told.role) == HERE


def test_a_failed_smoke_test_is_told_as_it_is() -> None:
    fall = fallen(Downfall.SMOKE, "the smoke test failed: no tool call")
    told = conclude(make_plan(), state_with(), fall=fall, found=UNKNOWN, current=HERE)
    assert (told.cause, told.phase) == ("the smoke test failed: no tool call", PhaseId.SMOKE)


def test_a_fatal_line_of_an_engine_that_goes_on_hanging() -> None:
    fall = fallen(Downfall.FATAL, "the engine reported an error that it does not survive")
    told = conclude(make_plan(), state_with(), fall=fall, found=UNKNOWN, current=HERE)
    assert told.cause == fall.sentence
    assert told.root_error == "ValueError: x"


def test_one_of_several_members_is_named() -> None:
    plan = make_plan(members=(MEMBER, OTHER))
    told = conclude(plan, fresh_state(plan), fall=fallen(Downfall.REPLACED), found=None, current=HERE)
    assert told.cause == f"{MEMBER}: it fell"


def record(phase: PhaseId, seconds: float, **ranks: float) -> PhaseRecord:
    spans = {Rank(name): RankSpan(BEGAN, after(took)) for name, took in ranks.items()}
    return PhaseRecord(phase, Role.TARGET, BEGAN, after(seconds), None, spans)


@pytest.mark.parametrize(
    ("phase", "seconds", "told"),
    [
        (PhaseId.DISTRIBUTED, 1.9, False),
        (PhaseId.DISTRIBUTED, 2.0, True),
        (PhaseId.WEIGHTS, 0.5, True),
        (PhaseId.GRAPHS, 0.5, True),
        (PhaseId.SMOKE, 60, False),
        (PhaseId.READY, 60, False),
    ],
)
def test_short_phases_are_told_in_the_table_alone(phase: PhaseId, seconds: float, told: bool) -> None:
    assert (finished_reply(record(phase, seconds), Usual()) is not None) is told


def test_an_open_phase_is_not_told() -> None:
    assert finished_reply(PhaseRecord(PhaseId.WEIGHTS, Role.TARGET, BEGAN), Usual()) is None


@pytest.mark.parametrize(
    ("fast", "slow", "told"),
    [(290, 300, False), (20, 30, False), (19, 30, True), (239, 300, True), (240, 300, False)],
)
def test_ranks_are_named_where_they_are_apart_enough_to_matter(fast: int, slow: int, told: bool) -> None:
    reply = finished_reply(record(PhaseId.WEIGHTS, slow, TP0=fast, TP1=slow), Usual({"weights": (310.0,)}))
    assert reply is not None
    assert reply.usual == timedelta(seconds=310)
    if told:
        assert reply.fastest == RankTime(Rank("TP0"), timedelta(seconds=fast))
        assert reply.slowest == RankTime(Rank("TP1"), timedelta(seconds=slow))
    else:
        assert (reply.fastest, reply.slowest) == (None, None)


def test_durations_add_up_what_occurred_twice() -> None:
    records = [
        record(PhaseId.GRAPHS, 10),
        record(PhaseId.GRAPHS, 5),
        PhaseRecord(PhaseId.GRAPHS, Role.DRAFT, BEGAN, after(3)),
        record(PhaseId.READY, 30),
        PhaseRecord(PhaseId.WARMUP, Role.TARGET, BEGAN),
    ]
    took = timedelta(seconds=90)
    learned = {"graphs": 15.0, "graphs/draft": 3.0}
    assert durations_of(make_plan(), records, took=took) == {**learned, "whole": 90.0}
    assert durations_of(make_plan(verb=Verb.WATCH), records, took=took) == learned

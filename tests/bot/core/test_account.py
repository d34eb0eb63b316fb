"""What stays known of a startup: times by phase, of its own and in all, and who was slow."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bot.core.account import Account, Failure, account_of, rank_times, slowest_of
from bot.core.events import MAIN_RANK, PhaseId, Rank, Role
from tests.support.waterfalls import account, at, failing, phase, start

if TYPE_CHECKING:
    from bot.core.findings import PhaseRecord

ACCOUNT = TypeAdapter(Account)


def times_of(records: list[PhaseRecord], until: float) -> dict[str, tuple[float, float]]:
    made = account_of(records, until=at(until), took=timedelta(seconds=until), failure=None, engine="sglang")
    return {f"{each.phase}/{each.role}": (each.seconds, each.own) for each in made.phases}


def test_a_phase_inside_another_takes_nothing_twice() -> None:
    times = times_of(start(), 451)
    assert times["warmup/target"] == (18, 8)
    assert times["compile/target"] == (10, 10)
    assert sum(own for _, own in times.values()) == 451 - 6  # nothing was seen between weights and graphs


def test_a_phase_that_occurs_again_is_added_up() -> None:
    records = [phase(PhaseId.WEIGHTS, 0, 10), phase(PhaseId.GRAPHS, 10, 20), phase(PhaseId.WEIGHTS, 20, 25)]
    assert times_of(records, 25)["weights/target"] == (15, 15)


def test_what_never_ended_lasted_until_the_end() -> None:
    assert times_of(failing(), 182)["weights/target"] == (159, 159)


def test_the_longest_phase_is_no_wait_of_our_own() -> None:
    longest = account().longest
    assert longest is not None
    assert (longest.phase, longest.slowest) == (PhaseId.WEIGHTS, Rank("TP5"))
    held = account_of(
        [phase(PhaseId.PROCESS, 0, 5), phase(PhaseId.READY, 5, 600)],
        until=at(600),
        took=timedelta(seconds=600),
        failure=None,
        engine="sglang",
    )
    assert held.longest is not None
    assert held.longest.phase is PhaseId.PROCESS
    assert Account().longest is None


@pytest.mark.parametrize(
    ("left", "slowest"),
    [
        ({"TP0": 100.0, "TP1": 100.5}, None),
        ({"TP0": 100.0, "TP1": 109.0}, None),  # within a tenth
        ({"TP0": 100.0, "TP1": 130.0}, Rank("TP1")),
        ({"TP0": None, "TP1": 130.0}, Rank("TP0")),
        ({}, None),
    ],
)
def test_a_rank_is_slow_only_when_it_is_far_enough_behind(
    left: dict[str, float | None], slowest: Rank | None
) -> None:
    record = phase(PhaseId.WEIGHTS, 0, None, ranks=left)
    assert slowest_of(rank_times(record, at(200))) == slowest


def test_the_parent_process_is_no_rank() -> None:
    record = phase(PhaseId.WEIGHTS, 0, 10, ranks={MAIN_RANK: 10.0, "TP0": 9.0})
    assert list(rank_times(record, at(10))) == ["TP0"]


def test_it_is_read_back_as_it_was_written() -> None:
    told = Failure("No memory", PhaseId.WEIGHTS, Role.DRAFT, Rank("TP3"), advice="Less", evidence=("a", "b"))
    made = account_of(failing(), until=at(182), took=timedelta(seconds=182), failure=told, engine="sglang")
    assert ACCOUNT.validate_json(ACCOUNT.dump_json(made)) == made
    assert ACCOUNT.validate_json("{}") == Account()


spans = st.tuples(st.integers(0, 1000), st.none() | st.integers(0, 1000))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PhaseId), spans), max_size=12))
def test_own_times_never_exceed_the_clock(records: list[tuple[PhaseId, tuple[int, int | None]]]) -> None:
    made = [phase(which, began, ended) for which, (began, ended) in records]
    times = times_of(made, 1000)
    assert sum(own for _, own in times.values()) <= 1000.001
    assert all(0 <= own <= seconds + 0.001 for seconds, own in times.values())

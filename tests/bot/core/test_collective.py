"""Who is to blame for a collective that timed out, and when nobody can tell."""

from __future__ import annotations

import pytest

from bot.core.cause import Cause, name_cause
from bot.core.collective import blame_silent, is_report, silent_ranks
from bot.core.events import MAIN_RANK, PhaseId, Rank, Role

LINE = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1874, OpType=ALLREDUCE)"
WHERE = (Rank("TP0"), PhaseId.GRAPHS, Role.TARGET)


def tp(*numbers: int) -> list[Rank]:
    return [Rank(f"TP{number}") for number in numbers]


def blame(reporters: list[Rank], *, ranks: int = 12, line: str = LINE) -> Cause:
    cause = name_cause([line], where=WHERE, engine="sglang")
    return blame_silent(cause, reporters=reporters, known=tp(*range(ranks)))


def test_a_report_is_told_from_what_comes_of_it() -> None:
    assert is_report(LINE)
    assert not is_report("Process group watchdog thread terminated with exception: NCCL error")


@pytest.mark.parametrize(
    ("reporters", "known", "silent"),
    [
        (tp(0, 1, 2, 4), tp(0, 1, 2, 3, 4), tp(3)),
        (tp(0), tp(0, 1), tp(1)),  # all but one
        (tp(0, 1, 2), tp(0, 1, 2, 3, 10), tp(3, 10)),  # a minority
        (tp(0, 1), tp(0, 1, 2, 3), []),  # as many as spoke
        (tp(0), tp(0, 1, 2, 3, 4, 5, 6, 7), []),  # the parent killed the others before they could
        (tp(0, 1), tp(0, 1), []),  # the network, perhaps
        ([], tp(0, 1), []),
        (tp(0, 9), tp(0, 1, 2), []),  # a name that no rank is known by
        ([MAIN_RANK], tp(0, 1), []),
        (tp(0, 1), [], []),
    ],
)
def test_the_silent_are_named_only_where_they_are_few(
    reporters: list[Rank], known: list[Rank], silent: list[Rank]
) -> None:
    assert silent_ranks(reporters, known) == tuple(silent)


def test_the_silent_rank_takes_the_place_of_the_one_that_reported_first() -> None:
    cause = blame(tp(0, 1, 3), ranks=4)
    assert cause.title.endswith(
        "(NCCL timeout in ALLREDUCE); TP2 reported no time-out: it is the one to look at"
    )
    assert (cause.rank, cause.speaker) == ("TP2", "TP0")


def test_of_several_none_is_marked() -> None:
    cause = blame(tp(*range(10)))
    assert cause.title.endswith("TP10 and TP11 reported no time-out: they are the ones to look at")
    assert (cause.rank, cause.speaker) == (MAIN_RANK, "TP0")


def test_where_it_cannot_be_told_the_rank_that_reported_is_not_blamed_for_it() -> None:
    cause = blame(tp(0))
    assert "reported" not in cause.title
    assert (cause.rank, cause.speaker) == (MAIN_RANK, "TP0")


def test_another_failure_is_left_as_it_is() -> None:
    line = "torch.OutOfMemoryError: CUDA out of memory."
    cause = blame(tp(0, 1, 3), ranks=4, line=line)
    assert cause == name_cause([line], where=WHERE, engine="sglang")

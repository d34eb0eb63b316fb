"""Cores that lead ranks of their own."""

from __future__ import annotations

import pytest

from bot.core.cores import MOST_CORES, Cores, core_of, find_missing, tell_apart, without_leaders
from bot.core.events import MAIN_RANK, Rank

DP0, DP1 = Rank("DP0"), Rank("DP1")


def heard(*names: Rank) -> Cores:
    cores = Cores()
    for name in names:
        tell_apart(cores, None, core=name, process="1")
    return cores


def test_a_core_that_is_alone_has_no_name() -> None:
    cores = Cores()
    assert tell_apart(cores, None, core=DP0, process="2") is None
    assert tell_apart(cores, Rank("TP1"), core=DP0, process="2") == "TP1"
    assert tell_apart(cores, Rank("TP1"), core=None, process="9") == "TP1"
    assert not cores.several


def test_the_second_one_gives_both_a_name() -> None:
    cores = heard(DP0)
    assert cores.first is None
    assert tell_apart(cores, None, core=DP1, process="3") == "DP1"
    assert cores.first == "DP0"
    assert tell_apart(cores, None, core=DP0, process="2") == "DP0"


def test_a_core_that_is_not_the_first_is_not_alone() -> None:
    assert tell_apart(Cores(), None, core=DP1, process="3") == "DP1"


def test_a_rank_is_named_with_its_core() -> None:
    cores = heard(DP0, DP1)
    assert tell_apart(cores, Rank("TP1"), core=DP1, process="4") == "DP1 TP1"
    assert tell_apart(cores, Rank("DP1 TP1"), core=DP1, process="4") == "DP1 TP1"


def test_workers_with_the_same_tag_are_told_apart_by_process() -> None:
    cores = heard(DP0, DP1)
    assert tell_apart(cores, Rank("TP0"), core=None, process="7") == "TP0"
    assert tell_apart(cores, Rank("TP0"), core=None, process="8") == "pid8 TP0"
    assert tell_apart(cores, Rank("TP0"), core=None, process="7") == "TP0"
    assert tell_apart(cores, Rank("TP0"), core=None, process=None) == "TP0"


@pytest.mark.parametrize(
    ("rank", "core"),
    [("DP0", "DP0"), ("DP1 TP3 EP7", "DP1"), ("two DP0 TP0", "two DP0"), ("TP0", None), ("DP7 TP0", None)],
)
def test_whose_a_rank_is(rank: str, core: str | None) -> None:
    assert core_of(heard(DP0, DP1), Rank(rank)) == core


def test_a_core_that_leads_ranks_is_none_itself() -> None:
    cores = heard(DP0, DP1)
    assert without_leaders(cores, (DP0, DP1)) == (DP0, DP1)
    assert without_leaders(cores, (DP0, Rank("DP0 TP0"), DP1)) == ("DP0 TP0", "DP1")
    assert without_leaders(cores, (DP0, Rank("TP0"))) == ("TP0",)
    assert without_leaders(heard(DP0), (DP0, Rank("DP0 TP0"))) == ("DP0", "DP0 TP0")


def test_who_is_missing() -> None:
    cores = heard(DP0, DP1)
    known = (MAIN_RANK, Rank("DP0 TP0"), Rank("DP1 TP0"))
    cores.done.append(DP0)
    assert find_missing(cores, known) == {"DP1"}
    assert find_missing(cores, known[:2]) == {"DP1"}  # it spoke, if not of a phase
    cores.done.append(DP1)
    assert find_missing(cores, known) == set()


def test_as_many_are_missing_as_the_node_said_it_starts() -> None:
    cores = heard(DP0)
    cores.several, cores.told, cores.done = True, 2, [DP0]
    assert find_missing(cores, (DP0,)) == {None}
    cores.told = 1
    assert find_missing(cores, (DP0,)) == set()


def test_one_alone_is_not_waited_for_by_its_name() -> None:
    assert find_missing(heard(DP0), (MAIN_RANK,)) == set()


def test_names_are_remembered_up_to_a_bound() -> None:
    cores = heard(*(Rank(f"DP{number}") for number in range(MOST_CORES + 9)))
    assert len(cores.heard) == MOST_CORES
    tag = Rank("TP0")
    told = [tell_apart(cores, tag, core=None, process=str(number)) for number in range(MOST_CORES + 9)]
    assert (len(cores.workers[tag]), told[-1]) == (MOST_CORES, tag)


def test_a_core_that_only_its_workers_show_is_missing_too() -> None:
    cores = heard(DP0)
    cores.several = True
    for process in ("7", "8"):
        tell_apart(cores, Rank("TP0"), core=None, process=process)
    cores.done.append(DP0)
    assert find_missing(cores, (Rank("TP0"), Rank("pid8 TP0"))) == {None}

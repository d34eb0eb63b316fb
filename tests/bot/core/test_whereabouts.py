"""Which phase is under way, who is where in it, and who lags."""

from __future__ import annotations

import pytest

from bot.core.actions import Progress
from bot.core.events import PhaseId, Rank, Role
from bot.core.findings import ProgressMade
from tests.support.journals import WORDINGS, journal, tp
from tests.support.tracking import feed, follow


@pytest.mark.parametrize("version", WORDINGS)
def test_the_straggler_is_named(version: str) -> None:
    tracker, _ = follow(journal(version).launched().connected().loading().bars().loaded(but=("TP3",)))
    assert tracker.current() == (PhaseId.WEIGHTS, Role.TARGET)
    assert tracker.lagging() == ("TP3",)
    views = {view.rank: view for view in tracker.places()}
    assert not views[Rank("TP3")].ended
    assert views[Rank("TP4")].ended


def test_a_straggler_holds_the_others_back() -> None:
    log = journal("0.5.8", tp(2)).launched().connected().loading().loaded(but=("TP1",))
    log.say("KV Cache is allocated. #tokens: 1, KV size: 1.00 GB", "TP0")
    tracker, _ = follow(log)
    assert tracker.current() == (PhaseId.WEIGHTS, Role.TARGET)
    assert [(view.rank, view.phase) for view in tracker.places()] == [("TP0", "memory"), ("TP1", "weights")]


def test_what_comes_next_is_under_way_before_it_is_said() -> None:
    tracker, _ = follow(journal().launched().connected().loading().bars().loaded())
    assert tracker.current() == (PhaseId.MEMORY, Role.TARGET)
    feed(tracker, journal().pooled().lines)
    assert tracker.current() == (PhaseId.GRAPHS, Role.TARGET)


def test_without_graphs_the_server_is_next() -> None:
    log = journal("0.5.8", tp(1), disable_cuda_graph=True).launched().connected().loading().loaded().pooled()
    tracker, _ = follow(log)
    assert tracker.current() == (PhaseId.SERVER, Role.TARGET)


def test_without_graphs_a_draft_model_that_was_asked_for_is_next() -> None:
    log = journal("0.5.8", tp(1), disable_cuda_graph=True, speculative_algorithm="'EAGLE3'").launched()
    tracker, _ = follow(log.connected().loading().loaded().pooled())
    assert tracker.current() == (PhaseId.WEIGHTS, Role.DRAFT)
    feed(tracker, journal("0.5.8", tp(1)).loading().loaded().lines)
    assert tracker.current() == (PhaseId.MEMORY, Role.DRAFT)
    feed(tracker, journal("0.5.8", tp(1)).pooled().lines)
    assert tracker.current() == (PhaseId.SERVER, Role.TARGET)


@pytest.mark.parametrize("algorithm", ["'NGRAM'", "None"])
def test_no_draft_model_is_waited_for_where_none_is_asked_for(algorithm: str) -> None:
    log = journal("0.5.8", tp(1), disable_cuda_graph=True, speculative_algorithm=algorithm).launched()
    tracker, _ = follow(log.connected().loading().loaded().pooled())
    assert tracker.current() == (PhaseId.SERVER, Role.TARGET)


def test_a_model_that_captures_nothing_is_through_with_its_ranks_settled() -> None:
    log = journal("0.5.8", tp(1)).launched().connected().loading().loaded().pooled()
    tracker, _ = follow(log.say("max_total_num_tokens=123456, context_len=32768"))
    assert tracker.current() == (PhaseId.SERVER, Role.TARGET)


def test_a_kernel_tuning_is_named_in_place_of_the_capture_it_runs_in() -> None:
    log = journal("0.5.8").launched().connected().loading().loaded().pooled().capturing()
    log.say("Entering DeepGEMM JIT Pre-Compile session. It may take a long time", "TP0")
    log.bare("DeepGEMM warmup:  12%|#2   | 3/24 [00:05<00:30,  1.50s/it]")
    tracker, found = follow(log)
    assert tracker.current() == (PhaseId.COMPILE, Role.TARGET)
    assert ProgressMade(PhaseId.COMPILE, Role.TARGET, Progress(3, 24), 1 / 1.5) in found
    feed(tracker, journal("0.5.8").captured().lines)
    assert tracker.current() == (PhaseId.GRAPHS, Role.TARGET)

"""Phases that begin, go on and end by what ranks say, in the wordings of several versions."""

from __future__ import annotations

import pytest

from bot.core.actions import Progress
from bot.core.events import PhaseId, Role
from bot.core.findings import PhaseBegan, PhaseEnded, ReadySaid
from tests.support.journals import WORDINGS, journal, tp
from tests.support.tracking import SHAPES, feed, follow, names


@pytest.mark.parametrize("version", WORDINGS)
@pytest.mark.parametrize(("ranks", "sizes"), SHAPES)
def test_a_draft_model_is_told_from_the_target(
    version: str, ranks: tuple[str, ...], sizes: dict[str, int]
) -> None:
    tracker, _ = follow(journal(version, ranks, **sizes).healthy(draft=True))
    first = ["distributed", "weights", "memory", "graphs", "weights/draft", "memory/draft", "graphs/draft"]
    last = ["distributed", "weights", "weights/draft", "memory", "memory/draft", "graphs", "graphs/draft"]
    expected = last if WORDINGS[version].pools_last else first
    assert names(tracker) == [*expected, "server", "warmup"]
    by_name = dict(zip(names(tracker), tracker.phases(), strict=True))
    assert by_name["weights"].progress == Progress(4, 4)
    assert by_name["weights/draft"].progress == Progress(1, 1)


@pytest.mark.parametrize("version", WORDINGS)
@pytest.mark.parametrize("draft", [False, True])
def test_every_finding_comes_once(version: str, draft: bool) -> None:
    _, found = follow(journal(version).healthy(draft=draft))
    began = [(each.phase, each.role) for each in found if isinstance(each, PhaseBegan)]
    ended = [(each.phase, each.role) for each in found if isinstance(each, PhaseEnded)]
    assert len(began) == len(set(began))
    assert sorted(began) == sorted(ended)
    assert found.count(ReadySaid()) == 1


def test_the_second_plain_capture_is_dflashs_draft() -> None:
    log = journal("0.5.12").launched().connected().with_target()
    log.loading().bars(1).loaded().pooled().capturing()
    tracker, _ = follow(log)
    assert tracker.current() == (PhaseId.GRAPHS, Role.DRAFT)
    feed(tracker, journal("0.5.12").say("DFLASH draft runner ready. mask_token=<m>", "TP0").lines)
    assert names(tracker)[-1] == "graphs/draft"


def test_piecewise_capture_belongs_to_the_same_phase() -> None:
    log = journal("0.5.12", tp(1)).launched().connected().with_target()
    log.say("Capture piecewise CUDA graph begin. avail mem=9.19 GB", after=1)
    log.say("Capture piecewise CUDA graph end. Time elapsed: 17.55 s. mem usage=0.75 GB.", after=17)
    tracker, found = follow(log.serving())
    graphs = [record for record in tracker.phases() if record.phase is PhaseId.GRAPHS]
    assert [record.took and record.took.total_seconds() for record in graphs] == [30]
    assert sum(isinstance(each, PhaseEnded) and each.phase is PhaseId.GRAPHS for each in found) == 1


def test_weights_may_end_after_the_capture() -> None:
    log = journal("0.5.18").launched().connected().loading().bars().pooled().capturing("target ")
    tracker, _ = follow(log)
    assert tracker.current() == (PhaseId.GRAPHS, Role.TARGET)
    rest = (
        journal("0.5.18")
        .captured("target ")
        .everyone("Load weight end. Committed real weights after CUDA graph capture in 3.50 s (window 9 s)")
    )
    feed(tracker, rest.lines)
    weights = tracker.phases()[1]
    assert weights.phase is PhaseId.WEIGHTS
    assert weights.ended is not None


def test_a_full_bar_is_not_the_end_of_loading() -> None:
    tracker, _ = follow(journal().launched().connected().loading().bars())
    assert tracker.current() == (PhaseId.WEIGHTS, Role.TARGET)
    assert tracker.phases()[-1].ended is None


def test_a_rank_that_never_spoke_keeps_the_phase_open() -> None:
    log = journal("0.5.8", tp(7), tp_size=8).launched().connected()
    tracker, _ = follow(log)
    assert tracker.current() == (PhaseId.DISTRIBUTED, Role.TARGET)
    feed(tracker, journal("0.5.8", tp(7)).loading().lines)
    assert tracker.current() == (PhaseId.WEIGHTS, Role.TARGET)


@pytest.mark.parametrize("version", WORDINGS)
def test_a_log_may_start_midway(version: str) -> None:
    target = "target " if WORDINGS[version].pools_last else ""
    tracker, _ = follow(journal(version).pooled().capturing(target))
    assert names(tracker) == ["memory", "graphs"]
    tracker, _ = follow(journal(version).bars(64, upto=20))
    assert tracker.current() == (PhaseId.WEIGHTS, Role.TARGET)
    assert tracker.phases()[0].progress == Progress(20, 64)


def test_warmup_lasts_until_ready() -> None:
    tracker, _ = follow(journal().healthy())
    took = tracker.phases()[-1].took
    assert took is not None
    assert took.total_seconds() == 9


def test_a_capture_that_goes_on_has_left_the_kernel_tuning() -> None:
    bar = "Capturing batches (bs=8 avail_mem=8.01 GB):  {}|##  | {}/8 [00:05<00:01,  2.50it/s]"
    log = journal("0.5.8").launched().connected().loading().bars().loaded().pooled()
    log.everyone("Capture cuda graph begin. This can take up to several minutes.").bare(bar.format("0%", 0))
    tracker, _ = follow(log.say("Try DeepGEMM JIT Compiling for x with all Ms.", "TP0"))
    assert tracker.current()[0] is PhaseId.COMPILE
    tracker, _ = follow(log.bare(bar.format("0%", 0)))
    assert tracker.current()[0] is PhaseId.COMPILE
    tracker, _ = follow(log.bare(bar.format("25%", 2)))
    assert tracker.current()[0] is PhaseId.GRAPHS

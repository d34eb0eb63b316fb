"""Lines of an engine to phases of ranks, in whatever order they come."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bot.core.actions import Progress
from bot.core.events import LogLine, Origin, PhaseId, Role
from bot.core.findings import (
    ONLY_NOISE,
    FailureSaid,
    Finding,
    NoiseRead,
    PhaseBegan,
    PhaseEnded,
    ProgressMade,
    ReadySaid,
)
from bot.core.phases import Tracker
from bot.core.whereabouts import TrackerState
from tests.support.journals import BEGAN, WORDINGS, journal, tp
from tests.support.tracking import ENGINE, HERE, SHAPES, feed, follow, line, names


@pytest.mark.parametrize("version", WORDINGS)
@pytest.mark.parametrize(("ranks", "sizes"), SHAPES)
def test_a_healthy_start_goes_through_its_phases(
    version: str, ranks: tuple[str, ...], sizes: dict[str, int]
) -> None:
    tracker, found = follow(journal(version, ranks, **sizes).healthy())
    assert names(tracker) == ["distributed", "weights", "memory", "graphs", "server", "warmup"]
    assert found[-1] == ReadySaid()
    assert tracker.current() == (PhaseId.READY, Role.TARGET)
    for record in tracker.phases()[:4]:
        assert len(record.ranks) == len(ranks)
        assert record.ended is not None
        assert all(span.ended is not None for span in record.ranks.values())
    assert tracker.phases()[1].progress == Progress(4, 4)
    assert tracker.phases()[3].progress == Progress(4, 4)


def test_a_log_that_starts_amid_service_is_ready() -> None:
    found = feed(Tracker(ENGINE), ["[2026-05-29 23:58:01 TP0] Decode batch. #running-req: 1, #token: 44"])
    assert found == [NoiseRead(), ReadySaid()]


def test_of_a_service_that_serves_most_lines_are_noise_and_nothing_else() -> None:
    tracker = Tracker(ENGINE)
    text = "[2026-05-29 23:58:01 TP0] Decode batch. #running-req: 1, #token: 44"
    read = partial(tracker.read, member=HERE, at=BEGAN)
    read(LogLine(text, text))
    assert read(LogLine(text, text)) is ONLY_NOISE
    both = f"{text}\n{text}"
    assert read(LogLine(both, both)) == (*ONLY_NOISE, *ONLY_NOISE)
    bar = f"  0%|    | 0/23 [00:00<?, ?it/s]{text}"
    assert read(LogLine(bar, bar))[-1:] == ONLY_NOISE
    assert read(LogLine(text, text, partial=True)) == ()


def test_whoever_decodes_requests_is_ready() -> None:
    log = journal().launched().connected().with_target().serving().listening()
    _, found = follow(log.say("Decode batch. #running-req: 1, #token: 44", "TP0"))
    assert found[-1] == ReadySaid()


def test_warmup_is_not_ready_yet() -> None:
    tracker, found = follow(journal().launched().connected().with_target().serving().listening().warmed())
    assert tracker.current() == (PhaseId.WARMUP, Role.TARGET)
    assert ReadySaid() not in found


def test_the_node_behind_the_first_is_ready_when_its_share_is_done() -> None:
    tags = tuple(f"TP{number}" for number in range(8, 16))
    log = journal("0.4.0", tags, tp_size=16, nnodes=2, node_rank=1).launched().connected().with_target()
    tracker, found = follow(log)
    assert ReadySaid() not in found
    everyone = journal("0.4.0", tags).everyone("max_total_num_tokens=1234, context_len=32768").lines
    assert feed(tracker, everyone[:7]).count(ReadySaid()) == 0
    assert feed(tracker, everyone[7:]).count(ReadySaid()) == 1


def test_a_failure_is_told_with_its_rank_and_weight() -> None:
    log = journal().launched().connected().loading()
    log.scheduler_exception("TP3", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    _, found = follow(log.sigquit())
    failures = [each for each in found if isinstance(each, FailureSaid)]
    assert [(each.rank, each.fatal, each.secondary) for each in failures] == [
        ("TP3", True, False),
        ("main", False, False),
        ("main", True, True),
    ]


def test_a_partial_line_moves_a_bar_and_nothing_else() -> None:
    tracker, _ = follow(journal("0.5.8", tp(1)).launched().connected().loading())
    bar = "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:02<00:09,  2.50it/s]"
    found = tracker.read(line(bar, partial=True), member=HERE, at=BEGAN)
    assert found == (ProgressMade(PhaseId.WEIGHTS, Role.TARGET, Progress(2, 4), 2.5),)
    end = "[2026-05-29 23:58:01] Load weight end. type=X"
    assert tracker.read(line(end, partial=True), member=HERE, at=BEGAN) == ()
    assert tracker.read(line(bar), member=HERE, at=BEGAN) == ()


def test_systemds_words_are_not_the_engines() -> None:
    tracker = Tracker(ENGINE)
    about = line("sglang.service: Killed", origin=Origin.MANAGER)
    assert tracker.read(about, member=HERE, at=BEGAN) == ()


def test_phases_may_be_begun_and_ended_from_outside() -> None:
    tracker = Tracker(ENGINE)
    assert tracker.begin(PhaseId.STOPPING, BEGAN) == (PhaseBegan(PhaseId.STOPPING, Role.TARGET),)
    assert tracker.begin(PhaseId.STOPPING, BEGAN) == ()
    assert tracker.current() == (PhaseId.STOPPING, Role.TARGET)
    (ended,) = tracker.end(PhaseId.STOPPING, BEGAN)
    assert isinstance(ended, PhaseEnded)
    assert tracker.end(PhaseId.STOPPING, BEGAN) == ()
    tracker.begin(PhaseId.PROCESS, BEGAN)
    feed(tracker, journal().connected().lines)
    assert names(tracker)[:3] == ["stopping", "process", "distributed"]
    assert tracker.phases()[1].ended is not None


def test_lines_that_match_nothing_are_counted() -> None:
    tracker, _ = follow(journal().launched().bare("quite unheard of", "", "  indented"))
    assert tracker.state.unrecognised == 1


@settings(max_examples=40, deadline=None)
@given(
    version=st.sampled_from(sorted(WORDINGS)),
    draft=st.booleans(),
    shape=st.sampled_from(SHAPES),
    cut=st.floats(0, 1),
)
def test_saved_and_restored_it_goes_on_the_same(
    version: str, draft: bool, shape: tuple[tuple[str, ...], dict[str, int]], cut: float
) -> None:
    lines = journal(version, shape[0], **shape[1]).healthy(draft=draft).lines
    whole = Tracker(ENGINE)
    expected = feed(whole, lines)
    border = int(len(lines) * cut)
    first = Tracker(ENGINE)
    found = feed(first, lines[:border])
    adapter = TypeAdapter(TrackerState)
    second = Tracker(ENGINE, state=adapter.validate_json(adapter.dump_json(first.state)))
    found += feed(second, lines[border:])
    assert [each for each in found if not isinstance(each, PhaseEnded)] == [
        each for each in expected if not isinstance(each, PhaseEnded)
    ]
    assert names(second) == names(whole)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(journal("0.5.18").healthy(draft=True).lines), max_size=60))
def test_no_order_of_lines_breaks_it(lines: list[str]) -> None:
    tracker = Tracker(ENGINE)
    found: list[Finding] = []
    for each in lines:
        found += feed(tracker, [each])
        assert tracker.current() == Tracker(ENGINE, state=tracker.state).current()
    assert found.count(ReadySaid()) <= 1
    tracker.lagging()
    assert len(tracker.places()) <= 8

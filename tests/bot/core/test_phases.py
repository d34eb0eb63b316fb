"""Lines of an engine to phases of ranks, in whatever order they come."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bot.core.actions import Progress
from bot.core.bars import read_bar
from bot.core.events import LogLine, Member, Origin, PhaseId, Rank, Role
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
from bot.core.phases import Tracker, TrackerState
from config.engine_file import load_engine
from tests.support.journals import BEGAN, WORDINGS, Journal, journal, tp

if TYPE_CHECKING:
    from collections.abc import Iterable

ENGINE = load_engine("sglang")
HERE = Member("llm-two/sglang.service")
STAMP = "%Y-%m-%d %H:%M:%S"
DP_TAGS = tuple(f"DP{number} TP{number} EP{number}" for number in range(8))
PP_TAGS = tuple(f"PP{stage} TP{number}" for stage in range(2) for number in range(4))
SHAPES = [
    (tp(1), {}),
    (tp(8), {}),
    (DP_TAGS, {"dp_size": 8, "enable_dp_attention": True}),
    (PP_TAGS, {"tp_size": 4, "pp_size": 2}),
    (tuple(f"DP{number}" for number in range(4)), {"tp_size": 1, "dp_size": 4}),
]


def line(text: str, **fields: object) -> LogLine:
    return replace(LogLine(text=text, reading=read_bar(text)), **fields)  # type: ignore[arg-type]


def feed(tracker: Tracker, lines: Iterable[str]) -> list[Finding]:
    found: list[Finding] = []
    at = BEGAN
    for text in lines:
        if text.startswith("[2026"):
            at = datetime.strptime(text[1:20], STAMP).replace(tzinfo=UTC)
        found += tracker.read(line(text), member=HERE, at=at)
    return found


def follow(log: Journal) -> tuple[Tracker, list[Finding]]:
    tracker = Tracker(ENGINE)
    return tracker, feed(tracker, log.lines)


def names(tracker: Tracker) -> list[str]:
    return [record.phase + ("/draft" if record.role is Role.DRAFT else "") for record in tracker.phases()]


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


def test_a_rank_that_never_spoke_keeps_the_phase_open() -> None:
    log = journal("0.5.8", tp(7), tp_size=8).launched().connected()
    tracker, _ = follow(log)
    assert tracker.current() == (PhaseId.DISTRIBUTED, Role.TARGET)
    feed(tracker, journal("0.5.8", tp(7)).loading().lines)
    assert tracker.current() == (PhaseId.WEIGHTS, Role.TARGET)


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


@pytest.mark.parametrize("version", WORDINGS)
def test_a_log_may_start_midway(version: str) -> None:
    target = "target " if WORDINGS[version].pools_last else ""
    tracker, _ = follow(journal(version).pooled().capturing(target))
    assert names(tracker) == ["memory", "graphs"]
    tracker, _ = follow(journal(version).bars(64, upto=20))
    assert tracker.current() == (PhaseId.WEIGHTS, Role.TARGET)
    assert tracker.phases()[0].progress == Progress(20, 64)


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


def test_warmup_lasts_until_ready() -> None:
    tracker, _ = follow(journal().healthy())
    took = tracker.phases()[-1].took
    assert took is not None
    assert took.total_seconds() == 9


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


def test_a_kernel_tuning_is_named_in_place_of_the_capture_it_runs_in() -> None:
    log = journal("0.5.8").launched().connected().loading().loaded().pooled().capturing()
    log.say("Entering DeepGEMM JIT Pre-Compile session. It may take a long time", "TP0")
    log.bare("DeepGEMM warmup:  12%|#2   | 3/24 [00:05<00:30,  1.50s/it]")
    tracker, found = follow(log)
    assert tracker.current() == (PhaseId.COMPILE, Role.TARGET)
    assert ProgressMade(PhaseId.COMPILE, Role.TARGET, Progress(3, 24), 1 / 1.5) in found
    feed(tracker, journal("0.5.8").captured().lines)
    assert tracker.current() == (PhaseId.GRAPHS, Role.TARGET)


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

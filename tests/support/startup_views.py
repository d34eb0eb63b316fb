"""Views and replies of startups for tests: one that reads well, and strategies for any."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from bot.core.actions import (
    Mark,
    MovedAgain,
    Noticed,
    Pace,
    PhaseFinished,
    PhaseView,
    Progress,
    RankTime,
    RankView,
    Reply,
    StallReported,
    StartupView,
    Verdict,
    VerdictReached,
)
from bot.core.events import HostName, OperationId, PhaseId, Rank, Role, ServiceName, SmokeResult, UserId, Verb

BEGAN = datetime(2026, 5, 29, 23, 49, tzinfo=UTC)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def mark(
    phase: PhaseId,
    how: Mark,
    took: float | None = None,
    *,
    role: Role = Role.TARGET,
    usual: float | None = None,
    progress: Progress | None = None,
) -> PhaseView:
    return PhaseView(
        phase,
        role,
        how,
        None if took is None else seconds(took),
        None if usual is None else seconds(usual),
        progress,
    )


def ranks_in(phase: PhaseId, *, ended: tuple[int, ...] = (), total: int = 8) -> tuple[RankView, ...]:
    return tuple(RankView(Rank(f"TP{n}"), phase, Role.TARGET, n in ended) for n in range(total))


MIDWAY = StartupView(
    operation=OperationId("op1"),
    service=ServiceName("kimi-k2.5"),
    verb=Verb.RESTART,
    hosts=(HostName("llm-two"),),
    by=UserId("U0ALICE"),
    reason="new tool-call parser",
    began=BEGAN,
    elapsed=seconds(235),
    phase=PhaseId.WEIGHTS,
    role=Role.TARGET,
    in_phase=seconds(190),
    pace=Pace.MOVING,
    phases=(
        mark(PhaseId.STOPPING, Mark.DONE, 14),
        mark(PhaseId.PROCESS, Mark.DONE, 9),
        mark(PhaseId.DISTRIBUTED, Mark.DONE, 22, usual=20),
        mark(PhaseId.WEIGHTS, Mark.NOW, 190, usual=300, progress=Progress(38, 64)),
        mark(PhaseId.MEMORY, Mark.AHEAD),
        mark(PhaseId.GRAPHS, Mark.AHEAD),
        mark(PhaseId.WEIGHTS, Mark.AHEAD, role=Role.DRAFT),
        mark(PhaseId.SMOKE, Mark.AHEAD),
    ),
    ranks=ranks_in(PhaseId.WEIGHTS),
    expected_ranks=8,
    eta=seconds(240),
    last_sign=seconds(2),
    usual=seconds(460),
    usual_phase=seconds(300),
)


def midway(**changes: Any) -> StartupView:
    return replace(MIDWAY, **changes)


_NASTY = (
    "<!here> & <@U123> <https://evil.example|ok>",
    "```\n*bold* _it_ ~no~",
    "\x1b[31mred\x1b[0m \x00\x07\x9b",
    "&" * 5_000,
    "<" * 5_000,
    "\U0001f525" * 4_000,
    "▓" * 4_000,
    "\\" * 3_000 + '"' * 3_000,
    "\u202egnp.exe",
    "",
    " ",
    "\n\n",
)
hostile = st.one_of(st.sampled_from(_NASTY), st.text(max_size=60))
names = st.one_of(st.just("kimi-k2.5"), hostile)
spans = st.timedeltas(min_value=timedelta(days=-1), max_value=timedelta(days=400))
maybe_spans = st.none() | spans
progresses = st.none() | st.builds(Progress, st.integers(0, 10**9), st.integers(0, 10**9))
users = st.none() | st.sampled_from([UserId("U0ALICE"), UserId("<!here>")]) | st.builds(UserId, hostile)
phases = st.lists(
    st.builds(PhaseView, took=maybe_spans, usual=maybe_spans, progress=progresses), max_size=40
).map(tuple)
rank_views = st.lists(st.builds(RankView, rank=st.builds(Rank, hostile)), max_size=20).map(tuple)
texts = st.lists(hostile, max_size=12).map(tuple)
views = st.builds(
    StartupView,
    operation=st.builds(OperationId, hostile),
    service=st.builds(ServiceName, names),
    hosts=st.lists(st.builds(HostName, hostile), max_size=6).map(tuple),
    by=users,
    reason=hostile,
    began=st.just(BEGAN),
    elapsed=spans,
    in_phase=spans,
    phases=phases,
    ranks=rank_views,
    expected_ranks=st.none() | st.integers(0, 10_000),
    eta=maybe_spans,
    eta_after=maybe_spans,
    eta_phase=maybe_spans,
    last_sign=maybe_spans,
    usual=maybe_spans,
    usual_phase=maybe_spans,
    lost=st.none() | hostile,
    notes=texts,
    cause=st.none() | hostile,
)
_rank_times = st.none() | st.builds(RankTime, st.builds(Rank, hostile), spans)
_smokes = st.none() | st.builds(
    SmokeResult,
    first_token=st.none() | st.floats(0, 1e6),
    tokens_per_second=st.none() | st.floats(0, 1e6),
    answer=hostile,
)
replies: st.SearchStrategy[Reply] = st.one_of(
    st.builds(PhaseFinished, took=spans, usual=maybe_spans, slowest=_rank_times, fastest=_rank_times),
    st.builds(
        StallReported,
        silent=spans,
        patience=spans,
        in_phase=spans,
        progress=progresses,
        lagging=st.lists(st.builds(Rank, hostile), max_size=12).map(tuple),
        ranks=rank_views,
        last_lines=texts,
        evidence=texts,
    ),
    st.builds(MovedAgain, silent=spans, sign=hostile),
    st.builds(
        VerdictReached,
        verdict=st.sampled_from(Verdict),
        took=spans,
        usual=maybe_spans,
        phases=phases,
        cause=st.none() | hostile,
        root_error=st.none() | hostile,
        rank=st.none() | st.builds(Rank, hostile),
        advice=st.none() | hostile,
        means=st.none() | hostile,
        also=st.none() | hostile,
        model=st.none() | hostile,
        smoke=_smokes,
        by=users,
    ),
    st.builds(Noticed, sentence=hostile, by=users),
)

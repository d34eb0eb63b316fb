"""Any events a startup can be told, in any order, for properties that must hold whatever happens."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from bot.core.events import (
    Event,
    EvidenceSampled,
    HostLost,
    HostRestored,
    LineRead,
    LogLine,
    LogMissed,
    Origin,
    PatienceExtended,
    ProbeAnswered,
    ProcessSeen,
    Rank,
    Sample,
    ShardMapped,
    SmokeFinished,
    SmokeResult,
    Superseded,
    Ticked,
    UnitObserved,
    UnwatchAsked,
    UserId,
    Verb,
    VerbRefused,
    VerbSent,
    VerbUnanswered,
)
from tests.support.startup_runs import (
    BEGAN,
    CLOSED,
    MEMBER,
    NEW,
    NEXT,
    OLD,
    PASSED,
    READY_LINE,
    RUNNING,
    UP,
    WARMING,
    Run,
    make_plan,
    stamp,
)

TEXTS = (
    "Init torch distributed begin.",
    "Init torch distributed ends. elapsed=3.00 s, mem usage=0.50 GB",
    "Load weight begin. avail mem=78.50 GB",
    "Load weight end. elapsed=20.00 s, type=X, avail mem=8.50 GB, mem usage=70.00 GB.",
    "Memory pool end. avail mem=3.00 GB",
    "Capture cuda graph begin. This can take up to several minutes.",
    "Capture cuda graph end. Time elapsed: 10.00 s. mem usage=1.00 GB.",
    "INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)",
    "Scheduler hit an exception: Traceback (most recent call last):",
    "something new",
    READY_LINE,
)
MANAGER = (
    "Stopping u - U...",
    "Stopped u - U.",
    "Started u - U.",
    "u: Main process exited, code=killed, status=9/KILL",
    "u: Failed with result 'signal'.",
    "u: Scheduled restart job, restart counter is at 1.",
)
INVOCATIONS = st.sampled_from([OLD, NEW, NEW, NEW, NEXT, None])


def _line(text: str, rank: str, invocation: Any, ago: int) -> LineRead:
    reading = stamp(text, rank)
    at = BEGAN - timedelta(seconds=ago)
    return LineRead(MEMBER, LogLine(reading, reading, at=at, pid=7, invocation=invocation))


def _manager(text: str, invocation: Any) -> LineRead:
    return LineRead(MEMBER, LogLine(text, text, origin=Origin.MANAGER, invocation=invocation))


def _missed(ago: int, lasted: int) -> LogMissed:
    since = BEGAN - timedelta(seconds=ago)
    return LogMissed(MEMBER, since, since + timedelta(seconds=lasted))


LINES = st.builds(
    _line, st.sampled_from(TEXTS), st.sampled_from(["TP0", "TP1", ""]), INVOCATIONS, st.integers(-500, 500)
)
UNITS = st.builds(
    lambda unit, invocation, job, restarts: UnitObserved(
        MEMBER, replace(unit, invocation=invocation, job=job, restarts=restarts)
    ),
    st.sampled_from(
        [
            RUNNING,
            RUNNING,
            RUNNING,
            replace(RUNNING, active="deactivating", sub="stop-sigterm"),
            replace(RUNNING, active="inactive", sub="dead"),
            replace(RUNNING, active="activating", sub="auto-restart"),
        ]
    ),
    INVOCATIONS,
    st.sampled_from([None, None, 5]),
    st.sampled_from([0, 0, 0, 1]),
)
REBOOTS = st.builds(
    lambda invocation, boot: UnitObserved(MEMBER, replace(RUNNING, invocation=invocation), boot),
    INVOCATIONS,
    st.sampled_from(["one", "one", "two"]),
)
SAMPLES = st.builds(
    lambda seconds, invocation, read, ranks, shard: EvidenceSampled(
        MEMBER,
        Sample(
            BEGAN + timedelta(seconds=seconds),
            invocation=invocation,
            cpu=timedelta(seconds=seconds * 2),
            read=read,
            processes=tuple(
                ProcessSeen(100 + rank, f"sglang::scheduler_TP{rank}", Rank(f"TP{rank}")) for rank in ranks
            ),
            shard=shard,
            model_size=10**11,
        ),
    ),
    st.integers(0, 7200),
    INVOCATIONS,
    st.one_of(st.none(), st.integers(0, 2 * 10**11)),
    st.sets(st.integers(0, 2)),
    st.one_of(st.none(), st.builds(ShardMapped, st.integers(1, 64), st.just(64))),
)
EVENTS = st.one_of(
    LINES,
    LINES,
    SAMPLES,
    st.builds(_manager, st.sampled_from(MANAGER), INVOCATIONS),
    UNITS,
    st.sampled_from([ProbeAnswered(answer) for answer in (UP, UP, WARMING, CLOSED)]),
    st.sampled_from([SmokeFinished(PASSED), SmokeFinished(SmokeResult(passed=False, error="no answer"))]),
    st.sampled_from([VerbSent(MEMBER), VerbUnanswered(MEMBER, "lost"), VerbRefused(MEMBER, "no")]),
    st.sampled_from([HostLost(MEMBER, "lost"), HostRestored(MEMBER)]),
    st.builds(
        lambda minutes: PatienceExtended(UserId("U7"), BEGAN + timedelta(minutes=minutes)),
        st.integers(0, 60),
    ),
    REBOOTS,
    st.builds(_missed, st.integers(-500, 500), st.integers(1, 500)),
    st.just(Ticked()),
    st.just(Ticked()),
)
ENDERS = st.sampled_from([UnwatchAsked(UserId("U7")), Superseded(UserId("U7"), Verb.RESTART)])
VERBS = st.sampled_from(list(Verb))
# Quarter seconds before the event, and the event.
STEPS = st.lists(
    st.tuples(st.integers(0, 200), st.one_of(EVENTS, EVENTS, EVENTS, EVENTS, EVENTS, ENDERS)), max_size=40
)


def _healthy_road() -> list[tuple[int, Event]]:
    run = Run(make_plan())
    run.run_to_ready()
    run.wait_for_verdict()
    times = [run.plan.began, *(at for _, at in run.events)]
    gaps = (int((now - before).total_seconds() * 4) for before, now in itertools.pairwise(times))
    return [(gap, event) for gap, (event, _) in zip(gaps, run.events, strict=True)]


ROAD = _healthy_road()


@st.composite
def roads(draw: st.DrawFn) -> list[tuple[int, Event]]:
    """A healthy start with some of its events lost, and some that do not belong there put in."""
    lost = draw(st.sets(st.integers(0, len(ROAD) - 1), max_size=8))
    road = [(gap, Ticked() if index in lost else event) for index, (gap, event) in enumerate(ROAD)]
    for place, event in draw(st.lists(st.tuples(st.integers(0, len(ROAD)), EVENTS), max_size=3)):
        road.insert(place, (0, event))
    return road

"""However much fails, what is remembered and compared stays small."""

from __future__ import annotations

from bot.core.diagnosis import MOST_TRACES, Suspects
from bot.core.events import MAIN_RANK, LogLine, PhaseId, Rank, Role
from bot.core.phases import Tracker
from tests.support.journals import BEGAN
from tests.support.suspicion import ENGINE, HERE, OOM, accuse, loading


def test_thousands_of_failures_are_not_all_kept() -> None:
    log = loading().scheduler_exception("TP3", OOM)
    for number in range(500):
        log.say(f"Health check failed. {number}")
    suspects = accuse(log)
    assert len(suspects.state.suspects) == 100
    kept = suspects.state.suspects
    open_traces = [trace.suspect for trace in suspects.state.traces.values() if trace.suspect is not None]
    assert all(index < len(kept) for index in open_traces)
    cause = suspects.cause()
    assert cause is not None
    assert cause.rank == Rank("TP3")


def test_a_failure_that_is_forgotten_takes_its_open_traceback_along() -> None:
    log = loading()
    for number in range(50):
        log.say(f"Health check failed. {number}")
    log.scheduler_exception("TP3", "RuntimeError: the one in the middle")
    suspects = accuse(log)
    middle = len(suspects.state.suspects) - 1
    assert middle in {trace.suspect for trace in suspects.state.traces.values()}
    for number in range(200):
        log.say(f"Health check failed. {number}")
    suspects = accuse(log)
    assert not any("the one in the middle" in each.lines[0] for each in suspects.state.suspects)
    assert not any(trace.suspect is not None for trace in suspects.state.traces.values())


def test_many_failures_are_compared_once_a_kind() -> None:
    log = loading().scheduler_exception("TP3", OOM)
    for number in range(90):
        log.scheduler_exception(f"TP{number % 8}", f"RuntimeError: something nobody knows {number}")
    log.scheduler_exception("TP5", "OSError: [Errno 5] Input/output error: 'x.bin'")
    cause = accuse(log).cause()
    assert cause is not None
    what = "A file could not be read: input/output error or a stale mount"
    assert cause.also == f"TP5: {what}: OSError: [Errno 5] Input/output error: 'x.bin'"


def test_tracebacks_that_nobody_ends_are_not_all_kept() -> None:
    suspects = Suspects(engine=ENGINE)
    for pid in range(1, 2_000):
        line = LogLine("Traceback (most recent call last):", "Traceback (most recent call last):", pid=pid)
        suspects.note(line, (), phase=PhaseId.WEIGHTS, role=Role.TARGET, rank=MAIN_RANK)
    assert len(suspects.state.traces) <= MOST_TRACES
    line = LogLine(OOM, OOM, pid=1_999)
    findings = Tracker(ENGINE).read(line, member=HERE, at=BEGAN)
    suspects.note(line, findings, phase=PhaseId.WEIGHTS, role=Role.TARGET, rank=MAIN_RANK)
    assert suspects.cause() is not None


def test_a_traceback_that_is_open_keeps_little_of_an_endless_line() -> None:
    log = loading().say("Scheduler hit an exception: Traceback (most recent call last):", "TP1")
    log.bare(f'  File "/opt/{"x" * 1_000_000}", line 3, in load', f"    call({'x' * 1_000_000})")
    (trace,) = accuse(log).state.traces.values()
    assert 0 < len(trace.frame) <= 1000
    assert 0 < len(trace.code) <= 1000
    assert len(trace.stamp) <= 1000

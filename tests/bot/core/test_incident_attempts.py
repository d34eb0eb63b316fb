"""A crash loop: each attempt counted, few of them told; startups that are followed are linked."""

from __future__ import annotations

from datetime import timedelta

from bot.core.actions import Verdict
from bot.core.events import InvocationId, OperationId, PhaseId, Verb
from bot.core.incident_actions import AttemptTold, ReadRunLog, StartLinked, StartOverTold
from bot.core.incident_events import (
    AttemptDied,
    DownAgain,
    Recovered,
    RunLogRead,
    StartFollowed,
    StartOver,
)
from bot.core.incident_render import render_incident_root
from bot.core.incident_state import How, Severity
from tests.support.incidents import BOB, DIED, MEMBER, OUT_OF_MEMORY, RUN, Case, make_lines

LOADING = ("[2026-05-29 03:10:00 TP0] Load weight begin. avail mem=78.50 GB", *OUT_OF_MEMORY)
OTHER = (
    "[2026-05-29 03:10:00 TP0] Load weight begin. avail mem=78.50 GB",
    "OSError: [Errno 28] No space left on device",
)


def _run(number: int) -> InvocationId:
    return InvocationId(f"{number:032x}")


def _die(case: Case, number: int, lines: tuple[str, ...] | None = LOADING) -> None:
    case.tell(AttemptDied(MEMBER, _run(number), number, timedelta(minutes=3)), after=180)
    if lines is not None:
        case.tell(RunLogRead(MEMBER, _run(number), make_lines(*lines)))


def test_an_attempt_is_told_with_its_phase_its_time_and_its_cause() -> None:
    case = Case()
    _die(case, 1)
    (told,) = case.replies(AttemptTold)
    assert told.attempt.lasted == timedelta(minutes=3)
    assert told.attempt.read is not None
    assert told.attempt.read.phase is PhaseId.WEIGHTS
    assert told.attempt.read.cause.startswith("Out of GPU memory")
    assert ReadRunLog(MEMBER, _run(1), case.now - timedelta(seconds=1)) in case.actions


def test_of_a_long_loop_few_are_told_and_all_are_counted() -> None:
    case = Case()
    for number in range(1, 101):
        _die(case, number)
    assert [each.attempt.number for each in case.replies(AttemptTold)] == [1, 2, 3, 4, 8, 16, 32, 64]
    assert case.view().attempts == 100
    assert case.view().last_attempt is not None


def test_one_that_dies_of_something_else_is_told() -> None:
    case = Case()
    for number in range(1, 7):
        _die(case, number)
    _die(case, 7, OTHER)
    told = case.replies(AttemptTold)[-1]
    assert (told.attempt.number, told.same) == (7, 1)


def test_the_root_tells_what_it_dies_of_now_and_what_it_died_of_first() -> None:
    case = Case()
    case.tell(RunLogRead(MEMBER, RUN, make_lines(*OUT_OF_MEMORY)))
    first = case.view().cause
    for number, lines in enumerate((LOADING, OTHER), 1):
        _die(case, number, lines)
        assert (case.view().first_cause == first) == (lines is OTHER)
    root = render_incident_root(case.view()).blocks[0]["text"]["text"]
    assert f"Cause: {case.view().cause} · first: {first}" in root
    assert "disk" in case.view().cause.lower() or "space" in case.view().cause.lower()
    _die(case, 3, None)  # its log is not read yet: the newest that is known
    assert case.view().first_cause == first
    _die(case, 4, LOADING)
    assert (case.view().cause, case.view().first_cause) == (first, "")


def test_after_it_served_what_it_died_of_before_is_no_cause_of_this_time() -> None:
    case = Case()
    case.tell(RunLogRead(MEMBER, RUN, make_lines(*OUT_OF_MEMORY)))
    _die(case, 1, OTHER)
    case.tell(Recovered(case.now), after=60)
    case.tell(DownAgain(case.now, DIED, Severity.DOWN), after=60)
    root = render_incident_root(case.view()).blocks[0]["text"]["text"]
    assert "Cause: not known · first: Out of GPU memory" in root


def test_without_a_log_it_is_told_a_little_later() -> None:
    case = Case()
    _die(case, 1, None)
    assert case.replies(AttemptTold) == []
    case.wait(20)
    (told,) = case.replies(AttemptTold)
    assert told.attempt.read is None
    case.tell(RunLogRead(MEMBER, _run(1), make_lines(*LOADING)))
    assert len(case.replies(AttemptTold)) == 1


def test_a_log_that_comes_after_the_end_names_the_cause_and_is_no_reply() -> None:
    case = Case()
    _die(case, 1, None)
    case.tell(Recovered(case.now))
    case.tell(RunLogRead(MEMBER, _run(1), make_lines(*LOADING)))
    assert case.replies(AttemptTold) == []
    assert case.view().cause.startswith("Out of GPU memory")


def test_the_same_attempt_is_counted_once() -> None:
    case = Case()
    _die(case, 1)
    _die(case, 1)
    assert case.view().attempts == 1


def test_a_counter_that_a_person_has_set_back_takes_none_away() -> None:
    case = Case()
    for run in (1, 2, 3):
        case.tell(AttemptDied(MEMBER, _run(run), 1), after=60)
    assert case.view().attempts == 3


def test_attempts_that_nobody_saw_are_in_systemds_counter() -> None:
    case = Case()
    _die(case, 40)
    assert case.view().attempts == 40


def test_a_startup_is_linked_once_and_its_end_told() -> None:
    case = Case()
    start = StartFollowed(OperationId("op1"), Verb.WATCH, how=How.SYSTEMD, link="https://slack.example/1")
    for _ in range(2):
        case.tell(start)
    assert case.view().start == "op1"
    for _ in range(2):
        case.tell(StartOver(OperationId("op1"), Verdict.FAILED, timedelta(minutes=3), "out of GPU memory"))
    assert len(case.replies(StartLinked)) == len(case.replies(StartOverTold)) == 1
    assert case.view().start is None
    assert case.view().attempts == 1


def test_one_that_somebody_asked_for_is_no_attempt_of_systemds() -> None:
    case = Case()
    case.tell(StartFollowed(OperationId("op1"), Verb.RESTART, BOB))
    case.tell(StartOver(OperationId("op1"), Verdict.FAILED, timedelta(minutes=3)))
    case.tell(StartOver(OperationId("op2"), Verdict.FAILED, timedelta(minutes=3)))
    assert case.view().attempts == 0
    assert len(case.replies(StartOverTold)) == 1

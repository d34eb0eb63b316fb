"""The present of an incident: its cause from wherever it is known, its downtime up to now."""

from __future__ import annotations

from datetime import timedelta

from bot.core.actions import Verdict
from bot.core.events import InvocationId, OperationId, Verb
from bot.core.incident_events import (
    AttemptDied,
    IncidentMuted,
    Recovered,
    RunLogRead,
    SignSeen,
    StartFollowed,
    StartOver,
)
from bot.core.incident_view import loading_of, present_read
from tests.support.incidents import BEGAN, BOB, DIED, MEMBER, OUT_OF_MEMORY, RUN, SLOW, Case, make_lines


def test_downtime_counts_up_to_now_and_stands_still_afterwards() -> None:
    case = Case()
    case.wait(60)
    assert case.view().downtime == timedelta(seconds=60)
    case.tell(Recovered(BEGAN + timedelta(seconds=55)))
    case.wait(600)
    assert case.view().downtime == timedelta(seconds=55)


def test_the_cause_may_be_known_from_an_attempt_alone() -> None:
    case = Case()
    other = InvocationId("b" * 32)
    case.tell(RunLogRead(MEMBER, RUN, make_lines("nothing said")))
    assert case.view().cause == ""
    case.tell(AttemptDied(MEMBER, other, 1))
    case.tell(RunLogRead(MEMBER, other, make_lines(*OUT_OF_MEMORY)))
    assert case.view().cause.startswith("Out of GPU memory")
    read = present_read(case.incident.state)
    assert read is not None
    assert read.advice


def test_of_many_signs_the_first_and_the_newest_are_shown() -> None:
    case = Case()
    for _ in range(10):
        case.tell(SignSeen(SLOW))
    assert case.view().signs == (DIED, SLOW, SLOW, SLOW)


def test_a_mute_that_is_over_is_not_shown() -> None:
    case = Case()
    until = BEGAN + timedelta(seconds=100)
    case.tell(IncidentMuted(BOB, until))
    assert case.view().muted == until
    assert case.incident.view(until).muted is None


def test_who_starts_it_is_shown_while_that_lasts_and_once_it_is_over() -> None:
    case = Case()
    case.tell(StartFollowed(OperationId("op1"), Verb.RESTART, BOB))
    assert case.view().started_by == BOB
    case.tell(StartOver(OperationId("op1"), Verdict.FAILED, timedelta(seconds=1)))
    assert case.view().started_by is None
    case.tell(Recovered(case.now))
    assert case.view().started_by == BOB


def test_what_proves_a_start_healthy_is_no_downtime() -> None:
    case = Case()
    case.tell(StartFollowed(OperationId("op1"), Verb.RESTART, BOB), after=10)
    serves = case.now + timedelta(seconds=120)
    case.tell(StartOver(OperationId("op1"), Verdict.HEALTHY, timedelta(seconds=180)), after=180)
    case.tell(Recovered(serves))
    assert loading_of(case.incident.state) <= case.view().downtime
    assert timedelta(seconds=118) < loading_of(case.incident.state) < timedelta(seconds=122)


def test_no_start_is_told_to_have_loaded_for_longer_than_its_own_thread_says() -> None:
    """Checks come seconds apart: the first good one stands a little behind what proved it."""
    case = Case()
    case.tell(StartFollowed(OperationId("op1"), Verb.RESTART, BOB), after=10)
    case.tell(StartOver(OperationId("op1"), Verdict.HEALTHY, timedelta(seconds=180)), after=195)
    case.tell(Recovered(case.now))
    assert loading_of(case.incident.state) == timedelta(seconds=180)

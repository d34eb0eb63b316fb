"""The present of an incident: its cause from wherever it is known, its downtime up to now."""

from __future__ import annotations

from datetime import timedelta

from bot.core.events import InvocationId
from bot.core.incident_events import AttemptDied, IncidentMuted, Recovered, RunLogRead, SignSeen
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

"""How an incident stands now: again, worse, as it shows itself, and what its log tells each time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from bot.core.events import OperationId, Verb
from bot.core.incident_actions import (
    AgainTold,
    EditIncident,
    EndTold,
    EscalationTold,
    IncidentEnded,
    ReadRunLog,
    RunTold,
    WorsenedTold,
)
from bot.core.incident_events import (
    Acknowledged,
    DownAgain,
    IncidentMuted,
    PresentSeen,
    Recovered,
    ResolvedByHand,
    RunLogRead,
    SignSeen,
    StartFollowed,
    Worsened,
)
from bot.core.incident_export import People, render_export
from bot.core.incident_render import render_incident_root
from bot.core.incident_state import Severity, Sign, SignKind
from tests.support.incidents import (
    ALICE,
    BEGAN,
    BOB,
    DIED,
    HOST,
    MEMBER,
    OUT_OF_MEMORY,
    RUN,
    SLOW,
    Case,
    make_incident_plan,
    make_lines,
)
from tests.support.slack_messages import shown

if TYPE_CHECKING:
    from bot.core.events import InvocationId

ACCESS = '[2026-05-29 03:12:42] INFO:     127.0.0.1:5555 - "GET /health HTTP/1.1" 200 OK'
DEGRADED = make_incident_plan(severity=Severity.DEGRADED, signs=(SLOW,))
HIDDEN = Sign(SignKind.HIDDEN, BEGAN, "SSH is refused (connection refused)")
OF_HOST = make_incident_plan(
    severity=Severity.HOST, service=None, subject=HOST, members=(), signs=(HIDDEN,), invocations={}
)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def again(case: Case, severity: Severity = Severity.DOWN, *, well: float = 5) -> None:
    """It is over now, and that much later it is not."""
    case.tell(Recovered(case.now))
    sign = replace(DIED if severity is Severity.DOWN else SLOW, at=case.now + minutes(well))
    case.tell(DownAgain(sign.at, sign, severity), after=well * 60)


def test_what_stands_now_is_the_sign_of_this_time() -> None:
    case = Case(DEGRADED)
    assert case.view().stands == SLOW
    worse = replace(DIED, at=BEGAN + minutes(5))
    case.tell(Worsened(Severity.DOWN, worse), after=300)
    assert case.view().stands == worse
    case.tell(SignSeen(SLOW))
    assert case.view().stands == worse
    assert case.view().signs[0] == SLOW  # that began it all the same


def test_of_a_host_the_newest_sign_tells_how_it_stands() -> None:
    case = Case(OF_HOST)
    assert case.view().is_hidden
    gone = Sign(SignKind.SIGHT, BEGAN + minutes(5), "the host does not answer SSH")
    case.tell(SignSeen(gone))
    assert case.view().stands == gone
    assert not case.view().was_hidden
    [edit] = case.tell(PresentSeen(HIDDEN))
    assert isinstance(edit, EditIncident)
    assert edit.view.is_hidden
    case.tell(Recovered(case.now))
    [end] = case.replies(EndTold)
    assert not end.hidden


def test_a_host_that_was_there_all_the_time_was_never_gone() -> None:
    case = Case(OF_HOST)
    case.tell(Recovered(BEGAN + minutes(1)), after=60)
    [end] = case.replies(EndTold)
    assert end.hidden
    assert case.incident.state.timeline[1].sentence == "the incident is opened (out of sight)"
    assert end.downtime == minutes(1)


class TestWorse:
    def test_who_knew_that_it_was_degraded_is_not_taken_to_be_on_it(self) -> None:
        case = Case(DEGRADED)
        case.tell(Acknowledged(BOB), after=60)
        case.tell(Worsened(Severity.DOWN, replace(DIED, at=BEGAN + minutes(60))), after=3540)
        assert case.view().acked_by is None
        case.wait(610)
        assert len(case.replies(EscalationTold)) == 1

    def test_in_the_moment_in_which_somebody_closes_it_goes_on(self) -> None:
        case = Case(DEGRADED)
        case.tell(ResolvedByHand(ALICE), after=60)
        case.tell(Worsened(Severity.DOWN, replace(DIED, at=case.now)))
        assert case.view().is_open
        assert case.view().severity is Severity.DOWN
        assert case.replies(AgainTold)[0].times == 1

    def test_an_end_that_was_never_heard_of_does_not_hide_that_it_is_down(self) -> None:
        case = Case(DEGRADED)
        case.tell(DownAgain(BEGAN + minutes(9), DIED, Severity.DOWN), after=540)
        assert len(case.replies(WorsenedTold)) == 1
        assert case.view().severity is Severity.DOWN


class TestAgain:
    def test_a_mute_of_the_time_before_calls_off_nobody(self) -> None:
        case = Case()
        case.tell(IncidentMuted(BOB, BEGAN + timedelta(hours=9)))
        again(case)
        assert case.view().muted is None
        case.wait(610)
        assert len(case.replies(EscalationTold)) == 1

    def test_it_served_since_it_served_and_not_since_that_was_proven(self) -> None:
        case = Case()
        case.tell(Recovered(BEGAN + minutes(1)), after=600)
        case.tell(DownAgain(BEGAN + minutes(11), DIED, Severity.DOWN), after=60)
        assert case.replies(AgainTold)[0].served == minutes(10)

    def test_heard_of_late_it_served_for_no_less_than_nothing(self) -> None:
        case = Case()
        case.tell(Recovered(BEGAN + minutes(10)), after=600)
        case.tell(DownAgain(BEGAN + minutes(9), DIED, Severity.DOWN), after=60)
        assert case.replies(AgainTold)[0].served == timedelta()

    @pytest.mark.parametrize(
        ("course", "times", "worst"),
        [
            ([Severity.DOWN, Severity.DOWN], 3, Severity.DOWN),
            ([Severity.DEGRADED], 1, Severity.DOWN),
            ([Severity.DEGRADED, Severity.DOWN], 2, Severity.DOWN),
        ],
    )
    def test_how_often_it_was_down_is_not_how_often_it_was_degraded(
        self, course: list[Severity], times: int, worst: Severity
    ) -> None:
        case = Case()
        for severity in course:
            case.now += minutes(1)
            again(case, severity)
        case.tell(Recovered(case.now))
        end = case.replies(EndTold)[-1]
        assert (end.times, end.worst, end.severity) == (times, worst, course[-1])

    def test_what_was_never_down_counts_how_often_it_was_degraded(self) -> None:
        case = Case(DEGRADED)
        again(case, Severity.DEGRADED)
        again(case, Severity.DEGRADED)
        assert [told.times for told in case.replies(AgainTold)] == [2, 3]
        assert (case.view().times, case.view().worst) == (3, Severity.DEGRADED)
        again(case)
        assert case.replies(AgainTold)[-1].times == 1
        assert (case.view().times, case.view().worst) == (1, Severity.DOWN)


def asked(case: Case) -> list[tuple[InvocationId | None, bool]]:
    """What a process asks that takes it up a little later."""
    case.now += timedelta(seconds=1)
    case.restore()
    actions = case.incident.resume(case.now)
    return [(each.invocation, each.changes) for each in actions if isinstance(each, ReadRunLog)]


def test_who_takes_over_asks_for_the_log_of_the_time_it_knows_nothing_of() -> None:
    case = Case()
    assert asked(case) == [(RUN, True)]
    case.tell(RunLogRead(MEMBER, RUN, make_lines(*OUT_OF_MEMORY)))
    assert asked(case) == []
    again(case)
    assert asked(case) == [(None, False)]
    case.tell(RunLogRead(MEMBER, None, make_lines("nothing said")))
    assert asked(case) == []


def test_nobody_is_asked_of_what_is_over() -> None:
    case = Case()
    case.tell(Recovered(case.now))
    assert case.actions[-1].__class__ is IncidentEnded
    assert asked(case) == []


def test_of_all_hosts_whoever_is_on_one_of_them_is_told_anew() -> None:
    gone = Sign(SignKind.SIGHT, BEGAN, "the host does not answer SSH")
    network = Sign(SignKind.NETWORK, BEGAN, "kimi reaches none of its 4 hosts")
    plan = replace(OF_HOST, signs=(gone,), escalate_after=minutes(10), group="S0NIGHT")
    case = Case(plan)
    case.tell(Acknowledged(BOB), after=60)
    case.tell(SignSeen(network), after=30)
    assert case.incident.state.acked_by is None
    case.wait(9 * 60)
    assert case.replies(EscalationTold) == []
    case.wait(2 * 60)
    assert len(case.replies(EscalationTold)) == 1


def test_the_last_good_check_is_the_one_before_it_went_down_this_time() -> None:
    case = Case(DEGRADED)
    assert case.view().last_healthy == DEGRADED.last_healthy
    good = BEGAN + minutes(59)
    case.tell(Worsened(Severity.DOWN, replace(DIED, at=BEGAN + minutes(60)), good), after=3600)
    assert case.view().last_healthy == good
    assert case.webhooks()[-1]["last_healthy"] == "2026-05-29T04:11:41.000+00:00"
    case.tell(Recovered(case.now))
    better = case.now + minutes(5)
    case.tell(DownAgain(better, replace(DIED, at=better), Severity.DOWN, better), after=300)
    assert case.view().last_healthy == better


def test_of_a_time_behind_the_first_an_old_good_check_is_not_shown() -> None:
    case = Case()
    again(case)
    assert case.view().last_healthy is None


@pytest.mark.parametrize("text", ["nothing said", *OUT_OF_MEMORY[2:3]])
def test_a_log_that_says_nothing_more_than_the_time_before_is_not_shown_again(text: str) -> None:
    case = Case()
    lines = make_lines(text)
    case.tell(RunLogRead(MEMBER, RUN, lines))
    assert len(case.replies(RunTold)) == 1
    again(case)
    case.tell(RunLogRead(MEMBER, None, make_lines(text, ACCESS)))  # which tells nothing
    assert len(case.replies(RunTold)) == 1
    again(case)
    case.tell(RunLogRead(MEMBER, None, make_lines(text, "and more")))
    assert len(case.replies(RunTold)) == 2


def test_a_start_of_the_time_before_is_not_under_way_when_it_is_down_again() -> None:
    """Its verdict was never heard of."""
    case = Case()
    case.tell(StartFollowed(OperationId("op1"), Verb.RESTART, BOB))
    assert case.view().start == "op1"
    again(case)
    assert case.view().start is None
    assert case.view().started_by is None


def test_who_was_on_it_before_it_went_down_is_not_told_as_nobody() -> None:
    case = Case(DEGRADED)
    case.tell(Acknowledged(BOB), after=60)
    case.tell(Worsened(Severity.DOWN, replace(DIED, at=BEGAN + minutes(5))), after=240)
    assert "Nobody is on it yet" in shown(render_incident_root(case.view()))
    case.tell(Recovered(case.now), after=60)
    assert "was on it before it last went down" in shown(render_incident_root(case.view()))
    told = render_export(case.plan, case.incident.state, case.now, People(names={BOB: "bob"}))
    assert "| Acknowledged | by bob before it last went down, and by nobody since |" in told

"""Who is on it, who is called when nobody is, and who wants to hear nothing."""

from __future__ import annotations

from datetime import timedelta

from bot.core.incident_actions import AckTold, EscalationTold, MuteTold
from bot.core.incident_events import Acknowledged, DownAgain, IncidentMuted, IncidentUnmuted, Recovered
from bot.core.incident_state import Severity
from tests.support.incidents import ALICE, BEGAN, BOB, DIED, SLOW, Case, make_incident_plan


class TestEscalation:
    def test_nobody_comes_and_the_group_is_called_once_in_the_channel(self) -> None:
        case = Case()
        case.wait(3600)
        (post,) = case.posts()
        assert post.reply == EscalationTold("S0456", timedelta(minutes=10))
        assert post.broadcast
        case.tell(Recovered(case.now))
        assert [post.broadcast for post in case.posts()] == [True, False]

    def test_somebody_is_on_it(self) -> None:
        case = Case()
        case.tell(Acknowledged(BOB), after=590)
        case.wait(3600)
        assert case.replies(EscalationTold) == []

    def test_it_is_muted(self) -> None:
        case = Case()
        case.tell(IncidentMuted(BOB, BEGAN + timedelta(hours=1), "known"))
        case.wait(3500)
        assert case.replies(EscalationTold) == []
        case.wait(200)
        assert [reply.until for reply in case.replies(MuteTold)] == [BEGAN + timedelta(hours=1), None]
        assert len(case.replies(EscalationTold)) == 1

    def test_a_mute_that_is_pressed_twice_is_told_once_and_a_longer_one_again(self) -> None:
        case, until = Case(), BEGAN + timedelta(hours=1)
        for more in (0, 0.4, 3600):
            case.tell(IncidentMuted(BOB, until + timedelta(seconds=more)))
        assert [reply.until for reply in case.replies(MuteTold)] == [until, until + timedelta(hours=1)]

    def test_it_is_only_degraded(self) -> None:
        case = Case(make_incident_plan(severity=Severity.DEGRADED, signs=(SLOW,)))
        case.wait(3600)
        assert case.posts() == []

    def test_it_went_down_again_and_people_have_as_long_as_before(self) -> None:
        case = Case()
        case.tell(Recovered(BEGAN + timedelta(seconds=60)), after=60)
        case.tell(DownAgain(BEGAN + timedelta(minutes=20), DIED, Severity.DOWN), after=1140)
        case.wait(590)
        assert case.replies(EscalationTold) == []
        case.wait(20)
        assert len(case.replies(EscalationTold)) == 1

    def test_what_is_only_degraded_now_calls_nobody(self) -> None:
        case = Case()
        case.tell(Recovered(BEGAN + timedelta(seconds=60)), after=60)
        case.tell(DownAgain(BEGAN + timedelta(minutes=5), SLOW, Severity.DEGRADED), after=240)
        case.wait(3600)
        assert case.replies(EscalationTold) == []

    def test_none_is_configured(self) -> None:
        case = Case(make_incident_plan(escalate_after=None))
        case.wait(3600)
        assert case.posts() == []

    def test_an_acknowledgement_holds_for_the_outage_it_was_given_in(self) -> None:
        case = Case()
        case.tell(Acknowledged(BOB), after=30)
        case.tell(Recovered(BEGAN + timedelta(seconds=60)), after=60)
        case.tell(DownAgain(BEGAN + timedelta(minutes=20), DIED, Severity.DOWN), after=1140)
        assert case.view().acked_by is None
        case.tell(Acknowledged(ALICE), after=60)
        assert case.replies(AckTold)[-1] == AckTold(ALICE, timedelta(minutes=1))
        case.wait(3600)
        assert case.replies(EscalationTold) == []

    def test_who_was_called_in_vain_is_called_again_for_the_next_outage(self) -> None:
        case = Case()
        case.wait(610)
        case.tell(Recovered(case.now))
        case.tell(DownAgain(case.now + timedelta(minutes=5), DIED, Severity.DOWN), after=300)
        case.wait(610)
        assert len(case.replies(EscalationTold)) == 2
        assert sum(post.broadcast for post in case.posts()) == 1


def test_only_the_first_acknowledgement_is_told() -> None:
    case = Case()
    case.tell(Acknowledged(BOB), after=60)
    case.tell(Acknowledged(ALICE), after=60)
    assert case.replies(AckTold) == [AckTold(BOB, timedelta(minutes=1))]


def test_a_mute_that_is_lifted_is_told_once() -> None:
    case = Case()
    case.tell(IncidentUnmuted(BOB))
    case.tell(IncidentMuted(BOB, BEGAN + timedelta(hours=1)))
    case.tell(IncidentUnmuted(ALICE))
    case.tell(IncidentUnmuted())
    assert [reply.by for reply in case.replies(MuteTold)] == [BOB, ALICE]

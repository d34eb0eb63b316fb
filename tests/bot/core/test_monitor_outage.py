"""What an incident is opened with, and which signs of many are kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.core.events import OperationId, ProbeAnswer, UserId, Verb
from bot.core.incident_events import DownAgain, Recovered, ServiceStopped, StartFollowed, Worsened
from bot.core.incident_state import LINGER, IncidentId, Severity, Sign, SignKind
from bot.core.monitor_degraded import ail
from bot.core.monitor_events import (
    IncidentClosed,
    IncidentFound,
    OpenIncident,
    OperationUnderWay,
    TellIncident,
)
from bot.core.monitor_outage import doubt_of
from bot.core.monitor_turn import WatchTurn
from config.engine_file import load_engine
from tests.support.watches import (
    BUSY,
    FAILED,
    GOOD,
    MEMBER,
    REFUSED,
    RUNNING,
    STOPPED,
    Room,
    make_plan,
    run_id,
)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (GOOD, None),
        (ProbeAnswer(health=200), None),
        (None, "nothing answered"),
        (REFUSED, "/health: connection refused"),
        (BUSY, "/health answers 503"),
        (replace(GOOD, listener=False), "another process answers on the port"),
        (replace(GOOD, models=("x", "y")), "it serves x, y, where kimi-k2.5 was expected"),
        (replace(GOOD, models=()), "it serves no model, where kimi-k2.5 was expected"),
    ],
)
def test_why_an_answer_is_doubted(answer: ProbeAnswer | None, told: str | None) -> None:
    room = Room()
    turn = WatchTurn(room.plan, load_engine("sglang"), room.watch.state)
    assert doubt_of(turn, answer) == told


def test_an_incident_is_opened_with_all_that_is_known() -> None:
    room = Room(make_plan(escalate_after=timedelta(minutes=10)))
    room.serve()
    room.probe = BUSY
    room.look(2)
    room.unit = replace(FAILED, restart_policy="on-failure")
    room.look()
    (opened,) = room.ordered(OpenIncident)
    plan = opened.plan
    assert (plan.service, plan.host, plan.group) == (room.plan.service, room.plan.host, "S0456")
    assert plan.invocations == {MEMBER: run_id(1)}
    assert plan.restarts_itself is True
    assert plan.host_answers
    assert plan.escalate_after == timedelta(minutes=10)
    assert [sign.sentence for sign in plan.signs] == ["/health answers 503", "process died by SIGSEGV"]
    assert plan.began == plan.signs[0].at < plan.opened


def test_of_many_signs_the_first_and_the_newest_are_kept() -> None:
    room = Room(make_plan(failures=100))
    room.serve()
    for status in range(500, 530):
        room.probe = ProbeAnswer(health=status)
        room.look()
    told = [sign.sentence for sign in room.watch.state.signs]
    assert told[0] == "/health answers 500"
    assert told[-1] == "/health answers 529"
    assert len(told) == 8


def test_checks_that_failed_each_in_another_way_are_not_told_as_the_same_one() -> None:
    room = Room()
    room.serve()
    for probe in (REFUSED, BUSY, BUSY):
        room.probe = probe
        room.look()
    (opened,) = room.ordered(OpenIncident)
    first, second = opened.plan.signs
    assert first.sentence == "/health: connection refused, the first of 3 failures"
    assert second.sentence == "/health answers 503"


class TestClosedByHand:
    def degraded(self) -> Room:
        room = Room()
        room.serve()
        self.slow(room)
        return room

    def slow(self, room: Room) -> None:
        sign = Sign(SignKind.SLOW, room.now, "12 tokens/s (usual 90)")
        turn = WatchTurn(room.plan, load_engine("sglang"), room.watch.state)
        turn.open()
        ail(turn, sign, room.now)
        room.actions += turn.close()

    def close(self, room: Room, severity: Severity | None = None) -> None:
        incident = room.ordered(OpenIncident)[-1].plan.incident
        room.tell(IncidentClosed(incident, severity))

    def test_what_is_still_slow_is_not_told_in_a_new_thread(self) -> None:
        room = self.degraded()
        self.close(room)
        for _ in range(20):
            room.look(40)  # ten minutes
            self.slow(room)
        assert len(room.ordered(OpenIncident)) == 1
        room.look(70)  # it was well for a while
        self.slow(room)
        assert len(room.ordered(OpenIncident)) == 2

    def test_a_closing_that_is_heard_late_closes_nothing_that_came_after_it(self) -> None:
        room = Room()
        room.serve()
        room.probe = BUSY
        room.look(3)
        closed = IncidentClosed(room.ordered(OpenIncident)[-1].plan.incident, Severity.DOWN, room.now)
        room.probe = GOOD
        room.look(6)
        room.probe = BUSY
        room.look(3)
        assert len(room.told(DownAgain)) == 1
        room.tell(closed)
        assert room.watch.state.severity is Severity.DOWN
        room.probe = GOOD
        room.look(40)
        assert len(room.told(Recovered)) == 2

    def test_what_goes_down_then_is_told(self) -> None:
        room = self.degraded()
        self.close(room, Severity.DEGRADED)
        room.probe = BUSY
        room.look(3)
        assert [each.plan.severity for each in room.ordered(OpenIncident)] == [
            Severity.DEGRADED,
            Severity.DOWN,
        ]

    def test_what_went_down_in_the_same_moment_goes_on(self) -> None:
        room = self.degraded()
        room.probe = BUSY
        room.look(3)
        assert len(room.told(Worsened)) == 1
        self.close(room, Severity.DEGRADED)
        assert room.watch.state.severity is Severity.DOWN
        room.probe = GOOD
        room.look(3)
        assert len(room.told(Recovered)) == 1


FOUND = IncidentFound(IncidentId("f" * 32), Severity.DOWN, times=2)


class TestAnIncidentThatOutlivedTheWatch:
    """Redis came back empty: the watch begins anew, and the incident stands in Slack."""

    def test_still_down_it_goes_on_with_that_one_until_it_serves(self) -> None:
        room = Room()
        room.probe = BUSY
        room.look(5)
        room.tell(FOUND)
        room.look(20)
        assert room.ordered(OpenIncident) == []
        room.probe = GOOD
        room.look(20)
        assert [action.incident for action in room.ordered(TellIncident)] == [FOUND.incident]
        assert len(room.told(Recovered)) == 1

    def test_down_again_soon_it_is_the_same_one(self) -> None:
        room = Room()
        room.serve()
        room.tell(FOUND)
        assert len(room.told(Recovered)) == 1
        room.probe = BUSY
        room.look(3)
        assert len(room.told(DownAgain)) == 1
        assert room.ordered(OpenIncident) == []

    def test_amid_a_start_that_is_linked(self) -> None:
        room = Room()
        room.probe = BUSY
        room.look()
        room.tell(OperationUnderWay(OperationId("op1"), Verb.RESTART, UserId("U1")))
        room.tell(FOUND)
        assert [event.operation for event in room.told(StartFollowed)] == ["op1"]

    def test_stopped_meanwhile_it_is_told_so(self) -> None:
        room = Room()
        room.unit = STOPPED
        room.look(4)
        room.tell(FOUND)
        assert len(room.told(ServiceStopped)) == 1

    def test_where_another_was_opened_meanwhile_it_had_served(self) -> None:
        room = Room()
        room.serve()
        room.probe = BUSY
        room.look(3)
        (opened,) = room.ordered(OpenIncident)
        room.tell(FOUND)
        assert [each.incident for each in room.ordered(TellIncident)] == [FOUND.incident]
        assert room.watch.state.incident == opened.plan.incident
        room.tell(IncidentFound(opened.plan.incident, Severity.DOWN))
        assert len(room.ordered(TellIncident)) == 1

    def test_degraded_it_calms_or_gets_worse(self) -> None:
        room = Room()
        room.serve()
        room.tell(replace(FOUND, severity=Severity.DEGRADED))
        assert room.told(Recovered) == []
        room.probe = BUSY
        room.look(3)
        assert len(room.told(Worsened)) == 1
        calm = Room()
        calm.serve()
        calm.tell(replace(FOUND, severity=Severity.DEGRADED))
        calm.look(70)
        assert len(calm.told(Recovered)) == 1


def test_what_nobody_watched_for_a_while_is_watched_as_new() -> None:
    """It left the configuration while it was down, and came back: nothing is told before it served."""
    room = Room()
    room.serve()
    room.unit = FAILED
    room.look()
    [opened] = room.ordered(OpenIncident)
    room.tell(IncidentClosed(opened.plan.incident, Severity.DOWN, room.now, unwatched=True))
    room.look(10)
    assert room.ordered(OpenIncident) == [opened]
    room.unit, room.run = RUNNING, 2
    room.serve()
    room.unit = FAILED
    room.look()
    assert len(room.ordered(OpenIncident)) == 2
    assert room.told(DownAgain) == []


def test_one_that_took_nothing_any_more_when_it_was_told_is_forgotten() -> None:
    """Nobody watched for hours, and the first round came before the word of that."""
    room = Room()
    room.serve()
    room.tell(replace(FOUND, severity=Severity.DEGRADED))
    closed = IncidentClosed(FOUND.incident, Severity.DEGRADED, room.now, unwatched=True)
    room.now += LINGER
    room.unit = FAILED
    room.look()
    assert len(room.told(Worsened)) == 1
    room.tell(closed)
    assert (room.watch.state.severity, room.watch.state.incident) == (None, None)

"""What an incident is opened with, and which signs of many are kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.core.events import ProbeAnswer
from bot.core.monitor_events import OpenIncident
from bot.core.monitor_outage import STEADY, STOPPED_WAIT, doubt_of
from bot.core.monitor_turn import WatchTurn
from config.engine_file import load_engine
from tests.support.watches import BUSY, FAILED, GOOD, MEMBER, REFUSED, Room, make_plan, run_id


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


def test_the_waits() -> None:
    assert timedelta(seconds=30) == STOPPED_WAIT
    assert timedelta(minutes=2) == STEADY

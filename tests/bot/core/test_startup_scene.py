"""Where a startup stands: its first phase, its times, its pace."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bot.core.actions import Mark, Pace
from bot.core.baseline import Usual
from bot.core.events import Member, PhaseId, Verb
from bot.core.startup_scene import host_of, unit_of
from tests.support.startup_runs import BEGAN, MEMBER, RUNNING, Run, make_plan


def test_members_name_host_and_unit() -> None:
    assert (host_of(MEMBER), unit_of(MEMBER)) == ("llm-two", "sglang-kimi.service")
    assert host_of(Member("alone")) == "alone"


@pytest.mark.parametrize(
    ("verb", "phase"),
    [
        (Verb.RESTART, PhaseId.STOPPING),
        (Verb.STOP, PhaseId.STOPPING),
        (Verb.START, PhaseId.PROCESS),
        (Verb.WATCH, PhaseId.PROCESS),
    ],
)
def test_before_anything_is_known(verb: Verb, phase: PhaseId) -> None:
    run = Run(make_plan(verb=verb))
    run.begin()
    run.pass_time(4)
    view = run.startup.view(run.now)
    assert (view.phase, view.in_phase, view.elapsed) == (phase, timedelta(seconds=4), timedelta(seconds=4))
    assert [each.phase for each in view.phases if each.mark is Mark.NOW] == [phase]
    assert view.hosts == ("llm-two",)


def test_slow_is_beyond_the_usual_while_it_still_moves() -> None:
    run = Run(make_plan(usual=Usual({"weights": (10.0,), "whole": (60.0,)})))
    run.start_process()
    run.say("Load weight begin. avail mem=78.50 GB", rank="TP0")
    run.wait(30)
    view = run.startup.view(run.now)
    assert (view.pace, view.usual_phase) == (Pace.SLOW, timedelta(seconds=10))


def test_the_time_in_a_phase_is_the_hosts_when_a_watch_catches_up() -> None:
    run = Run(make_plan(verb=Verb.WATCH, before={}))
    began = BEGAN - timedelta(minutes=10)
    run.begin()
    run.observe(RUNNING, active_since=began)
    for rank in ("TP0", "TP1"):
        run.say("Load weight begin. avail mem=78.50 GB", rank=rank, at=began + timedelta(minutes=1))
    view = run.startup.view(run.now)
    assert view.phase is PhaseId.WEIGHTS
    assert view.in_phase == timedelta(minutes=9)
    assert view.elapsed == timedelta(minutes=10)

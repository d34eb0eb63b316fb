"""Whether an order of a process that died arrived: what counts as a trace of it, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.core.arrival import shows_arrival, tells_arrival
from bot.core.events import LogLine, Origin, UnitState, Verb, VerbSent
from tests.support.startup_runs import MEMBER, NEW, OLD, OLD_RUNNING, OTHER, RUNNING, Run, make_plan

UNIT = "sglang-kimi.service"
DOWN = replace(OLD_RUNNING, active="failed", sub="failed", main_pid=0)


def shows(run: Run, unit: UnitState) -> bool:
    return shows_arrival(run.plan, run.startup.state, MEMBER, unit)


def begun(verb: Verb = Verb.RESTART) -> Run:
    run = Run(make_plan(verb=verb))
    run.begin()
    return run


@pytest.mark.parametrize(
    ("unit", "arrived"),
    [
        (OLD_RUNNING, False),
        (RUNNING, True),
        (replace(OLD_RUNNING, job=7), True),
        (replace(OLD_RUNNING, active="deactivating", sub="stop-sigterm"), True),
        (DOWN, False),  # it died by itself, and nobody starts it again
        (replace(DOWN, invocation=None), False),
        (replace(OLD_RUNNING, active="activating", sub="auto-restart"), False),
    ],
)
def test_what_a_unit_shows_of_a_restart(unit: UnitState, *, arrived: bool) -> None:
    assert shows(begun(), unit) is arrived


def test_a_unit_that_never_ran_shows_it_by_its_first_start() -> None:
    run = Run(make_plan(before={MEMBER: None}))
    run.begin()
    assert not shows(run, replace(DOWN, invocation=None))
    assert shows(run, RUNNING)


def test_a_stop_arrived_where_the_unit_is_down_whoever_stopped_it() -> None:
    assert shows(begun(Verb.STOP), DOWN)
    assert not shows(begun(Verb.STOP), OLD_RUNNING)


def test_what_was_read_before_the_process_died_counts() -> None:
    run = begun()
    run.systemd(f"Stopping {UNIT} - Kimi...", invocation=OLD)
    assert shows(run, DOWN)
    assert not shows(run, OLD_RUNNING)  # of another member, then
    run.systemd(f"Started {UNIT} - Kimi.", invocation=NEW)
    assert shows(run, DOWN)


def test_another_members_start_is_no_trace_of_ones_own() -> None:
    run = Run(make_plan(members=(MEMBER, OTHER), before={MEMBER: OLD, OTHER: OLD}))
    run.begin()
    run.tell(VerbSent(OTHER))
    run.say("hello", member=OTHER)
    assert shows_arrival(run.plan, run.startup.state, OTHER, RUNNING)
    assert not shows(run, OLD_RUNNING)


@pytest.mark.parametrize(
    ("text", "arrived"),
    [
        (f"Stopping {UNIT} - Kimi...", True),
        (f"Stopped {UNIT} - Kimi.", True),
        (f"Started {UNIT} - Kimi.", True),
        (f"{UNIT}: Start request repeated too quickly.", True),
        (f"Failed to start {UNIT} - Kimi.", True),
        (f"{UNIT}: Main process exited, code=killed, status=9/KILL", False),
        (f"{UNIT}: Failed with result 'signal'.", False),
        (f"{UNIT}: Consumed 3h CPU time.", False),
    ],
)
def test_what_systemd_says_of_an_order(text: str, *, arrived: bool) -> None:
    line = LogLine(text, text, origin=Origin.MANAGER)
    assert tells_arrival([LogLine("Stopping", "Stopping"), line]) is arrived


def test_what_the_service_itself_says_is_nothing() -> None:
    assert not tells_arrival([LogLine(f"Stopping {UNIT}...", f"Stopping {UNIT}...")])

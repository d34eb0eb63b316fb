"""What a unit's state and systemd's lines mean: each end of a run once, old runs never."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.core.events import Origin
from bot.core.incident_state import SignKind
from bot.core.monitor_events import OpenIncident, WatchStart
from bot.core.monitor_state import WatchStanding
from tests.support.watches import FAILED, LOOPING, MEMBER, REFUSED, RUNNING, STOPPED, Room, run_id

ENDINGS = (
    "kimi.service: Main process exited, code=killed, status=11/SEGV",
    "kimi.service: Failed with result 'core-dump'.",
    "kimi.service: Scheduled restart job, restart counter is at 1.",
)


def _serving() -> Room:
    room = Room()
    room.serve()
    return room


@pytest.mark.parametrize("text", ENDINGS)
def test_any_of_the_lines_about_an_end_tells_it(text: str) -> None:
    room = _serving()
    room.systemd(text)
    assert len(room.ordered(OpenIncident)) == 1


@pytest.mark.parametrize(
    "unit", [FAILED, LOOPING, replace(LOOPING, active="inactive", sub="dead-before-auto-restart")]
)
def test_so_does_the_state_of_the_unit(unit: object) -> None:
    room = _serving()
    room.unit, room.probe = unit, REFUSED  # type: ignore[assignment]
    room.look()
    (opened,) = room.ordered(OpenIncident)
    assert "SIGSEGV" in opened.plan.signs[0].sentence


def test_together_they_are_one_end() -> None:
    room = _serving()
    for text in ENDINGS:
        room.systemd(text)
    room.unit, room.probe = LOOPING, REFUSED
    room.look(3)
    assert len(room.actions) == 1


def test_lines_of_runs_before_are_old() -> None:
    room = _serving()
    room.run = 2
    room.look()
    room.actions.clear()
    for text in ENDINGS:
        room.systemd(text, run=1)
    room.systemd("Started kimi.service - Kimi.", run=1)
    room.look(5)
    assert room.actions == []


def test_lines_that_are_read_late_start_nothing() -> None:
    room = _serving()
    began = room.now
    room.pass_time(3600)
    room.run, room.unit = 5, replace(RUNNING, active_since=room.now)
    room.look()
    room.actions.clear()
    room.now = began
    for run in (2, 3, 4):
        room.systemd("Started kimi.service - Kimi.", run=run)
    assert room.actions == []
    assert room.watch.state.members[MEMBER].invocation == run_id(5)


def test_a_kill_by_systemd_for_want_of_memory_says_so() -> None:
    room = _serving()
    room.unit, room.probe = replace(FAILED, result="oom-kill"), REFUSED
    room.look()
    (opened,) = room.ordered(OpenIncident)
    assert "memory ran out" in opened.plan.signs[0].sentence


def test_started_too_often_is_told_as_that() -> None:
    room = _serving()
    room.unit, room.probe = replace(FAILED, result="start-limit-hit"), REFUSED
    room.look()
    (opened,) = room.ordered(OpenIncident)
    assert opened.plan.signs[0].kind is SignKind.LOOP


def test_systemd_clearing_up_behind_a_crash_is_no_stop() -> None:
    room = _serving()
    room.unit = replace(FAILED, active="deactivating", sub="final-sigterm")
    room.probe = REFUSED
    room.look()
    room.unit = FAILED
    room.look()
    assert len(room.ordered(OpenIncident)) == 1


def test_a_boot_that_a_line_tells_is_noted() -> None:
    room = _serving()
    room.boot, room.run = "two", 2
    room.systemd("Started kimi.service - Kimi.")
    (start,) = room.ordered(WatchStart)
    assert start.how == "boot"
    room.probe = REFUSED
    room.look(10)
    assert len(room.actions) == 1
    assert room.watch.state.members[MEMBER].boot == "two"


def test_a_kernel_line_names_no_run_and_counts() -> None:
    room = _serving()
    room.say("NVRM: Xid (PCI:0000:4e:00): 63, pid=7, Row Remapper", origin=Origin.KERNEL)
    assert len(room.ordered(OpenIncident)) == 1


def test_a_run_that_was_said_to_have_died_and_serves_on_can_die_yet() -> None:
    room = _serving()
    for _ in range(2):
        room.systemd(ENDINGS[0])
        room.look(150)
    assert len(room.ordered(OpenIncident)) == 2
    room.unit, room.probe = FAILED, REFUSED
    room.look()
    assert len(room.ordered(OpenIncident)) == 3


def test_what_was_stopped_before_the_boot_is_stopped_after_it() -> None:
    room = _serving()
    room.unit, room.probe = STOPPED, REFUSED
    room.look(4)
    assert room.stands() is WatchStanding.STOPPED
    room.boot = "two"
    room.look(20)
    assert room.stands() is WatchStanding.STOPPED
    assert room.ordered(OpenIncident) == []

"""The practice `systemctl` in the forms the bot uses."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from bot.clock import Clock
from bot.core.setup import SETUP_PROPERTIES, parse_setup
from bot.core.unit import SHOW_PROPERTIES, parse_show
from bot.practice.journal import Journal
from bot.practice.process import Exit, Process, UnitFile
from bot.practice.systemctl import Answer, answer_systemctl, properties, render_timestamp
from bot.practice.units import Unit
from tests.support.waiting import until

NAME = "a.service"


class Patient:
    async def run(self, process: Process) -> Exit:
        await process.terminated.wait()
        return Exit(1, 0)


@pytest.fixture
def unit() -> Unit:
    clock = Clock(1000)
    file = UnitFile(NAME, "A", restart="always", restart_after=timedelta(seconds=10))
    return Unit(file, clock=clock, journal=Journal(clock), program=Patient(), pids=itertools.count(100))


def ask(words: str, unit: Unit) -> Answer:
    return answer_systemctl(words.split(), {NAME: unit}, user=False)


def test_an_unknown_unit_is_shown_as_not_found(unit: Unit) -> None:
    answer = ask("show b.service -p LoadState,ActiveState,CPUUsageNSec,Job", unit)
    assert answer.status == 0
    assert answer.output.splitlines() == [
        "CPUUsageNSec=[not set]",
        "LoadState=not-found",
        "ActiveState=inactive",
        "Job=",
    ]


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        ("restart --no-block b.service", 5, "Failed to restart b.service: Unit b.service not found.\n"),
        ("start --no-block b.service", 5, "Failed to start b.service: Unit b.service not found.\n"),
        ("stop --no-block b.service", 5, "Failed to stop b.service: Unit b.service not loaded.\n"),
        ("frobnicate a.service", 1, "Unknown command verb frobnicate a.service.\n"),
    ],
)
def test_refusals(unit: Unit, words: str, status: int, error: str) -> None:
    assert ask(words, unit) == Answer(status, error=error)
    assert unit.job is None


def test_a_verb_that_would_block_is_not_played(unit: Unit) -> None:
    assert ask("restart a.service", unit).status == 1
    assert unit.job is None


def test_a_verb_is_enqueued_and_the_job_shows(unit: Unit) -> None:
    assert ask("restart --no-block a.service", unit) == Answer()
    assert ask("show a.service -p Job", unit).output == f"Job={unit.job}\n"


async def test_what_is_shown_of_a_running_unit_is_what_the_bot_reads(unit: Unit) -> None:
    unit.open()
    unit.submit("start")
    await until(lambda: unit.process is not None)
    shown = parse_show(ask(f"show a.service -p {','.join(SHOW_PROPERTIES)}", unit).output)
    assert (shown.load, shown.active, shown.sub, shown.result) == ("loaded", "active", "running", "success")
    assert shown.invocation == unit.invocation
    assert (shown.main_pid, shown.restarts, shown.restart_policy) == (100, 0, "always")
    assert shown.tasks == 1
    assert shown.cpu is not None
    assert shown.memory is not None
    assert shown.read is None
    assert shown.active_since == unit.stamps["ActiveEnterTimestamp"].replace(microsecond=0)
    assert ask("is-active a.service", unit) == Answer(0, "active\n")
    unit.submit("stop")
    await until(lambda: unit.process is None and unit.job is None)
    gone = parse_show(ask("show a.service -p ActiveState,MainPID,TasksCurrent,ExecMainCode", unit).output)
    assert (gone.active, gone.main_pid, gone.tasks, gone.exec_code) == ("inactive", 0, None, 1)
    assert ask("is-active a.service", unit) == Answer(3, "inactive\n")
    await unit.close()


def test_is_active_of_an_unknown_unit(unit: Unit) -> None:
    assert ask("is-active b.service", unit) == Answer(4, "inactive\n")


@pytest.mark.parametrize("form", ["-p Restart,Result", "--property=Restart,Result", "-pRestart,Result"])
def test_the_forms_of_asking_for_properties(unit: Unit, form: str) -> None:
    assert ask(f"show a.service {form}", unit).output == "Restart=always\nResult=success\n"


def test_values_alone_and_several_units(unit: Unit) -> None:
    assert ask("show -p Restart --value a.service", unit).output == "always\n"
    assert ask("show -p Restart a.service b.service", unit).output == "Restart=always\n\nRestart=no\n"


def test_spans_and_times() -> None:
    clock = Clock()
    file = UnitFile(NAME, "A", stop_timeout=timedelta(minutes=1, seconds=30), io_accounting=True)
    unit = Unit(file, clock=clock, journal=Journal(clock), program=Patient(), pids=itertools.count())
    shown = properties(unit, user=True)
    assert (shown["RestartUSec"], shown["TimeoutStopUSec"]) == ("100ms", "1min 30s")
    assert shown["FragmentPath"] == "/etc/systemd/user/a.service"
    assert render_timestamp(datetime(2026, 5, 29, 23, 49, 47, tzinfo=UTC)) == "Fri 2026-05-29 23:49:47 UTC"


def test_a_unit_file_that_is_edited_counts_once_it_is_read_anew(unit: Unit) -> None:
    before = unit.file.command_line
    unit.edit(command_line=f"{before} --tp 4", environment=("A=1",))
    shown = ask(f"show {NAME} -p {','.join(SETUP_PROPERTIES)}", unit).output
    setup = parse_setup(shown)
    assert setup.stale
    assert setup.command == tuple(before.split())
    assert ask("daemon-reload", unit) == Answer()
    setup = parse_setup(ask(f"show {NAME} -p {','.join(SETUP_PROPERTIES)}", unit).output)
    assert not setup.stale
    assert setup.command == (*before.split(), "--tp", "4")
    assert setup.environment == {"A": "1"}
    assert setup.files == ("/etc/systemd/system/a.service",)

"""The life of a practice unit, as systemd leads it."""

from __future__ import annotations

import asyncio
import itertools
import signal
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from bot.clock import Clock
from bot.practice.journal import Journal
from bot.practice.process import EXITED, KILLED, Died, Exit, Process, UnitFile
from bot.practice.units import Unit, render_span
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

SPEED = 1000
NAME = "a.service"
KILL = Exit(KILLED, signal.SIGKILL)


class Play:
    """A program whose runs do what the test says; the last behaviour serves all later runs."""

    def __init__(self, *runs: Callable[[Process], Awaitable[Exit]]) -> None:
        self.runs = list(runs)
        self.processes: list[Process] = []

    async def run(self, process: Process) -> Exit:
        self.processes.append(process)
        return await self.runs[min(len(self.processes), len(self.runs)) - 1](process)


async def until_sigterm(process: Process) -> Exit:
    await process.terminated.wait()
    return KILL


async def deaf(process: Process) -> Exit:
    del process
    await asyncio.Event().wait()
    raise AssertionError


async def fails(process: Process) -> Exit:
    process.write(b"bad\n", pid=process.pid, comm="python")
    raise Died(Exit(EXITED, 1))


async def raises(process: Process) -> Exit:
    del process
    raise ZeroDivisionError("a script's own fault")


@asynccontextmanager
async def new_unit(program: Play, **file: object) -> AsyncIterator[Unit]:
    clock = Clock(SPEED)
    unit = Unit(
        UnitFile(NAME, "A", **file),  # type: ignore[arg-type]
        clock=clock,
        journal=Journal(clock),
        program=program,
        pids=itertools.count(100),
    )
    unit.open()
    try:
        yield unit
    finally:
        await unit.close()


def lines(unit: Unit) -> list[str]:
    return [entry.text("MESSAGE") for entry in unit.journal.entries]


async def test_a_start_is_active_from_the_first_second() -> None:
    async with new_unit(Play(until_sigterm)) as unit:
        assert (unit.active, unit.sub) == ("inactive", "dead")
        assert unit.submit("start") == unit.job
        await until(lambda: unit.active == "active")
        assert unit.job is None
        assert unit.sub == "running"
        assert lines(unit) == ["Started a.service - A."]
        entry = unit.journal.entries[0]
        assert entry.text("INVOCATION_ID") == unit.invocation
        assert entry.text("MESSAGE_ID") == "39f53479d3a045ac8e11786248231fbf"
        assert (entry.text("JOB_TYPE"), entry.text("JOB_RESULT")) == ("start", "done")


async def test_a_restart_stops_first_and_gets_a_new_invocation() -> None:
    async with new_unit(Play(until_sigterm)) as unit:
        unit.submit("start")
        await until(lambda: unit.active == "active")
        before = unit.invocation
        unit.submit("restart")
        await until(lambda: unit.active == "active" and unit.invocation != before)
        assert [line.split(" -")[0] for line in lines(unit)[1:]] == [
            "Stopping a.service",
            "a.service: Main process exited, code=killed, status=9/KILL",
            "a.service: Failed with result 'signal'.",
            "Stopped a.service",
            lines(unit)[5],
            "Started a.service",
        ]
        assert lines(unit)[5].startswith("a.service: Consumed ")
        exited = unit.journal.entries[2]
        assert (exited.text("EXIT_CODE"), exited.text("EXIT_STATUS")) == ("killed", "9")
        assert unit.journal.entries[3].text("UNIT_RESULT") == "signal"
        assert unit.result == "success"


async def test_a_pending_job_shows_until_the_stop_is_done() -> None:
    release = asyncio.Event()

    async def drain(process: Process) -> Exit:
        await process.terminated.wait()
        await release.wait()
        return Exit(EXITED, 0)

    async with new_unit(Play(drain, until_sigterm), stop_timeout=timedelta(hours=9)) as unit:
        unit.submit("start")
        await until(lambda: unit.active == "active")
        job = unit.submit("restart")
        await until(lambda: unit.active == "deactivating")
        assert (unit.sub, unit.job) == ("stop-sigterm", job)
        release.set()
        await until(lambda: unit.active == "active" and unit.job is None)
        assert "a.service: Deactivated successfully." in lines(unit)


async def test_a_stop_replaces_a_restart_that_is_still_stopping() -> None:
    release = asyncio.Event()

    async def drain(process: Process) -> Exit:
        await process.terminated.wait()
        await release.wait()
        return Exit(EXITED, 0)

    async with new_unit(Play(drain), stop_timeout=timedelta(hours=9)) as unit:
        unit.submit("start")
        await until(lambda: unit.active == "active")
        unit.submit("restart")
        await until(lambda: unit.active == "deactivating")
        unit.submit("stop")
        release.set()
        await until(lambda: unit.job is None)
        assert (unit.active, unit.sub) == ("inactive", "dead")


async def test_who_does_not_stop_in_time_is_killed() -> None:
    async with new_unit(Play(deaf), stop_timeout=timedelta(seconds=30)) as unit:
        unit.submit("start")
        await until(lambda: unit.active == "active")
        unit.submit("stop")
        await until(lambda: unit.job is None)
        assert (unit.active, unit.result) == ("failed", "timeout")
        assert "a.service: State 'stop-sigterm' timed out. Killing." in lines(unit)
        assert "a.service: Killing process 100 (python) with signal SIGKILL." in lines(unit)


async def test_a_failure_without_restart_stays_failed() -> None:
    async with new_unit(Play(fails)) as unit:
        unit.submit("start")
        await until(lambda: unit.active == "failed")
        assert (unit.result, unit.restarts) == ("exit-code", 0)
        assert unit.last_exit == Exit(EXITED, 1)
        assert unit.last_pid == 100
        assert "bad" in lines(unit)


async def test_a_crash_loop_waits_in_auto_restart_and_counts() -> None:
    async with new_unit(Play(fails), restart="always", restart_after=timedelta(seconds=60)) as unit:
        unit.submit("start")
        await until(lambda: unit.sub == "auto-restart")
        assert unit.active == "activating"
        await until(lambda: unit.restarts == 2)
        scheduled = [entry for entry in unit.journal.entries if entry.text("N_RESTARTS")]
        assert [entry.text("N_RESTARTS") for entry in scheduled] == ["1", "2"]
        assert scheduled[0].text("MESSAGE") == "a.service: Scheduled restart job, restart counter is at 1."


async def test_a_stop_ends_a_crash_loop() -> None:
    async with new_unit(Play(fails), restart="always", restart_after=timedelta(hours=9)) as unit:
        unit.submit("start")
        await until(lambda: unit.sub == "auto-restart")
        unit.submit("stop")
        await until(lambda: unit.job is None)
        assert (unit.active, unit.sub) == ("inactive", "dead")


async def test_a_manual_restart_starts_at_once_and_clears_the_count() -> None:
    program = Play(fails, fails, until_sigterm)
    async with new_unit(program, restart="on-failure", restart_after=timedelta(seconds=30)) as unit:
        unit.submit("start")
        await until(lambda: unit.restarts == 1)
        await until(lambda: unit.sub in {"auto-restart", "running"})
        unit.submit("restart")
        await until(lambda: unit.job is None)
        assert (unit.active, unit.restarts) == ("active", 0)


async def test_a_start_leaves_a_waiting_unit_to_its_timer() -> None:
    async with new_unit(Play(fails), restart="always", restart_after=timedelta(hours=9)) as unit:
        unit.submit("start")
        await until(lambda: unit.sub == "auto-restart")
        unit.submit("start")
        await until(lambda: unit.job is None)
        assert unit.sub == "auto-restart"


async def test_too_many_starts_hit_the_limit() -> None:
    quick = timedelta(milliseconds=1)
    async with new_unit(
        Play(fails), restart="always", restart_after=quick, start_limit_interval=timedelta(days=9)
    ) as unit:
        unit.submit("start")
        await until(lambda: unit.result == "start-limit-hit")
        assert (unit.active, unit.restarts) == ("failed", 5)
        assert "a.service: Start request repeated too quickly." in lines(unit)


async def test_a_kill_from_outside_is_no_stop() -> None:
    async with new_unit(Play(until_sigterm)) as unit:
        unit.submit("start")
        await until(lambda: unit.process is not None)
        await asyncio.sleep(0)
        unit.kill(signal.SIGSEGV)
        await until(lambda: unit.active == "failed")
        assert unit.last_exit == Exit(KILLED, signal.SIGSEGV)


async def test_a_script_with_a_fault_ends_like_any_python_process() -> None:
    async with new_unit(Play(raises)) as unit:
        unit.submit("start")
        await until(lambda: unit.active == "failed")
        assert unit.last_exit == Exit(EXITED, 1)
        assert "ZeroDivisionError: a script's own fault" in lines(unit)


async def test_a_user_unit_is_named_by_other_fields() -> None:
    async with new_unit(Play(fails), user=True) as unit:
        unit.submit("start")
        await until(lambda: unit.active == "failed")
        started, said = unit.journal.entries[:2]
        assert started.text("USER_UNIT") == NAME
        assert said.text("_SYSTEMD_USER_UNIT") == NAME
        assert said.text("_SYSTEMD_UNIT") == "user@1000.service"
        assert said.text("_SYSTEMD_INVOCATION_ID") == unit.invocation


async def test_a_unit_that_failed_before_looks_it() -> None:
    async with new_unit(Play(until_sigterm)) as unit:
        unit.fail_before()
        assert (unit.active, unit.result) == ("failed", "signal")
        unit.submit("restart")
        await until(lambda: unit.active == "active")


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(seconds=9.7), "9.700s"),
        (timedelta(minutes=4, seconds=2), "4min 2.000s"),
        (timedelta(hours=3, seconds=1), "3h 1.000s"),
    ],
)
def test_spans_read_as_systemd_writes_them(span: timedelta, text: str) -> None:
    assert render_span(span) == text


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_boot_leaves_nothing_of_what_was(enabled: bool) -> None:
    async with new_unit(Play(until_sigterm)) as unit:
        unit.submit("start")
        await until(lambda: unit.active == "active")
        before = unit.invocation
        await unit.shut_down()
        assert (unit.process, unit.job) == (None, None)
        assert any(line.startswith("Stopped") for line in lines(unit))
        unit.boot(enabled=enabled)
        assert (unit.active == "active") == enabled
        assert unit.invocation != before
        assert (unit.invocation is None) == (not enabled)

"""The program of a practice unit, from start to end."""

from __future__ import annotations

import asyncio
import itertools
import signal
from datetime import timedelta

import pytest

from bot.clock import Clock
from bot.practice.engine import Engine, ServerStatus
from bot.practice.journal import Journal, Stream
from bot.practice.process import EXITED, KILLED, Died, Exit, Meter, Process
from bot.practice.program import ScenarioProgram
from bot.practice.scenarios import Scenario, Stage
from tests.support.waiting import until

CLOCK = Clock(1000)


def new_process() -> Process:
    stream = Stream(Journal(CLOCK), {})
    return Process(pid=7, invocation="1", stream=stream, meter=Meter(CLOCK), began=CLOCK.now())


def new_program(scenario: Scenario) -> tuple[ScenarioProgram, Engine]:
    engine = Engine(CLOCK, "m")
    engine.reserve()
    stray = Engine(CLOCK, "m", port=engine.port)
    pids = itertools.count(10)
    return ScenarioProgram(scenario, engine=engine, stray=stray, clock=CLOCK, pids=pids, cgroup="/a"), engine


async def serving(stage: Stage) -> None:
    assert await stage.open_port()
    await stage.terminated()
    stage.exit(4)


async def dying(stage: Stage) -> None:
    stage.die(signal.SIGSEGV)


async def hanging(stage: Stage) -> None:
    await stage.forever()


async def ending(stage: Stage) -> None:
    del stage


async def test_each_start_plays_the_next_script_and_the_last_serves_on() -> None:
    program, engine = new_program(Scenario("s", "S", (dying, ending)))
    with pytest.raises(Died) as death:
        await program.run(new_process())
    assert death.value.exit == Exit(KILLED, signal.SIGSEGV)
    assert await program.run(new_process()) == Exit(EXITED, 0)
    assert await program.run(new_process()) == Exit(EXITED, 0)
    engine.release()


async def test_sigterm_ends_a_start_that_does_not_serve_yet() -> None:
    program, engine = new_program(Scenario("s", "S", (hanging,)))
    process = new_process()
    running = asyncio.create_task(program.run(process))
    process.terminated.set()
    assert await running == Exit(KILLED, signal.SIGTERM)
    engine.release()


async def test_a_serving_one_decides_about_its_end_and_leaves_the_port_closed() -> None:
    program, engine = new_program(Scenario("s", "S", (serving,)))
    process = new_process()
    running = asyncio.create_task(program.run(process))
    await until(lambda: engine.listening)
    process.terminated.set()
    with pytest.raises(Died) as death:
        await running
    assert death.value.exit == Exit(EXITED, 4)
    assert engine.status is ServerStatus.STOPPING
    assert not engine.listening
    engine.release()


async def test_a_killed_run_leaves_the_port_closed() -> None:
    program, engine = new_program(Scenario("s", "S", (serving,)))
    running = asyncio.create_task(program.run(new_process()))
    await until(lambda: engine.listening)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert not engine.listening
    engine.release()


async def test_a_resumed_run_serves_at_once_and_uses_up_no_script() -> None:
    program, engine = new_program(Scenario("s", "S", (ending,)))
    program.resume_from(CLOCK.now() - timedelta(hours=2))
    process = new_process()
    running = asyncio.create_task(program.run(process))
    await asyncio.wait_for(program.settled.wait(), 60)
    assert engine.status is ServerStatus.UP
    assert process.meter.cpu_nanoseconds > 3600e9
    process.terminated.set()
    with pytest.raises(Died) as death:
        await running
    assert death.value.exit == Exit(KILLED, signal.SIGKILL)
    assert await program.run(new_process()) == Exit(EXITED, 0)
    engine.release()

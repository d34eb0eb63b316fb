"""What a scenario may do: say, wait, move a bar, branch, die."""

from __future__ import annotations

import asyncio
import itertools
import signal

import pytest

from bot.practice.engine import Engine
from bot.practice.journal import Journal, Stream
from bot.practice.process import EXITED, KILLED, Died, Exit, Meter, Process
from bot.practice.scenarios import SCENARIOS
from bot.practice.scenarios.stage import MAIN, Scenario, Stage
from tests.support.theatre import LoopClock

pytestmark = pytest.mark.looptime


class Scene:
    """A stage, and what was heard from it."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.journal = Journal(self.clock)
        process = Process(
            pid=7,
            invocation="1",
            stream=Stream(self.journal, {}),
            meter=Meter(self.clock),
            began=self.clock.now(),
        )
        self.engine = Engine(self.clock, "m")
        self.stray = Engine(self.clock, "m")
        self.stage = Stage(
            process,
            engine=self.engine,
            stray=self.stray,
            clock=self.clock,
            ranks=4,
            pids=itertools.count(10),
            cgroup="/a",
        )
        self._began = self.clock.now()

    @property
    def passed(self) -> float:
        return (self.clock.now() - self._began).total_seconds()

    def heard(self) -> list[tuple[str, str]]:
        return [(entry.text("_PID"), entry.text("MESSAGE").split("] ")[-1]) for entry in self.journal.entries]


async def test_each_rank_speaks_from_its_own_process() -> None:
    scene = Scene()
    scene.stage.say(MAIN, "a")
    scene.stage.say_all("b")
    scene.stage.raw(2, "c\n")
    assert scene.heard() == [("7", "a"), ("10", "b"), ("11", "b"), ("12", "b"), ("13", "b"), ("12", "c")]
    assert scene.journal.entries[2].text("MESSAGE").endswith(" TP1] b")


async def test_waits_add_up_and_stretch() -> None:
    scene = Scene()
    await scene.stage.wait(2)
    await scene.stage.wait(3)
    assert scene.passed == pytest.approx(5)
    scene.stage.stretch = 2.0
    await scene.stage.wait(5)
    assert scene.passed == pytest.approx(15)


async def test_a_wait_makes_up_for_what_was_lost_before() -> None:
    scene = Scene()
    await scene.stage.wait(1)
    await asyncio.sleep(3)  # a machine that was busy
    await scene.stage.wait(5)
    assert scene.passed == pytest.approx(6)


async def test_a_machine_that_is_late_changes_no_time_that_is_told() -> None:
    """Else a phase of seven seconds were over in the moment it began, and too short to be told."""
    scene = Scene()
    scene.stage.say(MAIN, "begin")
    await asyncio.sleep(20)
    await scene.stage.wait(7)
    scene.stage.say(MAIN, "end")
    began, ended = (entry.realtime for entry in scene.journal.entries)
    assert ended - began == pytest.approx(7_000_000)


async def test_each_rank_in_its_own_time() -> None:
    scene = Scene()
    await scene.stage.each({0: 5, 1: 2, 3: 9}, lambda took: f"after {took:.0f}")
    assert scene.heard() == [("11", "after 2"), ("10", "after 5"), ("13", "after 9")]
    assert scene.passed == pytest.approx(9)


async def test_a_bar_moves_unevenly_and_ends_in_time() -> None:
    scene = Scene()
    await scene.stage.bar(6, 12, lambda done, elapsed: f"\r{done} {elapsed:.1f}")
    (record,) = scene.heard()
    assert record == ("10", "\r0 0.0\r1 1.4\r2 4.0\r3 6.0\r4 7.2\r5 10.2\r6 12.0")
    await scene.stage.wait(1)
    assert scene.passed == pytest.approx(13)


async def test_a_bar_may_stop_midway() -> None:
    scene = Scene()
    await scene.stage.bar(6, 12, lambda done, _: f"{done}\n", until=2)
    assert [text for _, text in scene.heard()] == ["0", "1", "2"]


async def test_branches_go_together_and_a_death_in_one_ends_all() -> None:
    scene = Scene()
    stage = scene.stage

    async def dies() -> None:
        await asyncio.sleep(3)
        stage.die(signal.SIGSEGV)

    with pytest.raises(Died) as death:
        await stage.together(stage.each({0: 1, 1: 99}, lambda _: "end"), dies())
    assert death.value.exit == Exit(KILLED, signal.SIGSEGV)
    assert scene.heard() == [("10", "end")]


async def test_an_exit() -> None:
    with pytest.raises(Died) as death:
        Scene().stage.exit(3)
    assert death.value.exit == Exit(EXITED, 3)


async def test_a_port_is_open_or_in_use() -> None:
    scene = Scene()
    scene.engine.reserve()
    scene.stray.port = scene.engine.port
    await scene.stage.occupy_port()
    await scene.stage.occupy_port()
    assert not await scene.stage.open_port()
    await scene.stray.close()
    assert await scene.stage.open_port()
    assert (scene.engine.pid, scene.engine.cgroup) == (7, "/a")
    await scene.engine.close()
    scene.engine.release()


def test_the_last_script_serves_all_later_starts() -> None:
    async def first(stage: Stage) -> None: ...

    async def second(stage: Stage) -> None: ...

    scenario = Scenario("s", "S", (first, second))
    assert [scenario.script(start) for start in range(4)] == [first, second, second, second]


def test_every_scenario_says_what_it_is() -> None:
    assert set(SCENARIOS) >= {
        "healthy",
        "new-bar",
        "straggler",
        "slow",
        "stall-in-graphs",
        "oom-in-weights",
        "crash-on-first-request",
        "port-in-use",
        "crash-loop",
    }
    assert all(scenario.title and scenario.scripts for scenario in SCENARIOS.values())
    assert all(name == scenario.name for name, scenario in SCENARIOS.items())

"""What the practice host measures, as the real commands print it."""

from __future__ import annotations

import itertools
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from bot.core.evidence import PROCESS_PATTERN, parse_gpus, parse_pids, parse_processes, parse_sizes
from bot.practice.instruments import WEIGHTS, Instruments
from bot.practice.journal import Journal
from bot.practice.process import Exit, Process, UnitFile
from bot.practice.shell import Unkindness
from bot.practice.units import Unit
from tests.support.theatre import LoopClock
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bot.clock import Clock

pytestmark = pytest.mark.looptime
NAME = "a.service"
GROUP = "/sys/fs/cgroup/system.slice/a.service"
GREP = ("grep", "-a", "-o", "-H", "-E", "-e", PROCESS_PATTERN)


class Loads:
    async def run(self, process: Process) -> Exit:
        process.ranks = {0: 201, 1: 202}
        process.meter.gpus = 2
        process.meter.set(cores=2.0, reading=1e9, most=WEIGHTS)
        await process.terminated.wait()
        return Exit(1, 0)


class Room:
    def __init__(self) -> None:
        self.clock: Clock = LoopClock()
        file = UnitFile(NAME, "A", command_line="python -m sglang.launch_server --api-key sk-0123")
        journal = Journal(self.clock)
        self.unit = Unit(file, clock=self.clock, journal=journal, program=Loads(), pids=itertools.count(100))
        self.unkind = Unkindness()
        self.instruments = Instruments({NAME: self.unit}, self.unkind, gpus=2)

    def run(self, *words: str, root: bool = False) -> tuple[int, str, str]:
        answer = self.instruments.answer(words, root=root)
        assert answer is not None
        return answer.status, answer.output, answer.error


@asynccontextmanager
async def opened() -> AsyncIterator[Room]:
    room = Room()
    room.unit.open()
    room.unit.submit("start")
    await until(lambda: room.unit.process is not None and room.unit.process.ranks)
    yield room
    await room.unit.close()


async def test_processes_of_the_unit() -> None:
    async with opened() as room:
        status, out, error = room.run("find", GROUP, "/sys/fs/cgroup/unified/x", "-name", "cgroup.procs")
        assert (status, parse_pids(out)) == (1, (100, 201, 202, 103))
        assert "No such file or directory" in error


async def test_what_a_process_lets_be_seen() -> None:
    async with opened() as room:
        await room.clock.sleep(timedelta(seconds=100))
        files = [f"/proc/{pid}/{kind}" for pid in (100, 201, 202) for kind in ("cmdline", "io", "maps")]
        status, out, error = room.run(*GREP, *files)
        facts = parse_processes(out, error)
        assert status == 0
        assert [each.rank for each in facts.processes] == ["TP0", "TP1"]
        assert facts.read == pytest.approx(100e9, rel=0.05)
        assert facts.shard is not None
        assert (facts.shard.number, facts.shard.total) == (12, 64)
        assert "sk-0123" not in out


async def test_another_users_processes_are_closed() -> None:
    async with opened() as room:
        room.unkind.processes_closed = True
        status, out, error = room.run(*GREP, "/proc/201/cmdline", "/proc/201/io", "/proc/201/maps")
        assert status == 2
        assert parse_processes(out, error).refused == {"io", "maps"}
        assert room.run(*GREP, "/proc/999/io")[2] == "grep: /proc/999/io: No such file or directory\n"


async def test_gpus() -> None:
    async with opened() as room:
        await room.clock.sleep(timedelta(seconds=100))
        _, out, _ = room.run("timeout", "8", "nvidia-smi", "--query-gpu=index")
        gpus = parse_gpus(out)
        assert [gpu.index for gpu in gpus] == [0, 1]
        assert gpus[0].used == pytest.approx(50e9, rel=0.05)
        room.unkind.no_nvidia_smi = True
        assert room.run("timeout", "8", "nvidia-smi")[0] == 127


async def test_reading_ends_with_the_weights() -> None:
    async with opened() as room:
        await room.clock.sleep(timedelta(hours=1))
        _, out, error = room.run(*GREP, "/proc/201/io", "/proc/202/io", "/proc/201/maps")
        facts = parse_processes(out, error)
        assert (facts.read, facts.shard) == (WEIGHTS, None)
        assert parse_sizes(room.run("find", "-L", "/models/kimi-k2.5")[1]) == WEIGHTS
        assert room.run("find", "-L", "/nowhere")[0] == 1


async def test_a_stack_is_for_root() -> None:
    async with opened() as room:
        dump = ("py-spy", "dump", "--pid", "201")
        assert "Permission Denied" in room.run(*dump)[2]
        assert "sglang::scheduler_TP0" in room.run(*dump, root=True)[1]
        room.unkind.no_py_spy = True
        assert room.run(*dump, root=True)[0] == 127


async def test_other_commands_are_not_its_own() -> None:
    async with opened() as room:
        assert room.instruments.answer(["ls"], root=False) is None

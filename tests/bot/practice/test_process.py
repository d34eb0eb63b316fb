"""How a practice process ends, and what it uses."""

from __future__ import annotations

import signal
from datetime import timedelta

import pytest

from bot.clock import Clock
from bot.practice.process import DUMPED, EXITED, KILLED, Exit, Meter, UnitFile
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("exit_", "text", "result"),
    [
        (Exit(EXITED, 0), "code=exited, status=0/SUCCESS", "success"),
        (Exit(EXITED, 1), "code=exited, status=1/FAILURE", "exit-code"),
        (Exit(EXITED, 3), "code=exited, status=3/NOTIMPLEMENTED", "exit-code"),
        (Exit(EXITED, 137), "code=exited, status=137/n/a", "exit-code"),
        (Exit(KILLED, signal.SIGKILL), "code=killed, status=9/KILL", "signal"),
        (Exit(KILLED, signal.SIGTERM), "code=killed, status=15/TERM", "success"),
        (Exit(DUMPED, signal.SIGSEGV), "code=dumped, status=11/SEGV", "core-dump"),
    ],
)
def test_an_exit_reads_as_systemd_writes_it(exit_: Exit, text: str, result: str) -> None:
    assert str(exit_) == text
    assert exit_.result == result


async def test_a_meter_counts_in_told_time() -> None:
    clock = Clock(speed=1000)
    meter = Meter(clock)
    assert meter.cpu_nanoseconds == 0
    meter.set(cores=8, reading=1e9)
    began = clock.now()
    await until(lambda: clock.now() - began >= timedelta(seconds=20))
    meter.set(cores=0, reading=0)
    told = (clock.now() - began).total_seconds()
    assert 8 * 20 <= meter.cpu_nanoseconds / 1e9 <= 8 * told
    assert 20e9 <= meter.read_bytes <= told * 1e9
    assert meter.memory_bytes > meter.read_bytes
    assert meter.cpu_nanoseconds == meter.cpu_nanoseconds


def test_what_was_used_before_is_credited() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.credit(cores=2, since=clock.now() - timedelta(hours=1))
    assert meter.cpu_nanoseconds == pytest.approx(7200e9, rel=0.001)


def test_a_unit_knows_its_cgroup() -> None:
    assert UnitFile("a.service", "A").cgroup == "/system.slice/a.service"
    assert UnitFile("a.service", "A", user=True).cgroup.endswith("/app.slice/a.service")

"""The failing scenarios fail as a real engine does."""

from __future__ import annotations

import signal

import pytest

from bot.core.actions import Progress
from bot.core.events import PhaseId, Role
from bot.practice.engine import ServerStatus
from bot.practice.process import EXITED, KILLED, Exit
from bot.practice.scenarios import SCENARIOS
from tests.support.theatre import Theatre, play

pytestmark = pytest.mark.looptime

KILL = Exit(KILLED, signal.SIGKILL)


def errors(theatre: Theatre) -> list[str]:
    return [text for text in theatre.texts() if "Error" in text]


async def test_out_of_memory_in_one_rank_takes_the_others_along() -> None:
    async with play(SCENARIOS["oom-in-weights"]) as theatre:
        await theatre.until(lambda: theatre.unit.active == "failed")
        first, *others = errors(theatre)
        assert first.startswith(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3"
        )
        assert len(others) == 7
        assert all("Connection closed by peer" in text for text in others)
        assert theatre.said("TP3] Scheduler hit an exception: Traceback (most recent call last):")
        assert theatre.said("Received sigquit from a child process")
        assert (theatre.unit.result, theatre.unit.last_exit) == ("signal", KILL)


async def test_the_error_comes_from_the_failing_ranks_own_process() -> None:
    async with play(SCENARIOS["oom-in-weights"]) as theatre:
        await theatre.until(lambda: theatre.unit.active == "failed")
        pids = {text.text("_PID") for text in theatre.journal.entries if "TP3]" in text.text("MESSAGE")}
        (error,) = (entry for entry in theatre.journal.entries if "OutOfMemoryError" in entry.text("MESSAGE"))
        assert {error.text("_PID")} == pids


async def test_the_product_sees_where_it_failed() -> None:
    async with play(SCENARIOS["oom-in-weights"]) as theatre:
        await theatre.until(lambda: theatre.unit.active == "failed")
        tracker = theatre.track()
        assert tracker.current() == (PhaseId.WEIGHTS, Role.TARGET)
        assert tracker.phases()[-1].progress == Progress(38, 64)


async def test_after_the_failure_the_next_start_is_healthy() -> None:
    async with play(SCENARIOS["oom-in-weights"]) as theatre:
        await theatre.until(lambda: theatre.unit.active == "failed")
        theatre.unit.submit("restart")
        await theatre.until(lambda: theatre.said("fired up"))
        assert theatre.unit.active == "active"


async def test_the_first_request_kills_it() -> None:
    async with play(SCENARIOS["crash-on-first-request"]) as theatre:
        await theatre.until(lambda: theatre.said("fired up"))
        assert theatre.engine.status is ServerStatus.UP
        assert theatre.engine.dying
        theatre.engine.requested.set()
        await theatre.until(lambda: theatre.unit.active == "failed")
        assert errors(theatre)[0].startswith("torch.AcceleratorError: CUDA error: an illegal memory access")
        assert theatre.unit.last_exit == KILL
        assert not theatre.engine.listening


async def test_a_port_in_use_shows_only_after_the_whole_load() -> None:
    async with play(SCENARIOS["port-in-use"]) as theatre:
        began = theatre.clock.now()
        await theatre.until(lambda: theatre.said("[Errno 98]"))
        assert (theatre.clock.now() - began).total_seconds() > 400
        assert theatre.stray.listening
        assert not theatre.engine.listening
        await theatre.until(lambda: theatre.unit.active == "failed")
        assert theatre.said("fired up and ready to roll")
        assert (theatre.unit.result, theatre.unit.last_exit) == ("exit-code", Exit(EXITED, 3))
        assert theatre.stray.listening


async def test_a_crash_loop_never_shows_as_failed() -> None:
    async with play(SCENARIOS["crash-loop"]) as theatre:
        states = set()

        def third_restart() -> bool:
            states.add((theatre.unit.active, theatre.unit.sub))
            return theatre.unit.restarts == 3

        await theatre.until(third_restart)
        assert states <= {("inactive", "dead"), ("active", "running"), ("activating", "auto-restart")}
        assert len({entry.text("INVOCATION_ID") for entry in theatre.journal.entries} - {""}) >= 3
        assert errors(theatre)[0].startswith("safetensors_rust.SafetensorError")

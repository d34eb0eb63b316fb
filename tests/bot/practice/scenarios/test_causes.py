"""The scenarios whose cause stands elsewhere say what a real host says."""

from __future__ import annotations

import re
import signal

import pytest

from bot.practice.process import KILLED, Exit
from bot.practice.scenarios import SCENARIOS
from tests.support.theatre import play

pytestmark = pytest.mark.looptime


async def test_the_oom_killer_speaks_in_the_kernels_name_and_systemd_after_it() -> None:
    async with play(SCENARIOS["kernel-oom"]) as theatre:
        await theatre.until(lambda: theatre.unit.active == "failed")
        kernel = [entry for entry in theatre.journal.entries if entry.text("_TRANSPORT") == "kernel"]
        called, chosen, killed = (entry.text("MESSAGE") for entry in kernel)
        assert "invoked oom-killer" in called
        assert "task_memcg=/system.slice/sglang-kimi.service,task=sglang::schedul" in chosen
        pids = {entry.text("_PID") for entry in theatre.journal.entries if "TP4]" in entry.text("MESSAGE")}
        assert {killed.split()[5]} == pids
        assert not any(entry.text("_SYSTEMD_UNIT") for entry in kernel)
        assert theatre.said("A process of this unit has been killed by the OOM killer.")
        assert theatre.said("Failed with result 'oom-kill'.")
        assert (theatre.unit.result, theatre.unit.last_exit) == (
            "oom-kill",
            Exit(KILLED, signal.SIGKILL, "oom-kill"),
        )


async def test_the_watchdogs_of_all_but_the_rank_that_hangs_speak_after_ten_minutes() -> None:
    async with play(SCENARIOS["nccl-timeout"]) as theatre:
        await theatre.until(lambda: theatre.unit.active == "failed")
        # The first one stands behind a bar, on the same physical line.
        told = re.findall(r"\[rank(\d)\]:\[E.{20,90} Watchdog caught", "\n".join(theatre.texts()))
        assert told == ["0", "1", "2", "3", "4", "6", "7"]
        assert theatre.said("terminate called after throwing an instance of 'c10::DistBackendError'")
        assert theatre.unit.result == "signal"


async def test_two_ranks_fail_for_reasons_of_their_own() -> None:
    async with play(SCENARIOS["two-causes"]) as theatre:
        await theatre.until(lambda: theatre.unit.active == "failed")
        first, second, *others = [text for text in theatre.texts() if "Error: " in text]
        assert first.startswith("torch.OutOfMemoryError")
        assert second.startswith("safetensors_rust.SafetensorError")
        assert len(others) == 6
        assert all("Connection closed by peer" in text for text in others)

"""What the host measures decides where the log says nothing: from the words typed to the right verdict."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bot.core.actions import Pace
from bot.practice.workspace import ALICE, CHANNEL
from tests.support.practice import Practice, practise

FIVE_MINUTES = {"patience": {"weights": "5m", "graphs": "5m"}}


def stalls(practice: Practice, root: Any) -> list[str]:
    return [line for line in practice.replies(root) if "stalled" in line]


async def test_an_invisible_bar_shows_as_bytes_read_and_is_no_stall() -> None:
    async with practise("invisible-bar", speed=120, service=FIVE_MINUTES) as practice:
        root = await practice.begin()

        def shown(_: object) -> re.Match[str] | None:
            return re.search(
                r"▓.* \d+% read[^\n]*\n.*\d+ GB of 547 GB read, 0\.\d GB/s", told(practice, root)
            )

        await practice.until(shown)
        assert (await practice.verdict()).verdict == "healthy"
        assert not stalls(practice, root)


async def test_a_quiet_repack_is_no_stall_while_gpu_memory_moves() -> None:
    async with practise("quiet-repack", speed=120, service=FIVE_MINUTES) as practice:
        root = await practice.begin()
        await practice.until(lambda _: practice.pace() is Pace.QUIET)
        await practice.until(lambda _: re.search(r"nothing new for .*GPU memory", told(practice, root)))
        assert (await practice.verdict()).verdict == "healthy"
        assert not stalls(practice, root)


async def test_ranks_that_spin_are_stalled_and_their_stacks_are_there() -> None:
    async with practise("spinning", speed=120, service=FIVE_MINUTES) as practice:
        root = await practice.begin()
        stall = await practice.reply(root, "stalled")
        assert re.search(r"CPU (7[5-9]|8[0-4])\d %, \w+: 8 ranks compute or spin", stall.plain)
        for evidence in ("GPU memory unchanged at", "Nothing read from disk"):
            assert evidence in stall.plain
        assert "8 of 8 rank processes live" in stall.plain
        assert {"kimi:wait", "kimi:logs", "kimi:restart", "kimi:stop"} <= buttons(stall)
        files = await practice.until(lambda slack: len(slack.files) > 1 and slack.files)
        [stacks] = [file for file in files.values() if file.name == "stacks.txt"]
        assert [f"=== TP{rank} on llm-two" in stacks.content.decode() for rank in range(8)] == [True] * 8
        assert "capture_one_batch_size" in stacks.content.decode()
        await practice.slack.press(ALICE, CHANNEL, stall.ts, "kimi:stop")
        await practice.until(lambda _: len(practice.roots()) > 1)
        assert (await practice.verdict()).verdict == "stopped"


async def test_a_rank_that_vanished_is_told_at_once_and_fails_the_start() -> None:
    async with practise("rank-vanished", speed=120) as practice:
        root = await practice.begin()
        told_at_once = await practice.reply(root, "process is gone")
        assert "TP5" in told_at_once.plain
        assert "7 other ranks" in told_at_once.plain
        assert (await practice.verdict()).verdict == "failed"
        verdict = next(line for line in practice.replies(root) if "failed" in line)
        assert "TP5's process is gone; SGLang ≤0.5.9 hangs for ever on that" in verdict
        assert "loading weights" in verdict
        assert not stalls(practice, root)


async def test_a_slow_second_start_is_told_slow_by_what_the_first_one_taught() -> None:
    async with practise("slow-second-start", speed=120) as practice:
        first = await practice.begin()
        assert (await practice.verdict()).verdict == "healthy"
        assert not [line for line in practice.replies(first) if "Slower" in line]
        second = await practice.begin()
        await practice.until(lambda _: re.search(r"usual \dm\d+s, now \d+m", told(practice, second)))
        slow = await practice.reply(second, "Slower than usual loading weights")
        assert re.search(r"usual \dm\d+s, now \d+m\d*s?, and still moving", slow.plain)
        assert (await practice.verdict()).verdict == "healthy"
        assert not stalls(practice, second)


@pytest.mark.parametrize("scenario", ["healthy"])
async def test_a_host_that_tells_little_is_done_without_and_said_to(scenario: str) -> None:
    async with practise(scenario, speed=120) as practice:
        unkind = practice.workspace.host.unkind
        unkind.processes_closed = unkind.no_nvidia_smi = True
        root = await practice.begin()
        await practice.until(
            lambda _: re.search(r"the host does not tell: .*bytes read.*no nvidia-smi", told(practice, root))
        )
        operation = await practice.verdict()
        assert operation.verdict == "healthy"


def told(practice: Practice, root: Any) -> str:
    return str(practice.thread(root)[0].plain)


def buttons(message: Any) -> set[str]:
    return {
        element["action_id"]
        for block in message.blocks
        if block["type"] == "actions"
        for element in block["elements"]
    }

"""`/kimi restart` on a real host: real systemd, journald and sshd, real Redis, the strict stand-in Slack."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.real_workspace import WITHIN, RealWorkspace, real_workspace
from tests.systemd.fake_engine import DEFAULTS, long_text

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from tests.systemd.real_host import RealHost

STABLE = timedelta(seconds=2)
SMOKE = 0.5  # seconds: the fake engine writes its four tokens in a fraction of that


def workspace(
    folder: Path, real_host: RealHost, **changes: Any
) -> AbstractAsyncContextManager[RealWorkspace]:
    plain = {
        "stable_for": "2s",
        "api_key_env": "ENGINE_KEY",
        "smoke": {"prompt": "Say hello.", "max_tokens": 16},
    }
    service = real_host.service_section(**(plain | changes))
    return real_workspace(folder, host=real_host.section, service=service)


async def starts(real_host: RealHost) -> int:
    """How often systemd started the unit since the journal began."""
    told = await real_host.run(f"journalctl -u {real_host.unit} -o cat --no-pager")
    return sum(line.startswith("Started ") for line in told.splitlines())


async def test_a_healthy_restart_is_followed_to_its_proof(tmp_path: Path, real_host: RealHost) -> None:
    await real_host.set_scenario("healthy")
    before = await starts(real_host)
    async with workspace(tmp_path, real_host) as room:
        await room.begin("restart kimi-k2.5 a real one")
        assert (await room.verdict()).verdict == "healthy"
        assert await starts(real_host) == before + 1
        told = "\n".join(message.plain for message in room.replies())
        assert "Weights loaded" in told
        assert "CUDA graphs captured" in told
        assert "healthy" in room.replies()[-2].plain  # the picture of it comes last
        assert "failed" not in told
        assert "a real one" in room.root().plain


async def test_the_ready_line_leads_to_the_verdict_without_waiting_for_a_poll(
    tmp_path: Path, real_host: RealHost
) -> None:
    await real_host.set_scenario("healthy")
    async with workspace(tmp_path, real_host, smoke={"prompt": "Hi.", "max_tokens": 4}) as room:
        await room.begin("restart kimi-k2.5")
        operation = await room.verdict()
        assert operation.verdict == "healthy"
        ready = await real_host.run(
            f"journalctl -u {real_host.unit} -o short-unix --no-pager | grep 'ready to roll' | tail -1"
        )
        assert operation.closed is not None
        waited = operation.closed.timestamp() - float(ready.split()[0])
        assert waited < STABLE.total_seconds() + SMOKE + 2.0


async def test_old_bars_that_journalctl_calls_blob_data_are_read(tmp_path: Path, real_host: RealHost) -> None:
    await real_host.set_scenario("slow")
    async with workspace(tmp_path, real_host) as room:
        await room.begin("restart kimi-k2.5")
        await room.slack.wait_for(lambda _: re.search(r"\b(1[2-9]|[2-5]\d)/64\b", room.root().text), WITHIN)
        assert re.search(r"\d+ of 64 shards", room.root().plain)
        plain = await real_host.run(f"journalctl -u {real_host.unit} --no-pager -n 40")
        assert re.search(r"\[\d+B blob data\]", plain)
        assert "of 64" not in plain
        await room.slack.slash("U0ALICE", "C0LLMOPS", "unwatch")
        assert (await room.verdict()).verdict == "unwatched"


async def test_a_process_killed_midway_is_a_failure_with_its_whole_log(
    tmp_path: Path, real_host: RealHost
) -> None:
    await real_host.set_scenario("slow")
    async with workspace(tmp_path, real_host) as room:
        await room.begin("restart kimi-k2.5")
        await room.slack.wait_for(lambda _: re.search(r"\b[1-9]\d?/64\b", room.root().text), WITHIN)
        await real_host.run(f"kill -9 {await real_host.main_pid()}")
        operation = await room.verdict()
        assert operation.verdict == "failed"
        verdict = await room.reply("failed")
        assert verdict.broadcast
        assert "weights" in verdict.plain
        assert re.search(r"(?i)signal|killed|9/KILL", verdict.plain)
        [tail] = [file for file in room.slack.files.values() if file.name.endswith(".log")]
        assert b"Loading safetensors checkpoint shards" in tail.content
        assert str(DEFAULTS["api_key"]).encode() not in tail.content


async def test_a_start_that_hangs_in_graph_capture_is_told_as_stalled(
    tmp_path: Path, real_host: RealHost
) -> None:
    await real_host.set_scenario("hang-in-graphs")
    async with workspace(tmp_path, real_host, patience={"graphs": "4s"}) as room:
        await room.begin("restart kimi-k2.5")
        stall = await room.reply("stalled")
        assert "graph" in stall.plain
        assert "TP5" in stall.plain
        await room.slack.wait_for(lambda slack: slack.files or None, WITHIN)
        [tail] = room.slack.files.values()
        assert tail.content.count(b"Load weight end") == DEFAULTS["ranks"]
        outcome = await room.slack.press("U0ALICE", "C0LLMOPS", stall.ts, "kimi:stop")
        assert outcome.acknowledged
        await room.slack.wait_for(lambda _: len(room.roots()) == 2 or None, WITHIN)
        assert (await room.verdict()).verdict == "stopped"
        assert "inactive" in await real_host.run(f"systemctl show -p ActiveState {real_host.unit}")


async def test_every_byte_of_a_long_line_is_in_the_file(tmp_path: Path, real_host: RealHost) -> None:
    await real_host.set_scenario("long-line")
    async with workspace(tmp_path, real_host) as room:
        root = await room.begin("restart kimi-k2.5")
        assert (await room.verdict()).verdict == "healthy"
        await room.slack.mention("U0ALICE", "C0LLMOPS", "logs 10m", root.ts)
        logs = await room.slack.wait_for(
            lambda slack: [file for file in slack.files.values() if file.name.endswith(".log")] or None,
            WITHIN,
        )
        [tail] = logs
        assert tail.thread_ts == root.ts
        assert long_text(120_000).encode() in tail.content


async def test_a_unit_that_is_not_there_is_told_to_the_person_alone(
    tmp_path: Path, real_host: RealHost
) -> None:
    async with workspace(tmp_path, real_host, unit="sglang-nowhere.service") as room:
        await room.slack.slash("U0ALICE", "C0LLMOPS", "restart kimi-k2.5")
        [answer] = await room.slack.wait_for(lambda slack: slack.ephemerals("U0ALICE"), WITHIN)
        assert "sglang-nowhere.service" in answer.plain
        assert room.roots() == []


@pytest.mark.parametrize("verb", ["start", "stop"])
async def test_start_and_stop_are_followed_too(tmp_path: Path, real_host: RealHost, verb: str) -> None:
    await real_host.set_scenario("healthy")
    if verb == "stop":
        await real_host.run(f"systemctl start {real_host.unit}")
    async with workspace(tmp_path, real_host) as room:
        await room.begin(f"{verb} kimi-k2.5")
        assert (await room.verdict()).verdict == {"start": "healthy", "stop": "stopped"}[verb]

"""`/kimi restart`, from the words typed to the verdict, in every scenario."""

from __future__ import annotations

import json
import re

import pytest

from bot.practice.workspace import ALICE, API_KEY, BOB, CHANNEL
from tests.support.pictures import read_png
from tests.support.practice import WITHIN, practise


async def test_a_healthy_start_is_told_phase_by_phase_and_proven() -> None:
    async with practise("healthy", true_pace=True) as practice:
        root = await practice.begin("restart kimi-k2.5 new tool-call parser")
        operation = await practice.verdict()
        assert operation.verdict == "healthy"
        assert practice.orders() == ["restart"]
        *phases, verdict, picture = practice.replies(root)
        told = [re.split(r" (?:in|after) ", line)[0] for line in phases]
        assert told[:3] == ["Old process stopped", "Process started", "Ranks connected"]
        assert told.index("Weights loaded") < told.index("CUDA graphs captured")
        assert "Draft model: weights loaded" in told
        assert "healthy" in verdict
        assert "kimi-k2.5" in verdict
        assert not any("healthy" in line or "failed" in line for line in (*phases, picture))
        [drawn] = practice.slack.files.values()
        assert read_png(drawn.content).width == 936
        assert re.match(r"kimi-k2\.5: healthy after .+ Phases: .+weights .+ 8 ranks; ", drawn.alt)
        final = practice.thread(root)[0]
        assert "new tool-call parser" in final.plain
        assert "healthy" in final.plain
        assert len(practice.roots()) == 1
        assert await practice.app.startups.held(operation.service) is None


async def test_the_second_start_knows_what_is_usual() -> None:
    async with practise("healthy", speed=120) as practice:
        await practice.begin()
        first = await practice.verdict()
        root = await practice.begin()
        second = await practice.verdict()
        assert second.operation != first.operation
        assert second.verdict == "healthy"
        weights = next(line for line in practice.replies(root) if line.startswith("Weights"))
        assert re.search(r"usual \dm", weights)


async def test_progress_stands_in_the_root_while_weights_load() -> None:
    async with practise("healthy") as practice:
        root = await practice.begin()
        await practice.until(
            lambda _: re.search(r"\b[1-9]\d? of 64 shards", practice.thread(root)[0].plain), within=WITHIN
        )
        await practice.type("unwatch")
        assert (await practice.verdict()).verdict == "unwatched"


@pytest.mark.parametrize("scenario", ["new-bar", "straggler", "slow"])
async def test_a_start_that_takes_its_time_ends_healthy(scenario: str) -> None:
    async with practise(scenario, speed=120) as practice:
        root = await practice.begin()
        assert (await practice.verdict()).verdict == "healthy"
        replies = practice.replies(root)
        assert not any("stalled" in line for line in replies)
        if scenario == "straggler":
            assert "TP5" in next(line for line in replies if line.startswith("Weights"))


@pytest.mark.parametrize(
    ("scenario", "phase", "cause"),
    [
        ("oom-in-weights", "loading weights", r"(?i)out of (GPU )?memory"),
        ("crash-on-first-request", r"smoke|warm", r"(?i)exception|error|died|killed"),
        ("port-in-use", r"", r"(?i)address already in use|port"),
        ("crash-loop", r"weights", r"(?i)again|loop|starts it"),
    ],
)
async def test_a_start_that_fails_says_where_and_why_with_the_whole_log(
    scenario: str, phase: str, cause: str
) -> None:
    async with practise(scenario, speed=90) as practice:
        root = await practice.begin()
        operation = await practice.verdict()
        assert operation.verdict == "failed"
        verdict = next(m for m in practice.thread(root)[1:] if "failed" in m.plain)
        assert verdict.broadcast
        assert re.search(phase, verdict.plain)
        assert re.search(cause, verdict.plain)
        tail, drawn = [file for file in practice.slack.files.values() if file.thread_ts == root.ts]
        assert read_png(drawn.content).width == 936
        assert drawn.alt.startswith("kimi-k2.5: failed after ")
        assert practice.thread(root)[-1].files == (drawn,)
        assert b"server_args" in tail.content
        assert API_KEY.encode() not in tail.content
        assert re.search(r"\d+ secrets? masked", practice.thread(root)[-2].plain)
        assert "failed" in practice.thread(root)[0].plain
        assert await practice.app.startups.held(operation.service) is None


async def test_a_stall_is_told_once_with_the_whole_log_and_may_be_waited_for() -> None:
    async with practise("stall-in-graphs", speed=120) as practice:
        root = await practice.begin()
        stall = await practice.reply(root, "stalled")
        files = await practice.until(lambda slack: len(slack.files) > 1 and slack.files)
        tail, stacks = sorted(files.values(), key=lambda file: str(file.name))
        assert stacks.name == "stacks.txt"
        assert b"Capture cuda graph begin" in tail.content
        assert "TP0" in stall.plain
        await practice.slack.press(ALICE, CHANNEL, stall.ts, "kimi:wait")
        await practice.reply(root, "<@U0ALICE>")
        outcome = await practice.slack.press(ALICE, CHANNEL, stall.ts, "kimi:stop")
        assert outcome.acknowledged
        await practice.until(lambda _: len(practice.roots()) > 1)
        assert (await practice.verdict()).verdict == "stopped"
        assert sum("stalled" in line for line in practice.replies(root)) == 1
        assert practice.orders() == ["restart", "stop"]


async def test_a_second_restart_is_told_who_since_when_and_where() -> None:
    async with practise("healthy") as practice:
        root = await practice.begin()
        await practice.reply(root, "Ranks connected")
        answer = await practice.ask("restart kimi-k2.5")
        assert "<@U0ALICE>" in answer
        assert root.ts.replace(".", "") in answer
        assert "Nothing was done" in answer
        assert practice.orders() == ["restart"]


async def test_who_may_only_look_is_told_so_privately() -> None:
    async with practise("healthy") as practice:
        answer = await practice.ask("restart kimi-k2.5", user=BOB)
        assert "<!subteam^S0ONCALL>" in answer
        assert practice.roots() == []
        assert practice.orders() == []


async def test_a_log_comes_to_who_asks_for_it_outside_a_thread_and_inside_one() -> None:
    async with practise("healthy", speed=100) as practice:
        assert "Fetching" in await practice.ask("logs 20", user=BOB)
        outside = await practice.until(lambda slack: [*slack.files.values()])
        [root] = practice.roots()
        assert (outside[0].channel, outside[0].thread_ts) == (CHANNEL, root.ts)
        assert BOB in root.plain
        assert API_KEY.encode() not in outside[0].content
        await practice.slack.mention(BOB, CHANNEL, "logs 5", root.ts)
        files = await practice.until(lambda slack: [*slack.files.values()][1:])
        assert files[0].thread_ts == root.ts
        assert practice.roots() == [root]


async def test_history_and_why_tell_of_what_was_lived_through() -> None:
    async with practise("oom-in-weights", speed=120) as practice:
        assert "on record yet" in await practice.ask("history")
        await practice.begin()
        operation = await practice.verdict()
        assert json.loads(operation.account)["failure"]["phase"] == "weights"
        why = await practice.ask("why")
        assert re.search(r"went wrong after .+ while loading weights", why)
        assert re.search(r"(?i)out of (GPU )?memory", why)
        assert "failed" not in why
        status = await practice.ask("status")
        assert re.search(
            r"(?i)That start failed in weights: out of GPU memory.* · `/kimi why kimi-k2.5`", status
        )
        before = len(practice.slack.files)
        assert "failed" in await practice.ask("history")
        await practice.until(lambda slack: len(slack.files) > before)
        assert await practice.app.startups.ground.outbox.drain(30)
        drawn = list(practice.slack.files.values())[-1]
        assert drawn.alt.startswith("kimi-k2.5: 1 startup, 0 healthy and 1 failed.")
        assert practice.roots()[-1].plain == "Past startups of `kimi-k2.5`, asked for by <@U0ALICE>:"

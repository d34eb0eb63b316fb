"""The smoke test in verdicts and as a verb: numbers, answer, who may run it, crashes."""

from __future__ import annotations

import asyncio
import re

from bot.practice.workspace import ALICE, BOB, CHANNEL
from tests.support.practice import practise


async def test_the_verdict_tells_the_numbers_beside_the_usual_ones_and_the_answer() -> None:
    async with practise("healthy", speed=120) as practice:
        root = await practice.begin()
        assert (await practice.verdict()).verdict == "healthy"
        first = await practice.reply(root, "healthy")
        assert re.search(r"first token \d\.\d\ds, \d+ tokens/s; tool call and reasoning parsed", first.plain)
        assert "def quicksort(items)" in first.plain
        again = await practice.begin()
        assert (await practice.verdict()).verdict == "healthy"
        second = await practice.reply(again, "healthy")
        pattern = r"first token \d\.\d\ds \(usual \d\.\d\ds\), \d+ tokens/s \(usual \d+\)"
        assert re.search(pattern, second.plain)


async def test_a_crash_on_the_first_request_is_a_failure_with_its_cause_and_no_time_out() -> None:
    async with practise("crash-on-first-request", speed=90) as practice:
        root = await practice.begin()
        operation = await practice.verdict()
        assert operation.verdict == "failed"
        verdict = await practice.reply(root, "failed")
        assert "illegal memory access" in verdict.plain
        assert "smoke test" in verdict.plain
        assert "timed out" not in verdict.plain
        assert "did not finish within" not in verdict.plain


async def test_the_verb_runs_it_at_any_time_and_answers_in_private() -> None:
    async with practise("healthy", speed=100) as practice:
        await practice.type("smoke")
        found = await practice.until(
            lambda slack: [m.plain for m in slack.ephemerals(ALICE) if "passed" in m.plain]
        )
        assert re.search(r"Smoke test of .?kimi-k2.5.? passed: first token \d\.\d\ds, \d+ tokens/s", found[0])
        assert "def quicksort(items)" in found[0]
        assert practice.roots() == []
        assert practice.orders() == []


async def test_in_a_thread_all_can_read_the_answer() -> None:
    async with practise("healthy", speed=100) as practice:
        root = await practice.begin()
        assert (await practice.verdict()).verdict == "healthy"
        await practice.slack.mention(ALICE, CHANNEL, "smoke", thread_ts=root.ts)
        reply = await practice.reply(root, "passed")
        assert re.search(r"first token \d\.\d\ds \(usual", reply.plain)
        assert "<@U0ALICE>" in reply.text


async def test_who_may_only_look_may_not_spend_a_completion() -> None:
    async with practise("healthy", speed=100) as practice:
        assert "not run the smoke test of" in await practice.ask("smoke", user=BOB)


async def test_of_two_at_once_one_runs() -> None:
    async with practise("healthy", speed=10) as practice:
        await asyncio.gather(practice.type("smoke"), practice.type("smoke"))
        answers = await practice.until(lambda slack: verdicts([m.plain for m in slack.ephemerals(ALICE)]))
        assert sorted("runs already" in answer for answer in answers) == [False, True]


def verdicts(told: list[str]) -> list[str] | None:
    found = [text for text in told if "passed" in text or "runs already" in text]
    return found if len(found) == 2 else None


async def test_an_engine_that_answers_nothing_is_told_why() -> None:
    async with practise("healthy", speed=100) as practice:
        practice.workspace.host.engine.manners.empty = True
        await practice.type("smoke")
        found = await practice.until(
            lambda slack: [m.plain for m in slack.ephemerals(ALICE) if "not passed" in m.plain]
        )
        assert "the completion came back empty" in found[0]

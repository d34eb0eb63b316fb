"""What changed between two starts is told in the thread, beside a failure too, and units are reloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.practice.scenarios import SCENARIOS
from bot.practice.workspace import ALICE, BOB, CHANNEL
from tests.support.practice import Practice, practise

if TYPE_CHECKING:
    import pytest

    from bot.practice.slack_state import PostedMessage

FLAG = " --enable-metrics"


def told(practice: Practice, root: PostedMessage) -> list[str]:
    return [line for line in practice.replies(root) if line.startswith(("Changed", "Unit file"))]


async def test_between_two_starts_what_changed_is_told_once_and_what_did_not_is_not() -> None:
    async with practise("healthy", speed=120) as practice:
        unit = practice.workspace.host.unit
        first = await practice.begin()
        assert (await practice.verdict()).verdict == "healthy"
        assert told(practice, first) == []

        same = await practice.begin()
        assert (await practice.verdict()).verdict == "healthy"
        assert told(practice, same) == []

        unit.edit(command_line=f"{unit.file.command_line.replace('0.85', '0.82')}{FLAG}")
        unit.edit(environment=("NCCL_DEBUG=INFO", "HF_TOKEN=hf_practice9another9token9"))
        unit.edit(packages=("sglang-0.5.9", "torch-2.9.1"))
        unit.reload()
        other = await practice.begin()
        assert (await practice.verdict()).verdict == "healthy"
        [line] = told(practice, other)
        assert "+ --enable-metrics" in line
        assert "--mem-fraction-static 0.85 → 0.82" in line
        assert "NCCL_DEBUG=WARN → INFO" in line
        assert "sglang 0.5.8.post1 → 0.5.9" in line
        assert "practice9another" not in line
        assert "HF_TOKEN" not in line
        assert "random_seed" not in line
        assert line.count("mem") == 1
        replies = practice.replies(other)
        assert replies.index(line) < next(i for i, text in enumerate(replies) if "Weights loaded" in text)


async def test_a_stale_unit_file_has_a_button_that_operators_may_press() -> None:
    async with practise("healthy", speed=120) as practice:
        unit = practice.workspace.host.unit
        unit.edit(command_line=f"{unit.file.command_line}{FLAG}")
        root = await practice.begin()
        reply = await practice.reply(root, "daemon-reload needed")
        await practice.slack.press(BOB, CHANNEL, reply.ts, "kimi:reload")
        refusal = await practice.until(lambda slack: slack.ephemerals(BOB))
        assert "not reload the units of" in refusal[-1].plain
        assert unit.edited is not None
        await practice.slack.press(ALICE, CHANNEL, reply.ts, "kimi:reload")
        await practice.reply(root, "has read its unit files anew")
        assert unit.edited is None
        assert ("sudo", "-n", "systemctl", "daemon-reload") in plain(practice)
        assert (await practice.verdict()).verdict == "healthy"

        again = await practice.begin()
        assert (await practice.verdict()).verdict == "healthy"
        assert [("+ --enable-metrics" in line) for line in told(practice, again)] == [True]


def plain(practice: Practice) -> list[tuple[str, ...]]:
    """The commands without the environment before them."""
    commands = practice.workspace.host.commands
    return [tuple(word for word in words if "=" not in word and word != "env") for words in commands]


async def test_it_stands_beside_the_verdict_of_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    async with practise("healthy", speed=120) as practice:
        await practice.begin()
        assert (await practice.verdict()).verdict == "healthy"
        unit = practice.workspace.host.unit
        unit.edit(command_line=f"{unit.file.command_line}{FLAG}")
        unit.reload()
        failing = SCENARIOS["oom-in-weights"].scripts[0]
        monkeypatch.setattr(practice.workspace.host.program, "_next_script", lambda: failing)
        root = await practice.begin()
        assert (await practice.verdict()).verdict == "failed"
        verdict = await practice.reply(root, "failed")
        assert "+ --enable-metrics" in verdict.plain
        assert not any("healthy" in line for line in practice.replies(root))

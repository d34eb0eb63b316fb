"""What is wrong gets a clear answer to the person, leaves no trace in the channel, and holds nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncssh
import pytest

from bot.core.events import ServiceName
from bot.practice.workspace import ALICE, BOB, CHANNEL, SERVICE
from tests.support.practice import Practice, practise

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

HELD = ServiceName(SERVICE)


@pytest.fixture
async def practice() -> AsyncIterator[Practice]:
    async with practise("healthy", speed=100) as made:
        yield made


async def nothing_happened(practice: Practice) -> None:
    assert practice.roots() == []
    assert practice.orders() == []
    assert await practice.app.startups.held(HELD) is None


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("restrat kimi-k2.5", "restart"),
        ("restart kimi-k25", "kimi-k2.5"),
        ("fly me to the moon", "help"),
        ("restart `rm -rf /` && <!channel>", ""),
        ("logs kimi-k2.5 many", "number of lines"),
        ("\u202e\x00status\x1b[31m", ""),
    ],
)
async def test_nonsense_is_answered_with_the_nearest_right_words(
    practice: Practice, typed: str, answer: str
) -> None:
    found = await practice.ask(typed, user=BOB)
    assert answer in found
    assert "<!channel>" not in found
    await nothing_happened(practice)


async def test_a_unit_that_the_host_does_not_know(practice: Practice) -> None:
    practice.workspace.host.unkind.unit_unknown = True
    answer = await practice.ask("restart")
    assert "sglang-kimi.service" in answer
    assert "llm-two" in answer
    await nothing_happened(practice)


async def test_a_journal_that_may_not_be_read(practice: Practice) -> None:
    practice.workspace.host.unkind.journal_unreadable = True
    answer = await practice.ask("restart")
    assert "systemd-journal" in answer
    await nothing_happened(practice)


async def test_no_right_to_sudo(practice: Practice) -> None:
    practice.workspace.host.unkind.sudo_refused = True
    answer = await practice.ask("restart")
    assert "host-setup" in answer
    await nothing_happened(practice)


async def test_a_host_key_of_another(tmp_path: Path) -> None:
    stranger = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    known = tmp_path / "known_hosts"
    known.write_text(f"* {stranger}")
    async with practise("healthy", speed=100, host={"known_hosts": str(known)}) as practice:
        answer = await practice.ask("restart")
        assert "host key" in answer
        assert str(known) in answer
        await nothing_happened(practice)


async def test_a_key_of_ours_that_the_host_does_not_accept(tmp_path: Path) -> None:
    key = tmp_path / "id"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(key)
    async with practise("healthy", speed=100, host={"identity_file": str(key)}) as practice:
        assert "llm-two" in await practice.ask("restart")
        await nothing_happened(practice)


async def test_a_host_that_accepts_and_hangs(practice: Practice, monkeypatch: pytest.MonkeyPatch) -> None:
    for host in practice.app.startups.ground.hosts.values():
        monkeypatch.setattr(host._link, "command_timeout", 0.5)
    practice.workspace.host.unkind.hang = True
    answer = await practice.ask("restart")
    assert "llm-two" in answer
    assert "0.5" in answer
    practice.workspace.host.unkind.hang = False
    await nothing_happened(practice)


async def test_a_port_that_answers_rubbish_is_no_proof() -> None:
    async with practise("healthy", speed=100, service={"give_up_after": "20m"}) as practice:
        practice.workspace.host.engine.manners.rubbish = True
        root = await practice.begin()
        assert (await practice.verdict()).verdict == "failed"
        assert not any("healthy" in line for line in practice.replies(root))


async def test_another_model_than_the_one_asked_for_is_a_failure() -> None:
    async with practise("healthy", speed=100) as practice:
        practice.workspace.host.engine.manners.models = ("kimi-k2",)
        root = await practice.begin()
        assert (await practice.verdict()).verdict == "failed"
        verdict = await practice.reply(root, "failed")
        assert "kimi-k2.5" in verdict.plain
        assert "serves kimi-k2, where kimi-k2.5 was expected" in verdict.plain


async def test_a_link_that_breaks_after_the_order_is_never_told_twice() -> None:
    async with practise("healthy", speed=60) as practice:
        practice.workspace.host.unkind.cut_after_verb = True
        await practice.begin()
        assert (await practice.verdict()).verdict == "healthy"
        assert practice.orders() == ["restart"]


async def test_a_link_that_breaks_midway_is_taken_up_where_it_stood() -> None:
    async with practise("healthy", speed=60) as practice:
        root = await practice.begin()
        await practice.reply(root, "Ranks connected")
        await practice.workspace.host.drop()
        assert (await practice.verdict()).verdict == "healthy"
        replies = practice.replies(root)
        assert sum(line.startswith("Weights loaded") for line in replies) == 1
        assert practice.orders() == ["restart"]


async def test_a_channel_where_nobody_listens(practice: Practice) -> None:
    practice.slack.add_channel("C0RANDOM", "random")
    before = len(practice.slack.ephemerals(BOB))
    outcome = await practice.slack.slash(BOB, "C0RANDOM", "status")
    assert outcome.acknowledged
    answers = await practice.until(lambda slack: slack.ephemerals(BOB)[before:])
    assert CHANNEL in answers[-1].plain
    await nothing_happened(practice)


async def test_two_people_at_the_same_moment_start_one_restart(practice: Practice) -> None:
    await asyncio.gather(*(practice.type("restart kimi-k2.5") for _ in range(3)))
    await practice.until(lambda slack: len(slack.ephemerals(ALICE)) >= 3)
    questions = practice.slack.ephemerals(ALICE)[:3]
    pressed = [practice.slack.press(ALICE, CHANNEL, q.ts, "kimi:confirm") for q in questions]
    await asyncio.gather(*pressed)
    await practice.until(lambda _: practice.roots())
    assert (await practice.verdict()).verdict == "healthy"
    assert practice.orders() == ["restart"]
    assert len(practice.roots()) == 1

"""Samples and stacks as they come from the hosts of a startup."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import pytest

from bot.core.events import EvidenceSampled, Member, ProcessSeen, Rank, Sample
from bot.core.redact import Redactor
from bot.errors import HostUnreachable
from bot.samples import read_stacks, sample_unit
from bot.sources import Inbox, Link, Piece
from tests.support.carriers import MEMBER, SECRET, UNIT, MemoryHost, backstage

if TYPE_CHECKING:
    from bot.clients.ssh import Host

AT = datetime(2026, 5, 29, 23, 49, tzinfo=UTC)
RANKS = {MEMBER: {Rank("TP10"): 110, Rank("TP9"): 109}}


@pytest.fixture
def host() -> MemoryHost:
    return MemoryHost([])


@pytest.fixture
def link(host: MemoryHost) -> Link:
    return Link(MEMBER, UNIT, "system", cast("Host", host))


async def test_a_sample_is_a_fact_on_the_queue(host: MemoryHost, link: Link) -> None:
    inbox: Inbox = asyncio.Queue()
    await sample_unit(link, inbox, at=AT, model="/models/kimi")
    sample = Sample(AT, invocation=host.units[UNIT].invocation)
    assert inbox.get_nowait() == Piece((EvidenceSampled(MEMBER, sample),))
    assert host.samples == [(UNIT, "system", "/models/kimi")]


async def test_a_host_that_is_gone_says_nothing_here(host: MemoryHost, link: Link) -> None:
    host.show_error = HostUnreachable("llm-two", "llm-two: no connection")
    inbox: Inbox = asyncio.Queue()
    await sample_unit(link, inbox, at=AT, model=None)
    assert inbox.empty()


async def test_stacks_stand_in_the_order_of_ranks_and_masked(host: MemoryHost, link: Link) -> None:
    host.stacks = {109: f"nine {SECRET}\n", 110: "ten\n"}
    told = await read_stacks({MEMBER: link}, RANKS, redactor=Redactor([SECRET]))
    assert told is not None
    text, ranks = told
    assert ranks == 2
    assert text.index("=== TP9 on llm-two, process 109") < text.index("=== TP10 on llm-two, process 110")
    assert SECRET not in text


async def test_where_no_host_gives_any_there_is_no_file(link: Link) -> None:
    assert await read_stacks({MEMBER: link}, RANKS, redactor=Redactor()) is None


async def test_a_host_that_is_gone_hides_no_stacks_of_the_others(host: MemoryHost, link: Link) -> None:
    host.stack_error = HostUnreachable("llm-two", "llm-two: no connection")
    other = Member("llm-three/sglang.service")
    near = MemoryHost([], stacks={209: "nine\n"})
    links = {MEMBER: link, other: Link(other, UNIT, "system", cast("Host", near))}
    told = await read_stacks(links, RANKS | {other: {Rank("TP9"): 209}}, redactor=Redactor())
    assert told is not None
    assert told[1] == 1
    assert "process 209\n\nnine" in told[0]


@pytest.mark.looptime
async def test_a_stall_brings_the_stacks_of_its_ranks() -> None:
    async with backstage() as stage:
        stage.probe.answer = type(stage.probe.answer)(error="connection refused")
        stage.host.processes = (ProcessSeen(109, "sglang::scheduler_TP9", Rank("TP9")),)
        stage.host.stacks = {109: "capture (runner.py:1)\n"}
        running = await stage.begin()
        await stage.until(
            lambda: any(b"capture (runner.py:1)" in each for each in stage.store.files.values())
        )
        assert running.startup.verdict is None

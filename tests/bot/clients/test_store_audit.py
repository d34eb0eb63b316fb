"""The audit: newest first, of one service or all, bounded, and read over what is unreadable."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bot.clients.records import AuditEntry
from bot.clients.redis_link import RedisLink
from bot.clients.store_audit import AUDITS, Audits
from bot.core.events import ServiceName
from tests.support.outgoing import CHANNEL, PERSON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NOW = datetime.now(UTC)
EVEN, ODD = ServiceName("even"), ServiceName("odd")


@pytest_asyncio.fixture
async def link(redis_url: str) -> AsyncIterator[RedisLink]:
    link = RedisLink(redis_url)
    yield link
    await link.close()


@pytest.fixture
def audits(link: RedisLink) -> Audits:
    return Audits(link)


def entry(number: int) -> AuditEntry:
    return AuditEntry(
        at=NOW,
        user=PERSON,
        channel=CHANNEL,
        verb="restart",
        service=ODD if number % 2 else EVEN,
        reason=str(number),
        outcome="started",
    )


async def test_the_newest_come_first(audits: Audits) -> None:
    for number in range(6):
        await audits.write(entry(number))
    assert await audits.read(2) == [entry(5), entry(4)]
    assert await audits.read(2, EVEN) == [entry(4), entry(2)]
    assert await audits.read(100, ODD) == [entry(5), entry(3), entry(1)]
    assert await audits.read(10, ServiceName("another")) == []


async def test_of_a_time_no_more_is_read_than_that(audits: Audits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.clients.store_audit._PAGE", 2)
    times = [NOW - timedelta(hours=9 - number) for number in range(10)]
    for number, at in enumerate(times):
        await audits.write(entry(number).model_copy(update={"at": at}))
    found = await audits.read(100, since=times[5], until=times[7])
    assert [each.reason for each in found] == ["7", "6", "5"]
    assert [each.reason for each in await audits.read(100, EVEN, since=times[5])] == ["8", "6"]
    assert [each.reason for each in await audits.read(100, until=times[0])] == ["0"]


async def test_more_than_one_page_is_read(audits: Audits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.clients.store_audit._PAGE", 3)
    for number in range(9):
        await audits.write(entry(number))
    assert await audits.read(100) == [entry(number) for number in range(8, -1, -1)]
    assert await audits.read(3, EVEN) == [entry(8), entry(6), entry(4)]


async def test_the_oldest_go_beyond_the_bound(
    audits: Audits, link: RedisLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.clients.store_audit.MOST", 100)
    for number in range(500):
        await audits.write(entry(number))
    assert 100 <= await link.ask(link.redis.xlen(AUDITS)) <= 250  # Redis drops whole nodes of 100
    assert (await audits.read(1))[0] == entry(499)


async def test_what_is_too_old_goes(audits: Audits) -> None:
    await audits.write(entry(1))
    await audits.prune(datetime.now(UTC).timestamp() - 60)
    assert await audits.read(5) == [entry(1)]
    await audits.prune(datetime.now(UTC).timestamp() + 60)
    assert await audits.read(5) == []


async def test_an_unreadable_entry_is_set_aside(audits: Audits, link: RedisLink) -> None:
    await audits.write(entry(1))
    await link.ask(link.redis.xadd(AUDITS, {"id": "x", "entry": "rubbish"}))
    assert await audits.read(5) == [entry(1)]
    assert await audits.read(5) == [entry(1)]
    assert [aside.raw for aside in await link.unreadable()] == ["rubbish"]

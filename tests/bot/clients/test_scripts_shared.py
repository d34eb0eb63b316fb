"""The scripts that all processes share: one key each, or keys of one hash tag; each may run twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from bot.clients.redis_link import RedisLink
from bot.clients.scripts_shared import ADOPT, AUDIT, INTEND, LANE, MARK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEYS = ["kimi:{intents}:open", "kimi:{intents}:once:t"]
RECORD = '{"owner": "me", "words": "restart kimi"}'


@pytest_asyncio.fixture
async def link(redis_url: str) -> AsyncIterator[RedisLink]:
    link = RedisLink(redis_url)
    yield link
    await link.close()


async def test_an_intent_that_runs_twice_is_the_first_still(link: RedisLink) -> None:
    assert [await link.run(INTEND, KEYS, "t", "call 1", 60, RECORD) for _ in range(2)] == [[1], [1]]
    both, again = [*KEYS, "kimi:{intents}:once:u"], ("t", "call 2", 60, RECORD)
    assert await link.run(INTEND, both, *again, "u", "call 3", 60, RECORD) == [0, 1]
    assert await link.ask(link.redis.hlen(KEYS[0])) == 2


async def test_an_unreadable_intent_is_nobody_s(link: RedisLink) -> None:
    await link.ask(link.redis.hset(KEYS[0], "t", "rubbish"))
    assert await link.run(ADOPT, KEYS[:1], "t", "me", "you", RECORD) == 0


async def test_an_entry_that_is_written_twice_stands_once(link: RedisLink) -> None:
    answers = [await link.run(AUDIT, ["a"], name, "entry", 10) for name in ("1", "1", "2", "1")]
    assert answers == [b"kept", b"known", b"kept", b"known"]
    assert await link.ask(link.redis.xlen("a")) == 2


async def test_a_lane_rests_after_its_burst(link: RedisLink) -> None:
    answers = [await link.run(LANE, ["lane"], 60_000_000, 3) for _ in range(5)]
    assert answers[:3] == [0, 0, 0]
    assert all(59_000_000 < answer <= 60_000_000 for answer in answers[3:])
    assert 0 < await link.ask(link.redis.pttl("lane")) <= 180_001


async def test_a_clock_that_was_set_back_stops_no_lane(link: RedisLink) -> None:
    """Another server took over, and its clock is an hour behind."""
    seconds, _ = await link.ask(link.redis.time())
    await link.ask(link.redis.set("lane", (seconds + 3600) * 1_000_000))
    assert 0 < await link.run(LANE, ["lane"], 1_000_000, 2) <= 1_000_000


async def test_a_mark_is_set_once(link: RedisLink) -> None:
    assert [await link.run(MARK, ["mark"], name) for name in ("a", "b")] == [b"a", b"a"]

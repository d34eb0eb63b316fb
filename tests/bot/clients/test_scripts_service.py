"""The scripts of a service: each may run twice with the same end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from bot.clients.redis_link import RedisLink, service_key
from bot.clients.scripts_service import PAST, RELEASE, SETTLE, TAKE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LOCK = service_key("kimi", "lock")
HISTORY = [service_key("kimi", "history"), service_key("kimi", "past")]
MINE = '{"operation": "op1"}'


@pytest_asyncio.fixture
async def link(redis_url: str) -> AsyncIterator[RedisLink]:
    link = RedisLink(redis_url)
    yield link
    await link.close()


async def test_a_lock_is_taken_and_released_twice(link: RedisLink) -> None:
    assert [await link.run(TAKE, [LOCK], MINE, "op1") for _ in range(2)] == [b"", b""]
    assert await link.run(TAKE, [LOCK], '{"operation": "op2"}', "op2") == MINE.encode()
    assert [await link.run(RELEASE, [LOCK], "op1") for _ in range(2)] == [1, 0]


async def test_settling_twice_keeps_one_and_names_what_goes(link: RedisLink) -> None:
    for number in (1, 2, 2, 3):
        dropped = await link.run(SETTLE, HISTORY, f"op{number}", number, f"account {number}", 2)
        assert dropped == ([b"op1"] if number == 3 else [])
    assert await link.run(PAST, HISTORY, 5) == [[b"op3", b"account 3"], [b"op2", b"account 2"]]

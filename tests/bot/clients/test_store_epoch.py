"""A Redis that came back empty, or was exchanged for another, is noticed by every process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest_asyncio

from bot.clients.redis_link import RedisLink
from bot.clients.store_epoch import EPOCH, Epoch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.redis import RedisServer


@pytest_asyncio.fixture
async def link(redis_url: str) -> AsyncIterator[RedisLink]:
    link = RedisLink(redis_url)
    yield link
    await link.close()


async def test_many_processes_agree_on_one_mark(link: RedisLink) -> None:
    epochs = [Epoch(link) for _ in range(10)]
    assert all(await asyncio.gather(*(epoch.check() for epoch in epochs)))
    assert len({epoch.known for epoch in epochs}) == 1


async def test_an_empty_redis_is_noticed_until_it_is_gone_on_with(link: RedisLink) -> None:
    one, other = Epoch(link), Epoch(link)
    assert await one.check()
    assert await other.check()
    await link.ask(link.redis.flushall())
    assert not await one.check()
    assert not await one.check()
    await one.renew()
    assert await one.check()
    assert not await other.check()
    await other.renew()
    assert await other.check()
    assert one.known == other.known == await link.ask(link.redis.get(EPOCH))


async def test_a_restart_is_no_new_epoch(own_redis: RedisServer) -> None:
    link = RedisLink(own_redis.url)
    epoch = Epoch(link)
    assert await epoch.check()
    await own_redis.restart()
    assert await epoch.check()
    await link.close()


async def test_what_was_rebuilt_is_rebuilt_for_all_until_redis_is_emptied_again(link: RedisLink) -> None:
    one, other = Epoch(link), Epoch(link)
    assert not await one.is_rebuilt()
    assert await one.check()
    assert await other.check()
    assert not await one.is_rebuilt()
    await one.settle()
    assert await other.is_rebuilt()
    await link.ask(link.redis.flushall())
    await one.renew()
    assert not await one.is_rebuilt()

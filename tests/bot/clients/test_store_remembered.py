"""Small things that are remembered over all processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from bot.clients.redis_link import RedisLink
from bot.clients.store_remembered import Remembered
from tests.support.outgoing import SERVICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture
async def store(redis_url: str) -> AsyncIterator[Remembered]:
    link = RedisLink(redis_url)
    yield Remembered(link)
    await link.close()


async def test_baselines(store: Remembered) -> None:
    assert await store.baseline(SERVICE) is None
    await store.save_baseline(SERVICE, '{"weights": 120.0}')
    assert await store.baseline(SERVICE) == '{"weights": 120.0}'


async def test_the_setup_of_the_last_healthy_start(store: Remembered) -> None:
    assert await store.setup(SERVICE) is None
    await store.save_setup(SERVICE, '{"at": 1}')
    assert await store.setup(SERVICE) == '{"at": 1}'
    assert await store.baseline(SERVICE) is None

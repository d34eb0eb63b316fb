"""Small things that are remembered over all processes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bot.clients.redis_link import RedisLink, service_key
from bot.clients.store_remembered import Kind, Remembered
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


@pytest.mark.parametrize("kind", ["baseline", "setup"])
async def test_each_has_a_version_and_one_without_is_read_too(store: Remembered, kind: Kind) -> None:
    key = service_key(SERVICE, kind)
    await getattr(store, f"save_{kind}")(SERVICE, '{"weights": 120.0}')
    told = json.loads(await store.link.redis.get(key) or "")
    assert told == {"schema_version": 1, "weights": 120.0}  # which an earlier release reads
    await store.link.redis.set(key, '{"weights": 120.0}')
    assert await getattr(store, kind)(SERVICE) == '{"weights": 120.0}'


@pytest.mark.parametrize("raw", [b"nonsense", b"[]", b'{"schema_version": 2, "at": 1}'])
async def test_what_is_no_record_is_set_aside(store: Remembered, raw: bytes) -> None:
    await store.link.redis.set(service_key(SERVICE, "setup"), raw)
    assert await store.setup(SERVICE) is None
    [found] = await store.link.unreadable()
    assert (found.key, found.raw) == (service_key(SERVICE, "setup"), raw.decode())


async def test_what_nobody_can_make_sense_of_is_set_aside(store: Remembered) -> None:
    await store.give_up(SERVICE, "baseline", "nothing there")
    assert await store.link.unreadable() == []
    await store.save_baseline(SERVICE, '{"samples": 3}')
    await store.give_up(SERVICE, "baseline", "samples: no table")
    assert await store.baseline(SERVICE) is None
    [found] = await store.link.unreadable()
    assert found.error.endswith("baseline: samples: no table")

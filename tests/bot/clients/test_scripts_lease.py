"""The scripts of leases: each may run twice with the same end, and keeps nothing for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bot.clients import scripts_lease
from bot.clients.redis_link import RedisLink, thread_key
from bot.clients.scripts_lease import CLAIM_LEASE, FREE_LEASE, LEASE_PARTS, RENEW_LEASE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEYS = [thread_key("op1", part) for part in LEASE_PARTS]
MINUTE = 60_000
KEEP = 3600


@pytest_asyncio.fixture
async def link(redis_url: str) -> AsyncIterator[RedisLink]:
    link = RedisLink(redis_url)
    yield link
    await link.close()


@pytest.mark.parametrize("name", ["CLAIM_LEASE", "RENEW_LEASE", "FREE_LEASE"])
def test_every_script_names_the_parts_in_order(name: str) -> None:
    first = f"local {', '.join(LEASE_PARTS)} = unpack(KEYS)"
    assert getattr(scripts_lease, name).strip().startswith(first)


async def test_claiming_twice_answers_the_same(link: RedisLink) -> None:
    await link.run(CLAIM_LEASE, KEYS, "former", MINUTE, "", KEEP)
    held = await link.ask(link.redis.get(KEYS[0]))
    assert isinstance(held, bytes)
    answers = [await link.run(CLAIM_LEASE, KEYS, "me", MINUTE, held, KEEP) for _ in range(3)]
    assert answers[0][0] == b"claimed"
    assert answers[0][2:] != [b"", b"1"]
    assert answers[1] == answers[2] == answers[0]


async def test_a_dead_owner_is_named_as_it_was_read(link: RedisLink) -> None:
    """Another process took the lease between the look and the second try."""
    await link.run(CLAIM_LEASE, KEYS, "living", MINUTE, "", KEEP)
    assert (await link.run(CLAIM_LEASE, KEYS, "me", MINUTE, "dead|1", KEEP))[0] == b"held"


async def test_letting_go_twice_is_letting_go(link: RedisLink) -> None:
    _, number, *_ = await link.run(CLAIM_LEASE, KEYS, "me", MINUTE, "", KEEP)
    value = f"me|{number.decode()}"
    assert [await link.run(FREE_LEASE, KEYS, value, number, KEEP) for _ in range(2)] == [b"free"] * 2
    assert await link.run(RENEW_LEASE, KEYS, value, number, MINUTE, KEEP) == b"free"
    assert (await link.run(CLAIM_LEASE, KEYS, "next", MINUTE, "", KEEP))[3] == b"1"
    assert await link.run(FREE_LEASE, KEYS, value, number, KEEP) == b"other"
    assert await link.run(RENEW_LEASE, KEYS, value, number, MINUTE, KEEP) == b"lost"


async def test_the_next_owner_is_not_let_go_in_order_by_the_last(link: RedisLink) -> None:
    _, number, *_ = await link.run(CLAIM_LEASE, KEYS, "first", MINUTE, "", KEEP)
    await link.run(FREE_LEASE, KEYS, f"first|{number.decode()}", number, KEEP, "")
    await link.run(CLAIM_LEASE, KEYS, "second", MINUTE, "", KEEP)
    held = await link.ask(link.redis.get(KEYS[0]))
    assert isinstance(held, bytes)
    assert (await link.run(CLAIM_LEASE, KEYS, "third", MINUTE, held, KEEP))[3] == b"0"


async def test_nothing_stays_for_ever(link: RedisLink) -> None:
    _, number, *_ = await link.run(CLAIM_LEASE, KEYS, "me", MINUTE, "", KEEP)
    for script, *words in (
        (RENEW_LEASE, f"me|{number.decode()}", number, MINUTE, KEEP),
        (FREE_LEASE, f"me|{number.decode()}", number, KEEP, ""),
    ):
        assert all([await link.ask(link.redis.ttl(key)) > 0 for key in KEYS])
        await link.run(script, KEYS, *words)
    assert all([await link.ask(link.redis.ttl(key)) > 0 for key in KEYS[1:]])

"""The link to Redis: keys that share a slot, errors in our words, unreadable records kept."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest
from redis.crc import key_slot

from bot.clients.records import Operation
from bot.clients.redis_link import RedisLink, thread_keys
from bot.errors import ConfigurationInvalid, StoreUnavailable

if TYPE_CHECKING:
    from tests.support.redis import MakeLink, RedisServer


@pytest.mark.parametrize("thread", ["op1", "answer:C1:1.2", "odd}one", "odd{one"])
def test_the_keys_of_a_thread_share_a_slot(thread: str) -> None:
    assert len({key_slot(key.encode()) for key in thread_keys(thread)}) == 1


@pytest.mark.parametrize(
    "url", ["sentinel://:secret@db:26379", "redis://:secret@db/0?db=nothing", "redis://:secret@db/0?what=1"]
)
def test_an_address_that_cannot_be_used_is_a_sentence_without_the_secret(url: str) -> None:
    with pytest.raises(ConfigurationInvalid) as caught:
        RedisLink(url)
    assert "secret" not in str(caught.value)
    assert "KIMI_REDIS_URL" in str(caught.value)


def test_a_certificate_that_cannot_be_read_is_named() -> None:
    for url in ("sentinels://:secret@db/main", "clusters://:secret@db"):
        with pytest.raises(ConfigurationInvalid, match=r"ssl_ca_certs names /none\.pem") as caught:
            RedisLink(f"{url}?ssl_ca_certs=/none.pem")
        assert "secret" not in str(caught.value)


async def test_redis_gone_is_told_with_its_place(make_link: MakeLink) -> None:
    link = make_link("redis://:secret@127.0.0.1:1/0")
    with pytest.raises(StoreUnavailable, match=r"redis://127\.0\.0\.1:1/0"):
        await link.ask(link.redis.get("x"))


async def test_redis_that_came_back_is_used_again(own_redis: RedisServer, make_link: MakeLink) -> None:
    link = make_link(own_redis.url)
    await link.ask(link.redis.set("x", "1"))
    await own_redis.restart()
    assert await link.ask(link.redis.get("x")) == b"1"
    assert await link.run("return redis.call('GET', KEYS[1])", ["x"]) == b"1"
    await own_redis.restart()
    assert await link.run("return redis.call('GET', KEYS[1])", ["x"]) == b"1"


@pytest.mark.looptime
async def test_who_waits_for_a_turn_gives_up_in_time_and_nothing_of_the_command_is_begun(
    make_link: MakeLink,
) -> None:
    link = make_link("redis://127.0.0.1:1/0", connections=1, timeout=0.3)  # what is asked goes nowhere
    begun = asyncio.Event()

    async def hold() -> bool:
        begun.set()
        await asyncio.sleep(0.25)
        return True

    async def never() -> None:
        raise AssertionError("begun without a turn")

    holding = [asyncio.create_task(link.ask(hold())) for _ in range(2)]
    await begun.wait()
    cancelled = asyncio.create_task(link.ask(never()))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    await holding[0]
    with pytest.raises(StoreUnavailable):
        await holding[1]  # its turn came, and there was no time left
    assert await link.ask(hold())


async def test_what_an_acknowledgement_waits_for_stands_behind_nobody(
    redis_url: str, make_link: MakeLink
) -> None:
    link = make_link(redis_url, connections=1)
    release = asyncio.Event()
    holding = [asyncio.create_task(link.ask(release.wait())) for _ in range(50)]
    await asyncio.sleep(0)
    assert await link.ask(link.redis.ping(), first=True)
    assert not any(task.done() for task in holding)
    release.set()
    await asyncio.gather(*holding)


async def test_hundreds_at_once_all_have_their_turn(redis_url: str, make_link: MakeLink) -> None:
    link = make_link(redis_url, connections=2)
    assert all(await asyncio.gather(*(link.ask(link.redis.ping()) for _ in range(500))))
    assert len(link.redis.connection_pool._available_connections) == 2


async def test_a_cancellation_is_never_swallowed(redis_url: str, make_link: MakeLink) -> None:
    """Cancelled just as redis-py has sent the command, its `wait_for` returns as if nothing had happened."""
    link = make_link(redis_url)
    for steps in range(40):
        task = asyncio.create_task(_forever(link))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=60)
        assert done, steps
        assert task.cancelled()


async def test_a_cancellation_beside_an_error_is_never_swallowed(make_link: MakeLink) -> None:
    """The cancellation was taken for a result, and then the answer failed: it is a cancellation still."""
    link = make_link("redis://127.0.0.1:1/0")

    async def command() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        raise ConnectionResetError

    task = asyncio.create_task(link.ask(command()))
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_server_that_hangs_is_left_within_the_time(
    own_redis: RedisServer, make_link: MakeLink
) -> None:
    link = make_link(own_redis.url, timeout=0.3)
    await link.ask(link.redis.set("x", "1"))
    assert await link.describe() == "answers"
    with own_redis.paused():
        async with asyncio.timeout(60):  # much longer than the link may take
            with pytest.raises(StoreUnavailable, match="unix://"):
                await link.run("return redis.call('GET', KEYS[1])", ["x"])
    assert await link.run("return redis.call('GET', KEYS[1])", ["x"]) == b"1"


async def _forever(link: RedisLink) -> None:
    await link.ask(link.redis.set("x", "1"))
    await asyncio.Event().wait()


async def test_an_unreadable_record_is_set_aside(redis_url: str, make_link: MakeLink) -> None:
    link = make_link(redis_url)
    await link.ask(link.redis.set("kimi:x", b"rubbish\xff"))
    assert await link.read(Operation, "kimi:x") is None
    assert await link.ask(link.redis.get("kimi:x")) is None
    (aside,) = await link.unreadable()
    assert (aside.key, aside.raw) == ("kimi:x", "rubbish\\xff")

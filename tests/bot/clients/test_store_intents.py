"""What people asked for: taken up once over all processes, and by another when the first one died."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from bot.clients.records import Intent
from bot.clients.redis_link import RedisLink
from bot.clients.store_intents import INTENTS, Intents
from bot.errors import StoreUnavailable
from tests.support.outgoing import CHANNEL, PERSON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tests.support.redis import RedisServer

NOW = datetime.now(UTC)


@pytest_asyncio.fixture
async def links(redis_url: str) -> AsyncIterator[list[RedisLink]]:
    links = [RedisLink(redis_url) for _ in range(5)]
    yield links
    for link in links:
        await link.close()


@pytest.fixture
def intents(links: list[RedisLink]) -> Intents:
    return Intents(links[0])


def intent(token: str = "t", owner: str = "me", **changes: object) -> Intent:
    record = Intent(token=token, owner=owner, at=NOW, user=PERSON, channel=CHANNEL, words="restart kimi")
    return record.model_copy(update=changes)


async def test_one_of_many_may_act(links: list[RedisLink]) -> None:
    asked = intent()
    clients = [Intents(link) for link in links]
    answers = await asyncio.gather(*(client.intend(asked, 60) for client in clients for _ in range(10)))
    assert answers.count(True) == 1
    assert await clients[0].open() == [asked]


async def test_each_token_is_its_own(intents: Intents) -> None:
    older = intent("a", at=NOW - timedelta(seconds=5))
    assert await intents.intend(intent("b"), 60)
    assert await intents.intend(older, 60)
    assert await intents.open() == [older, intent("b")]


async def test_a_crowd_costs_a_few_calls(
    intents: Intents, links: list[RedisLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    run = links[0].run

    async def count(script: str, keys: Sequence[str], *words: Any, first: bool) -> Any:
        assert first  # not behind what nobody waits for
        sizes.append(len(keys) - 1)
        return await run(script, keys, *words, first=first)

    monkeypatch.setattr(links[0], "run", count)
    tokens = [f"t{number % 200}" for number in range(250)]
    answers = await asyncio.gather(*(intents.intend(intent(token), 60) for token in tokens))
    assert answers.count(True) == 200
    assert sizes == [1, 100, 100, 49]
    assert len(await intents.open()) == 200


async def test_a_call_that_hangs_keeps_no_later_one(
    intents: Intents, links: list[RedisLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, hung = links[0].run, asyncio.Event()

    async def hang(script: str, keys: Sequence[str], *words: Any, **named: Any) -> Any:
        if not hung.is_set():
            hung.set()
            await asyncio.Event().wait()
        return await run(script, keys, *words, **named)

    monkeypatch.setattr(links[0], "run", hang)
    first = asyncio.create_task(intents.intend(intent("a"), 60))
    await hung.wait()
    gone = asyncio.create_task(intents.intend(intent("b"), 60))
    await asyncio.sleep(0)
    gone.cancel()
    assert await intents.intend(intent("c"), 60)
    assert [kept.token for kept in await intents.open()] == ["c"]
    await intents.close()
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_each_of_a_crowd_hears_that_redis_is_gone(own_redis: RedisServer) -> None:
    link = RedisLink(own_redis.url, timeout=0.2)
    intents = Intents(link)
    own_redis.kill()
    asked = (intents.intend(intent(f"t{number}"), 60) for number in range(20))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(answer) for answer in answers} == {StoreUnavailable}
    await link.close()


async def test_words_that_cannot_be_written_down_spoil_nobody_else_s(intents: Intents) -> None:
    asked = [
        intents.intend(intent(token, words=words), 60) for token, words in (("a", "\ud83d"), ("b", "status"))
    ]
    async with asyncio.timeout(60):
        spoilt, kept = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(spoilt, ValueError)
    assert kept is True


async def test_what_is_answered_is_not_taken_up_again(intents: Intents) -> None:
    await intents.intend(intent(), 60)
    await intents.settle("t")
    await intents.settle("t")
    assert await intents.open() == []
    assert not await intents.intend(intent(), 60)
    assert await intents.open() == []
    assert not await intents.adopt(intent(), "other")


@pytest.mark.parametrize("how", ["answer lost", "cancelled"])
async def test_the_same_caller_s_second_try_is_the_first(
    intents: Intents, links: list[RedisLink], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    run, asked = links[0].run, intent()

    async def deaf(*arguments: Any, **named: Any) -> object:
        await run(*arguments, **named)
        raise StoreUnavailable("the answer was lost") if how == "answer lost" else asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(links[0], "run", deaf)
        with pytest.raises((StoreUnavailable, asyncio.CancelledError)):
            await intents.intend(asked, 60)
    assert not await Intents(links[1]).intend(asked, 60)
    assert await intents.intend(asked, 60)
    assert not await intents.intend(asked, 60)


async def test_a_second_delivery_is_not_the_second_try(
    intents: Intents, links: list[RedisLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack sent it again while the first try hung: that is another caller, though the same process."""
    run = links[0].run

    async def deaf(*arguments: Any, **named: Any) -> object:
        await run(*arguments, **named)
        raise StoreUnavailable("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(links[0], "run", deaf)
        with pytest.raises(StoreUnavailable):
            await intents.intend(intent(), 60)
    assert not await intents.intend(intent(), 60)


async def test_lost_answers_are_not_remembered_for_ever(own_redis: RedisServer) -> None:
    link = RedisLink(own_redis.url, timeout=0.2)
    intents = Intents(link)
    intents._asked = {f"old {number}": (intent(), "call") for number in range(1000)}
    own_redis.kill()
    with pytest.raises(StoreUnavailable):
        await intents.intend(intent(), 60)
    assert len(intents._asked) == 1000
    assert "old 0" not in intents._asked
    await link.close()


async def test_a_dead_process_s_intent_is_adopted_once(links: list[RedisLink]) -> None:
    clients = [Intents(link) for link in links]
    await clients[0].intend(intent(owner="dead"), 60)
    (found,) = await clients[1].open()
    answers = await asyncio.gather(
        *(client.adopt(found, f"owner {number}") for number, client in enumerate(clients))
    )
    assert answers.count(True) == 1
    (now,) = await clients[0].open()
    assert now == intent(owner=f"owner {answers.index(True)}")


async def test_an_unreadable_intent_is_set_aside(intents: Intents, links: list[RedisLink]) -> None:
    await intents.intend(intent(), 60)
    await links[0].ask(links[0].redis.hset(INTENTS, "x", "rubbish"))
    assert await intents.open() == [intent()]
    assert await intents.open() == [intent()]
    assert [aside.raw for aside in await links[0].unreadable()] == ["rubbish"]


async def test_an_intent_survives_a_killed_redis(own_redis: RedisServer) -> None:
    link = RedisLink(own_redis.url)
    assert await Intents(link).intend(intent(), 60)
    await own_redis.restart()
    assert not await Intents(link).intend(intent(), 60)
    assert await Intents(link).open() == [intent()]
    await link.close()

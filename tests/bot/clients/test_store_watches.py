"""What a host's watch remembers is written by its owner alone; words to it are taken once."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from bot.clients.redis_link import thread_key
from bot.clients.store import Store
from bot.clients.store_watches import MARK_FOR, Owed, Watched, Watches, Word, lease_name
from bot.core.events import HostName, ServiceName
from bot.errors import OwnershipLost, StoreEmptied, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bot.clients.leases import Lease
    from tests.support.redis import OpenStore

HOST, SERVICE = HostName("llm-two"), ServiceName("kimi-k2.5")
WATCHED = Watched(state='{"standing": "serving"}', owed=(Owed(id="o1", kind="TellStopped", body="{}"),))


@pytest_asyncio.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    store = await Store.open(redis_url, owner="me", lease_seconds=60)
    yield store
    await store.close()


async def claim(store: Store) -> Lease:
    lease = await store.leases.claim(lease_name(HOST))
    assert lease is not None
    return lease


async def test_what_is_written_is_read_by_the_next_process(store: Store) -> None:
    watches, lease = Watches(store.link), await claim(store)
    assert await watches.read(HOST, SERVICE) is None
    await watches.write(lease, SERVICE, WATCHED)
    await watches.write(lease, None, Watched(state="{}"))
    assert await Watches(store.link).read(HOST, SERVICE) == WATCHED
    assert await Watches(store.link).read(HOST, None) == Watched(state="{}")


async def test_what_is_watched_stands_there_for_a_while(store: Store) -> None:
    watches = Watches(store.link)
    assert await watches.marked(HOST) is None
    await watches.mark(HOST, [SERVICE])
    assert await Watches(store.link).marked(HOST) == frozenset({str(SERVICE)})
    key = thread_key(lease_name(HOST), "watched")
    assert 0 < await store.link.ask(store.link.redis.ttl(key)) <= MARK_FOR


async def test_without_the_lease_nothing_is_written(
    store: Store, redis_url: str, open_store: OpenStore
) -> None:
    watches, lease = Watches(store.link), await claim(store)
    await store.leases.let_go(lease)
    other = await open_store(redis_url, owner="other", lease_seconds=60)
    await claim(other)
    with pytest.raises(OwnershipLost):
        await watches.write(lease, SERVICE, WATCHED)
    assert await watches.read(HOST, SERVICE) is None


async def test_a_redis_that_came_back_empty_is_told_apart(store: Store) -> None:
    watches, lease = Watches(store.link), await claim(store)
    await store.link.ask(store.link.redis.flushall())
    with pytest.raises(StoreEmptied):
        await watches.write(lease, SERVICE, WATCHED)


async def test_words_wait_until_the_state_that_holds_them_is_written(store: Store) -> None:
    watches, lease = Watches(store.link), await claim(store)
    first = Word(id="w1", service=SERVICE, kind="Unmuted", body="{}")
    second = Word(id="w2", service=SERVICE, kind="Unmuted", body="{}")
    for word in (first, second, first):
        await watches.say(HOST, word)
    assert await watches.words(HOST) == [first, second]
    assert await watches.words(HOST) == [first, second]
    await watches.write(lease, SERVICE, WATCHED, heard=["w1"])
    assert await watches.words(HOST) == [second]
    await watches.say(HOST, first)
    assert await watches.words(HOST) == [second]


async def test_a_save_that_comes_late_undoes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer did not come in time; Redis carries it out once another one has been written."""
    watches, lease = Watches(store.link), await claim(store)
    word = Word(id="w1", service=SERVICE, kind="Unmuted", body="{}")
    await watches.say(HOST, word)
    sent: list[tuple[Any, ...]] = []
    run = store.link.run

    async def lose(*call: Any) -> None:
        sent.append(call)
        raise StoreUnavailable("no answer in time")

    monkeypatch.setattr(store.link, "run", lose)
    with pytest.raises(StoreUnavailable):
        await watches.write(lease, SERVICE, Watched(state="{}"), heard=["w1"])
    monkeypatch.setattr(store.link, "run", run)
    await watches.write(lease, None, WATCHED)
    await watches.write(lease, SERVICE, WATCHED)
    [late] = sent
    assert await run(*late) == b"late"
    assert await watches.read(HOST, SERVICE) == WATCHED
    assert await watches.words(HOST) == [word]


async def test_the_numbers_of_saves_are_those_of_one_owner(
    store: Store, redis_url: str, open_store: OpenStore
) -> None:
    """The clock of the next one may be behind."""
    watches, lease = Watches(store.link), await claim(store)
    await watches.write(lease, SERVICE, Watched(state="{}"))
    await store.leases.let_go(lease)
    other = await open_store(redis_url, owner="other", lease_seconds=60)
    theirs = Watches(other.link)
    theirs._saves = itertools.count(1)
    await theirs.write(await claim(other), SERVICE, WATCHED)
    assert await watches.read(HOST, SERVICE) == WATCHED


async def test_a_word_of_another_shape_is_set_aside(store: Store) -> None:
    watches = Watches(store.link)
    key = thread_key(lease_name(HOST), "words")
    await store.link.ask(store.link.redis.rpush(key, b"what is this"))
    assert await watches.words(HOST) == []
    [aside] = await store.unreadable()
    assert aside.raw == "what is this"
    assert await store.link.ask(store.link.redis.llen(key)) == 0


async def test_that_a_word_was_said_is_remembered_for_a_while_and_not_for_ever(store: Store) -> None:
    watches = Watches(store.link)
    for name in ("w1", "w2", "w1"):
        await watches.say(HOST, Word(id=name, service=SERVICE, kind="Muted", body="{}"))
    assert [word.id for word in await watches.words(HOST)] == ["w1", "w2"]
    keys = await store.link.ask(store.link.redis.keys("*"))
    ttls = {key: await store.link.ask(store.link.redis.ttl(key)) for key in keys if b"{monitor/" in key}
    assert len(ttls) == 3
    assert min(ttls.values()) > 0

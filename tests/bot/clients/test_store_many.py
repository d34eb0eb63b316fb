"""The whole store on what sentinels watch and on a Cluster, where each tag has a slot of its own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bot.clients.records import Address, AuditEntry, Intent, Mail
from bot.clients.store import Store
from bot.core.events import MessageTs, OperationId
from bot.errors import OwnershipLost, StoreEmptied, StoreUnavailable
from tests.support.outgoing import BEGAN, CHANNEL, PERSON, SERVICE, holder, operation, reply, root

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bot.clients.leases import Lease
    from tests.support.redis import OpenStore
    from tests.support.redis_many import RedisCluster, SentinelGroup

NOW = datetime.now(UTC)
PLACE = Address(channel=CHANNEL, ts=MessageTs("1.2"))


@pytest.fixture(params=["sentinels", "redis_cluster"])
def url(request: pytest.FixtureRequest) -> str:
    servers: SentinelGroup | RedisCluster = request.getfixturevalue(request.param)
    return servers.url


@pytest_asyncio.fixture
async def stores(url: str) -> AsyncIterator[tuple[Store, Store]]:
    stores = [await Store.open(url, owner=f"process {number}", lease_seconds=60) for number in range(2)]
    yield stores[0], stores[1]
    for store in stores:
        await store.close()


async def test_a_life_of_operations_in_many_slots(stores: tuple[Store, Store]) -> None:
    store, other = stores
    names = [f"op{number}" for number in range(12)]
    for name in names:
        lease = await store.leases.claim(name)
        assert lease is not None
        assert await other.leases.claim(name) is None
        assert (await store.take(holder(name)) is None) == (name == "op0")
        assert await store.create(operation(name), [root(thread=name), reply(1, thread="news")], lease=lease)
        mail = Mail(id="m", kind="unwatch", by=PERSON, at=NOW)
        assert await other.mail(OperationId(name), mail)
        assert await store.inbox(OperationId(name)) == [mail]
        await store.save(operation(name), [reply(2, thread=name)], lease=lease, read=1)
        assert await store.inbox(OperationId(name)) == []
    assert len(await other.open_operations()) == 12
    assert await other.queue.pending() == 12 * 2 + 1
    await store.leases.renew()
    await store.close()
    for number, name in enumerate(names):
        lease = await other.leases.claim(name)
        assert lease is not None
        assert lease.clean
        closed = NOW + timedelta(seconds=number)
        await other.finish(operation(name, closed=closed, verdict="healthy"), lease=lease)
    assert [past.operation for past in await other.past(SERVICE, 2)] == ["op11", "op10"]
    assert await other.open_operations() == []
    assert await other.holder(SERVICE) is None
    await other.prune(NOW + timedelta(days=91))
    assert await other.past(SERVICE, 20) == []


async def test_what_is_shared(stores: tuple[Store, Store]) -> None:
    store, other = stores
    for number in range(5):
        intent = Intent(token=f"t{number}", owner="dead", at=NOW, user=PERSON)
        assert sorted(await asyncio.gather(store.intend(intent, 60), other.intend(intent, 60))) == [0, 1]
        assert await other.adopt_intent(intent, "process 1")
        assert not await store.adopt_intent(intent, "process 0")
        await other.settle_intent(f"t{number}")
        waits = [await each.queue.take_token(f"lane {number}", interval=60, burst=1) for each in stores]
        assert (waits[0], waits[1] > 0) == (0.0, True)
        await store.audit(AuditEntry(at=NOW, verb="restart", outcome=str(number)))
    assert await other.intents() == []
    assert [entry.outcome for entry in await other.audits(2)] == ["4", "3"]
    for each in stores:
        await each.leases.renew()
    assert await store.leases.processes() == ["process 0", "process 1"]


async def test_lost_and_written_down_again(stores: tuple[Store, Store], empty: Callable[[], object]) -> None:
    store, other = stores
    lease = await store.leases.claim("op1")
    assert lease is not None
    await store.save(operation(), [root()], lease=lease)
    empty()
    assert not await store.check_epoch()
    with pytest.raises(StoreEmptied):
        await store.save(operation(), lease=lease)
    await store.renew_epoch()
    lease = await store.leases.claim("op1")
    assert lease is not None
    await store.rebuild(operation(), lease=lease, address=PLACE, known=["op1:root"], holder=holder())
    assert await other.open_operations() == [operation()]
    assert await other.operation_at(CHANNEL, MessageTs("1.2")) == "op1"
    assert not await other.check_epoch()


@pytest.fixture
def empty(request: pytest.FixtureRequest, url: str) -> Callable[[], object]:
    if url.startswith("cluster"):
        cluster: RedisCluster = request.getfixturevalue("redis_cluster")
        return cluster.empty
    sentinels: SentinelGroup = request.getfixturevalue("sentinels")
    flush: Callable[[], object] = sentinels.master().line.flushall
    return flush


async def saved(store: Store, lease: Lease) -> bool:
    """False while nobody answers."""
    try:
        await store.save(operation(headline="after"), [reply(1)], lease=lease)
    except StoreEmptied:
        raise
    except StoreUnavailable:
        return False
    return True


async def test_a_lease_outlives_a_fail_over(own_sentinels: SentinelGroup, open_store: OpenStore) -> None:
    """The number is on the replica before anything is written with it."""
    store = await open_store(own_sentinels.url, owner="owner", lease_seconds=60)
    other = await open_store(own_sentinels.url, owner="other", lease_seconds=60)
    lease = await store.leases.claim("op1")
    assert lease is not None
    await store.save(operation(), [root()], lease=lease)
    former = own_sentinels.master()
    former.kill()
    await own_sentinels.change(former)
    async with asyncio.timeout(60):
        while not await saved(store, lease):
            pass
    assert await store.check_epoch()
    assert await other.leases.claim("op1") is None
    await store.leases.renew()
    assert store.leases.holds(lease)
    await store.leases.let_go(lease)
    after = await other.leases.claim("op1")
    assert after is not None
    assert after.number > lease.number
    assert after.clean
    with pytest.raises(OwnershipLost):
        await store.save(operation(), lease=lease)
    found = await other.operation(OperationId("op1"))
    assert found is not None
    assert (found.headline, found.began) == ("after", BEGAN)

"""The store does the same on one server, on what sentinels watch, and on a Cluster."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bot.clients.records import Address, AuditEntry, Intent, Mail, Parked
from bot.clients.redis_link import thread_key
from bot.clients.store import Store
from bot.clients.store_queue import new_attempt
from bot.core.events import MessageTs, OperationId, UserId
from bot.errors import OwnershipLost, StoreEmptied
from tests.support.outgoing import CHANNEL, PERSON, SERVICE, edit, holder, operation, reply, root, upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KINDS = ["redis_url", "sentinels", "redis_cluster"]
NOW = datetime(2026, 5, 30, 1, 0, tzinfo=UTC)
PLACE = Address(channel=CHANNEL, ts=MessageTs("1.2"))


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest) -> str:
    made = request.getfixturevalue(request.param)
    return made if isinstance(made, str) else str(made.url)


@pytest_asyncio.fixture
async def store(url: str) -> AsyncIterator[Store]:
    store = await Store.open(url, owner="first")
    yield store
    await store.close()


@pytest_asyncio.fixture
async def other(url: str) -> AsyncIterator[Store]:
    """Of another process."""
    store = await Store.open(url, owner="second")
    yield store
    await store.close()


async def test_an_operation_from_lock_to_history(store: Store, other: Store) -> None:
    assert await store.take(holder()) is None
    held = await other.take(holder("op2"))
    assert held is not None
    assert held.operation == "op1"
    await store.save(operation(), [root(), reply(1), upload(1)], {upload(1).id: b"bytes" * 100})
    await store.save(operation("op2", began=NOW))
    assert [each.operation for each in await other.open_operations()] == ["op1", "op2"]
    await store.finish(operation(closed=NOW, verdict="healthy"), [reply(2), edit("healthy")])
    assert [each.verdict for each in await other.history(SERVICE, 5)] == ["healthy"]
    assert [each.operation for each in await other.past(SERVICE, 5)] == ["op1"]
    assert [each.operation for each in await other.open_operations()] == ["op2"]
    assert await other.take(holder("op2")) is None
    assert await other.queue.file(upload(1)) == b"bytes" * 100


async def test_messages_of_many_threads_are_claimed_sent_and_parked(store: Store, other: Store) -> None:
    threads = [f"op{number}" for number in range(20)]
    await store.enqueue(
        [message for name in threads for message in (root(thread=name), reply(1, thread=name))]
    )
    assert sorted(await other.queue.threads()) == sorted(threads)
    assert await other.queue.pending() == 40
    for name in threads:
        claim = await store.queue.claim(name, "first", 30)
        assert claim is not None
        assert claim.head_id == root(thread=name).id
        assert await other.queue.claim(name, "second", 30) is None
        assert claim.head is not None
        await store.queue.attempt(name, "first", new_attempt(claim.head))
        await store.queue.accept(claim, "first", PLACE)
        with pytest.raises(OwnershipLost):
            await other.queue.renew(name, "second", 30)
        await store.queue.let_go(name, "first")
    claim = await other.queue.claim("op3", "second", 30)
    assert claim is not None
    assert (claim.head_id, claim.address) == (reply(1, thread="op3").id, PLACE)
    parked = Parked(outgoing=reply(1, thread="op3"), method="chat.postMessage", code="is_archived", at=NOW)
    await other.queue.park(claim, "second", parked)
    assert [each.outgoing.id for each in await store.parked()] == [reply(1, thread="op3").id]
    assert await store.queue.thread_at(CHANNEL, "1.2") == "op19"
    await store.queue.link_address("op3", "https://slack.example/p1")
    address = await other.address("op3")
    assert address is not None
    assert address.permalink == "https://slack.example/p1"


async def test_an_owner_that_lost_its_lease_writes_nothing(store: Store, other: Store) -> None:
    lease = await store.leases.claim("op1")
    assert lease is not None
    await store.save(operation(), [root()], lease=lease)
    assert await other.leases.claim("op1") is None
    await store.leases.let_go(lease)
    taken = await other.leases.claim("op1")
    assert taken is not None
    assert taken.number > lease.number
    assert (taken.clean, taken.away is not None) == (True, True)
    with pytest.raises(OwnershipLost):
        await store.save(operation(headline="late"), [reply(1)], lease=lease)
    saved = await other.operation(OperationId("op1"))
    assert saved is not None
    assert saved.headline != "late"
    assert await other.queue.pending() == 1
    await asyncio.gather(store.leases.renew(), other.leases.renew())
    assert await store.leases.processes() == ["first", "second"]
    assert not await store.create(operation(headline="again"), [root()])


async def test_mail_intents_and_audit(store: Store, other: Store) -> None:
    lease = await store.leases.claim("op1")
    await store.save(operation(), [root()], lease=lease)
    mail = Mail(id="m1", kind="wait", by=PERSON, until=NOW, at=NOW)
    assert await other.mail(OperationId("op1"), mail)
    assert await other.mail(OperationId("op1"), mail)
    assert await store.inbox(OperationId("op1")) == [mail]
    await store.save(operation(), lease=lease, read=1)
    assert await store.inbox(OperationId("op1")) == []
    intent = Intent(token="t1", owner="first", at=NOW, user=PERSON, channel=CHANNEL, words="restart")
    assert await store.intend(intent, 60)
    assert not await other.intend(intent.model_copy(update={"owner": "second"}), 60)
    assert await other.adopt_intent(intent, "second")
    await other.settle_intent("t1")
    assert await store.intents() == []
    entry = AuditEntry(
        at=NOW, user=UserId("U1"), channel=CHANNEL, verb="restart", service=SERVICE, outcome="done"
    )
    await store.audit(entry)
    assert await other.audits(5, SERVICE) == [entry]


async def test_small_things(store: Store, other: Store) -> None:
    await store.save_baseline(SERVICE, "{}")
    await store.save_setup(SERVICE, '{"a": 1}')
    assert (await other.baseline(SERVICE), await other.setup(SERVICE)) == ("{}", '{"a": 1}')
    waits = [await each.queue.take_token("C1", interval=60, burst=2) for each in (store, other, store)]
    assert waits[:2] == [0, 0]
    assert waits[2] > 0
    await store.ping()
    await store.save(operation(closed=NOW - timedelta(days=365)))
    await store.prune(datetime.now(UTC))
    assert (await store.link.describe()).startswith("answers")


async def test_what_cannot_be_read_is_set_aside(store: Store) -> None:
    await store.save(operation())
    await store.link.ask(store.link.redis.set(thread_key("op1", "operation"), b"rubbish"))
    assert await store.open_operations() == []
    assert [each.raw for each in await store.unreadable()] == ["rubbish"]


async def test_a_redis_that_came_back_empty_is_noticed_and_filled_again(store: Store) -> None:
    lease = await store.leases.claim("op1")
    assert lease is not None
    assert await store.check_epoch()
    await store.link.ask(store.link.redis.flushall())
    assert not await store.check_epoch()
    with pytest.raises(StoreEmptied):
        await store.save(operation(), [root()], lease=lease)
    await store.renew_epoch()
    await store.leases.let_go(lease)
    again = await store.leases.claim("op1")
    assert again is not None
    assert again.number > lease.number
    await store.rebuild(operation(), lease=again, address=PLACE, known=[root().id], holder=holder())
    await store.save(operation(), [root(), reply(1)], lease=again)
    assert await store.queue.pending() == 1, "Slack has the root already"
    held = await store.holder(SERVICE)
    assert held is not None
    assert held.operation == "op1"

"""Incidents in Redis: begun once, written by their owner, told once, found again, dropped in time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from bot.clients.records import Address
from bot.clients.redis_link import service_key, thread_key
from bot.clients.store import Store
from bot.clients.store_incidents import KEPT, Fact, IncidentRecord, IncidentStore
from bot.core.events import ChannelId, HostName, MessageTs, ServiceName
from bot.core.incident_state import IncidentId
from bot.errors import OwnershipLost, StoreUnavailable
from tests.support.outgoing import edit, reply, root

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bot.clients.leases import Lease
    from tests.support.redis import OpenStore

NAME = IncidentId("0123abcd" * 4)
NOW = datetime.now(UTC)


def record(name: IncidentId = NAME, **changes: Any) -> IncidentRecord:
    made = IncidentRecord(
        incident=name,
        subject="kimi-k2.5",
        service=ServiceName("kimi-k2.5"),
        host=HostName("llm-two"),
        channel=ChannelId("C1"),
        opened=NOW,
        plan="{}",
        state="{}",
        severity="down",
    )
    return made.model_copy(update=changes)


@pytest_asyncio.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    store = await Store.open(redis_url, owner="me", lease_seconds=60)
    yield store
    await store.close()


async def claim(store: Store, name: IncidentId = NAME) -> Lease:
    lease = await store.leases.claim(name)
    assert lease is not None
    return lease


async def begin(store: Store, name: IncidentId = NAME) -> tuple[IncidentStore, Lease]:
    incidents, lease = IncidentStore(store.link), await claim(store, name)
    assert await incidents.create(record(name), [root(thread=name)], lease=lease)
    return incidents, lease


async def test_it_begins_once_with_its_root(store: Store) -> None:
    incidents, lease = await begin(store)
    assert not await incidents.create(record(headline="other"), [root(thread=NAME)], lease=lease)
    assert await incidents.create(record(), [root(thread=NAME)], lease=lease)  # the same once more
    assert len(await store.waiting(NAME)) == 1
    assert await incidents.open_names() == [NAME]
    assert await incidents.opened() == [record()]
    assert await store.operation_at(ChannelId("C1"), root(thread=NAME).thread_ts or "") is None  # type: ignore[arg-type]


async def test_state_and_messages_come_together_or_not_at_all(
    store: Store, redis_url: str, open_store: OpenStore
) -> None:
    incidents, lease = await begin(store)
    await incidents.save(record(headline="two"), [reply(1, thread=NAME)], lease=lease)
    await store.leases.let_go(lease)
    other = await open_store(redis_url, owner="other", lease_seconds=60)
    await claim(other)
    with pytest.raises(OwnershipLost):
        await incidents.save(record(headline="three"), [reply(2, thread=NAME)], lease=lease)
    assert await incidents.read(NAME) == record(headline="two")
    assert len(await store.waiting(NAME)) == 2


async def test_a_save_that_comes_late_undoes_no_later_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer was lost with a time-out, and Redis carries it out once the next one was written."""
    incidents, lease = await begin(store)
    execute: Any = store.link.redis.execute_command
    sent: list[tuple[Any, ...]] = []

    async def hold(*words: Any, **options: Any) -> Any:
        if words[0] == "EVALSHA" and not sent:
            sent.append(words)
            raise TimeoutError
        return await execute(*words, **options)

    monkeypatch.setattr(store.link.redis, "execute_command", hold)
    with pytest.raises(StoreUnavailable):
        await incidents.save(record(headline="one"), [edit("one", thread=NAME)], lease=lease)
    await incidents.save(record(headline="two"), [edit("two", thread=NAME)], lease=lease)
    [late] = sent
    assert await execute(*late) == b"pushed"
    assert await incidents.read(NAME) == record(headline="two")
    assert [each.text for each in await store.waiting(NAME) if each.kind == "edit"] == ["two"]


async def test_one_that_slack_alone_still_knows_is_written_anew(store: Store) -> None:
    incidents, lease = IncidentStore(store.link), await claim(store)
    assert not await incidents.is_rebuilt()
    address = Address(channel=ChannelId("C1"), ts=MessageTs("1.2"))
    known = [root(thread=NAME).id, reply(1, thread=NAME).id]
    for _ in range(2):
        await incidents.rebuild(record(), lease=lease, address=address, known=known)
    assert await incidents.opened() == [record()]
    assert await store.address(NAME) == address
    await incidents.save(record(), [reply(1, thread=NAME), reply(2, thread=NAME)], lease=lease)
    assert [each.id for each in await store.waiting(NAME)] == [reply(2, thread=NAME).id]
    await incidents.settle_rebuilt(await incidents.epoch())
    assert await incidents.is_rebuilt()
    await store.leases.let_go(lease)
    with pytest.raises(OwnershipLost):
        await incidents.rebuild(
            record(), lease=replace(lease, number=lease.number - 1), address=address, known=known
        )


async def test_facts_are_told_once_and_wait_until_they_are_in_the_state(store: Store) -> None:
    incidents, lease = await begin(store)
    heard: list[IncidentId] = []
    incidents.subscribe(heard.append)
    first, second = (Fact(id=f"f{number}", kind="Ticked", body="{}") for number in (1, 2))
    assert [await incidents.tell(NAME, fact) for fact in (first, second, first)] == [True] * 3
    assert heard == [NAME] * 3
    assert await incidents.facts(NAME) == [first, second]
    await incidents.save(record(), lease=lease, heard=["f1"])
    assert await incidents.facts(NAME) == [second]


async def test_a_closed_one_hears_nothing_and_is_kept_as_the_past(store: Store) -> None:
    incidents, lease = await begin(store)
    closed = record(closed=NOW, over=NOW)
    await incidents.save(closed, lease=lease)
    assert not await incidents.tell(NAME, Fact(id="f", kind="Ticked", body="{}"))
    assert not await incidents.tell(IncidentId("f" * 32), Fact(id="f", kind="Ticked", body="{}"))
    assert await incidents.open_names() == []
    assert await incidents.past("kimi-k2.5", 5) == [closed]
    assert await incidents.past("other", 5) == []


async def test_the_newest_of_all_that_are_wanted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.clients.store_incidents._PAGE", 2)
    incidents, names = IncidentStore(store.link), [IncidentId(f"{number:032x}") for number in range(6)]
    for number, name in enumerate(names):
        writer, lease = await begin(store, name)  # who begins one writes it
        closed = NOW + timedelta(minutes=number)
        await writer.save(record(name, closed=closed, host=HostName(f"h{number % 2}")), lease=lease)
    found = await incidents.newest(2, lambda each: each.host == "h0")
    assert [each.incident for each in found] == [names[4], names[2]]
    assert len(await incidents.newest(9, lambda _: True)) == 6
    assert await incidents.newest(9, lambda _: False) == []


async def test_it_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    incidents, lease = await begin(store)
    other = IncidentId("0123ffff" * 4)
    await begin(store, other)
    await incidents.save(record(closed=NOW), lease=lease)
    assert {each.incident for each in await incidents.find("0123")} == {NAME, other}
    assert [each.incident for each in await incidents.find("0123ABCD")] == [NAME]
    assert await incidents.find("9") == await incidents.find("") == []


async def test_what_is_too_old_or_too_much_is_dropped(store: Store) -> None:
    incidents, lease = await begin(store)
    await store.link.ask(store.link.redis.delete(thread_key(NAME, "queue")))  # it was sent
    await incidents.save(record(closed=NOW), lease=lease)
    await incidents.prune(NOW)
    assert await incidents.read(NAME) is not None
    await incidents.prune(NOW + KEPT + timedelta(days=1))
    assert await incidents.read(NAME) is None
    assert await incidents.past("kimi-k2.5", 5) == await incidents.find("0123") == []
    other = IncidentId("0123ffff" * 4)
    _, lease = await begin(store, other)
    await incidents.save(record(other, closed=NOW), lease=lease)
    await incidents.prune(NOW, most=0)
    assert await incidents.past("kimi-k2.5", 5) == []


async def test_a_subject_forgets_those_whose_records_are_gone(store: Store) -> None:
    """A closed record goes by itself; nobody who prunes later knows what it was about."""
    old, new = IncidentId("a" * 32), IncidentId("b" * 32)
    for name, closed in ((old, NOW - KEPT), (new, NOW + timedelta(seconds=1))):
        incidents, lease = await begin(store, name)
        await incidents.save(record(name, closed=closed), lease=lease)
    key = service_key("kimi-k2.5", "incidents")
    assert await store.link.ask(store.link.redis.zrange(key, 0, -1)) == [new.encode()]
    assert 0 < await store.link.ask(store.link.redis.ttl(key)) <= KEPT.total_seconds()


async def test_what_was_handed_out_is_remembered_as_long_as_it_waits(store: Store) -> None:
    incidents, lease = await begin(store)
    for name in ("one", "two"):
        await incidents.tell(NAME, Fact(id=name, kind="Acknowledged", body="{}"))
    assert [fact.id for fact in await incidents.facts(NAME)] == ["one", "two"]
    await incidents.save(record(), lease=lease, heard=["one"])
    assert [fact.id for fact in await incidents.facts(NAME)] == ["two"]
    incidents.let_go(NAME)
    assert incidents._handed == {}


async def test_a_name_without_a_record_is_stale_after_a_while(store: Store) -> None:
    incidents = IncidentStore(store.link)
    await incidents.index(record(opened=datetime.now(UTC)))
    assert not await incidents.is_stale(NAME)
    await incidents.index(record(opened=datetime.now(UTC) - timedelta(minutes=5)))
    assert await incidents.is_stale(NAME)
    await incidents.forget_open(NAME)
    assert not await incidents.is_stale(NAME)

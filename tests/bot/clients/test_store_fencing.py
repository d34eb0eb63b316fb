"""Who lost an operation changes nothing of it; after an empty Redis all of it is written down again."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from bot.clients.records import Address
from bot.clients.redis_link import OPEN, thread_key
from bot.clients.store import Store
from bot.core.events import MessageTs, OperationId
from bot.errors import OwnershipLost, StoreEmptied, StoreUnavailable
from tests.support.outgoing import BEGAN, CHANNEL, SERVICE, edit, holder, operation, reply, root, upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from bot.clients.leases import Lease

OP = OperationId("op1")
CLOSED: dict[str, Any] = {"closed": BEGAN + timedelta(minutes=7), "verdict": "healthy"}
PLACE = Address(channel=CHANNEL, ts=MessageTs("1.2"), permalink="https://s/p12")


@pytest_asyncio.fixture
async def stores(redis_url: str) -> AsyncIterator[list[Store]]:
    """Of three processes."""
    stores = [await Store.open(redis_url, owner=f"process {number}", lease_seconds=60) for number in range(3)]
    yield stores
    for store in stores:
        await store.close()


@pytest.fixture
def store(stores: list[Store]) -> Store:
    return stores[0]


@pytest.fixture
def other(stores: list[Store]) -> Store:
    return stores[1]


async def claimed(store: Store, name: str = OP) -> Lease:
    lease = await store.leases.claim(name)
    assert lease is not None
    return lease


async def lapse(store: Store, name: str = OP) -> None:
    """The owner was paused for as long as its lease lasts."""
    await store.link.ask(store.link.redis.delete(thread_key(name, "owner")))


async def everything(store: Store) -> dict[bytes, bytes | None]:
    """All that Redis holds, but for signs of life and the index that is written first."""
    keys = [key async for key in store.link.redis.scan_iter("kimi:*")]
    kept = [key for key in keys if not key.startswith((b"kimi:process", b"kimi:threads", b"kimi:open"))]
    return {key: await store.link.redis.dump(key) for key in kept if not key.endswith((b":seen", b":owner"))}


async def test_a_paused_owner_changes_nothing(store: Store, other: Store) -> None:
    before = await claimed(store)
    await store.save(operation(), [root()], lease=before)
    await lapse(store)
    after = await claimed(other)
    await other.save(operation(headline="the other goes on"), [reply(1)], lease=after)
    held = await everything(store)
    for write in (
        store.save(operation(headline="stale"), [reply(2), edit("stale")], lease=before),
        store.save(operation(headline="stale"), [reply(3, thread="another")], lease=before),
        store.save(operation(headline="stale"), [upload(4)], {"op1:4": b"log"}, lease=before),
        store.finish(operation(**CLOSED), [reply(5)], lease=before),
        store.rebuild(operation(), lease=before, address=PLACE, known=["op1:9"], holder=None),
    ):
        with pytest.raises(OwnershipLost):
            await write
        await store.queue.rest("another")
    # The place index is written before the record: it leads to the operation, and that is still true.
    assert {k: v for k, v in (await everything(store)).items() if not k.startswith(b"kimi:at:")} == held
    await other.save(operation(headline="on and on"), lease=after)


async def test_a_save_that_comes_late_undoes_no_later_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given up after a time-out, it still was on its way: TCP brings it when the network is whole again."""
    lease = await claimed(store)
    await store.create(operation(), [root()], lease=lease)
    sent: list[tuple[Any, ...]] = []
    execute: Any = store.link.redis.execute_command

    async def hold_up(*words: Any, **options: Any) -> Any:
        if words[0] != "EVALSHA" or not words[3:] or str(words[3]) != thread_key(OP, "operation"):
            return await execute(*words, **options)
        sent.append(words)
        raise ConnectionError("nothing came back")

    monkeypatch.setattr(store.link.redis, "execute_command", hold_up)
    with pytest.raises(StoreUnavailable):
        await store.save(operation(headline="loading"), [reply(1), edit("loading")], lease=lease)
    monkeypatch.undo()
    await store.save(operation(headline="warming up"), [reply(1), edit("warming up")], lease=lease)
    await store.finish(operation(**CLOSED), lease=lease)
    [late] = sent
    assert await execute(*late) == b"pushed"
    saved = await store.operation(OP)
    assert saved is not None
    assert saved.closed is not None
    assert [message.text for message in await store.queue.waiting(OP)] == [
        each.text for each in (root(), reply(1), edit("warming up"))
    ]


async def test_the_next_owner_s_saves_count_anew(store: Store, other: Store) -> None:
    lease = await claimed(store)
    await store.create(operation(), lease=lease)
    for number in range(3):
        await store.save(operation(headline=f"{number}"), lease=lease)
    await store.leases.let_go(lease)
    await other.save(operation(headline="next"), lease=await claimed(other))
    saved = await other.operation(OP)
    assert saved is not None
    assert saved.headline == "next"


async def test_a_lapse_that_nobody_used_stops_nobody(store: Store) -> None:
    lease = await claimed(store)
    await store.save(operation(), lease=lease)
    await lapse(store)
    await store.save(operation(headline="on"), lease=lease)
    found = await store.operation(OP)
    assert found is not None
    assert found.headline == "on"


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_happens_only_the_newest_owner_writes(stores: list[Store], seed: int) -> None:
    """Claims, pauses, deaths and saves of three processes in any order, against one plain model."""
    dice = random.Random(seed)  # noqa: S311 - the same order each time
    leases: dict[int, Lease] = {}  # what each process believes
    newest: int | None = None  # which of them Redis gave the highest number
    lapsed, written, numbers = True, "", list[int]()
    for step in range(80):
        who = dice.randrange(3)
        store, headline = stores[who], f"step {step} of {who}"
        match dice.choice(("claim", "claim", "lapse", "save", "save", "save", "let go")):
            case "claim":
                lease = await store.leases.claim(OP)
                assert (lease is not None) == (lapsed or newest == who)
                if lease is not None:
                    if newest != who or lease != leases.get(who):
                        numbers.append(lease.number)
                    leases[who], newest, lapsed = lease, who, False
            case "lapse":
                await lapse(store)
                lapsed = True
            case "let go" if who in leases:
                await store.leases.let_go(leases[who])
                lapsed = lapsed or who == newest
            case "save" if who in leases:
                if who == newest:
                    await store.save(operation(headline=headline), lease=leases[who])
                    written = headline
                else:
                    with pytest.raises(OwnershipLost):
                        await store.save(operation(headline=headline), lease=leases[who])
        found = await store.operation(OP)
        assert (found.headline if found else "") == written
    assert numbers == sorted(set(numbers))
    assert len(numbers) > 2


async def test_of_many_that_write_at_once_only_the_owner_does(stores: list[Store]) -> None:
    first = await claimed(stores[0])
    await lapse(stores[0])
    second = await claimed(stores[1])
    await lapse(stores[1])
    third = await claimed(stores[2])
    leases = (first, second, third)
    saves = [
        store.save(operation(headline=lease.name + str(lease.number)), [reply(n)], lease=lease)
        for n in range(20)
        for store, lease in zip(stores, leases, strict=True)
    ]
    answers = await asyncio.gather(*saves, return_exceptions=True)
    assert [isinstance(answer, OwnershipLost) for answer in answers] == [True, True, False] * 20
    assert await stores[0].link.redis.llen(thread_key(OP, "queue")) == 20


async def test_an_operation_begins_once(store: Store, other: Store) -> None:
    lease = await claimed(store)
    assert await store.create(operation(), [root()], lease=lease)
    assert await store.create(operation(), [root()], lease=lease)  # its answer was lost, it asks again
    assert not await store.create(operation(headline="again"), [reply(9)], lease=lease)
    await store.leases.let_go(lease)
    lease = await claimed(other)
    assert not await other.create(operation(began=BEGAN + timedelta(seconds=1)), [reply(9)], lease=lease)
    assert await store.operation(OP) == operation()
    assert await store.link.redis.llen(thread_key(OP, "queue")) == 1


async def test_of_many_that_begin_the_same_one_does(stores: list[Store]) -> None:
    lease = await claimed(stores[0])
    answers = await asyncio.gather(
        *(store.create(operation(headline=f"{n}"), lease=lease) for n in range(5) for store in stores),
        return_exceptions=True,
    )
    assert answers.count(True) >= 1
    found = await stores[0].operation(OP)
    assert found is not None
    assert answers[int(found.headline) * 3 : int(found.headline) * 3 + 3] == [True] * 3
    assert answers.count(True) == 3  # the same record from three processes is the same beginning


async def test_who_looked_before_the_other_began_does_not_begin_again(store: Store) -> None:
    """Both had looked and found nothing; Redis decides."""
    lease = await claimed(store)
    push = store.queue.push
    assert await push(OP, [root()], {}, state=operation(), fence=lease.number, new=True)
    assert not await push(OP, [reply(9)], {}, state=operation(headline="2"), fence=lease.number, new=True)
    assert await store.operation(OP) == operation()
    assert await store.link.redis.llen(thread_key(OP, "queue")) == 1


async def test_a_closed_operation_does_not_begin_again(store: Store) -> None:
    lease = await claimed(store)
    await store.create(operation(), [root()], lease=lease)
    await store.finish(operation(**CLOSED), lease=lease)
    assert not await store.create(operation(), [root()], lease=lease)
    assert await store.open_operations() == []


async def test_an_empty_redis_takes_no_write_of_a_former_owner(store: Store) -> None:
    lease = await claimed(store)
    await store.save(operation(), [root()], lease=lease)
    await store.link.ask(store.link.redis.flushall())
    assert not await store.check_epoch()
    for write in (
        store.save(operation(), [reply(1), reply(1, thread="another")], lease=lease),
        store.create(operation(), [reply(1)], lease=lease),
        store.finish(operation(**CLOSED), [reply(1)], lease=lease),
    ):
        with pytest.raises(StoreEmptied):
            await write
    assert await store.queue.pending() == 0
    assert await store.operation(OP) is None
    assert issubclass(StoreEmptied, StoreUnavailable)


async def test_what_an_empty_redis_lost_is_written_down_again(store: Store, other: Store) -> None:
    await store.leases.renew()
    before, told = await claimed(store), list[str]()
    store.leases.subscribe_emptied(lambda: told.append("emptied"))
    await store.take(holder())
    await store.save(operation(), [root(), reply(1), reply(2)], lease=before)
    await store.link.ask(store.link.redis.flushall())
    await store.leases.renew()
    assert told == ["emptied"]
    await store.renew_epoch()
    after = await claimed(store)
    assert after.number > before.number
    for _ in range(2):
        held = await store.rebuild(
            operation(), lease=after, address=PLACE, known=["op1:root", "op1:1"], holder=holder()
        )
        assert held is None
    assert await other.holder(SERVICE) is not None
    assert await other.open_operations() == [operation()]
    assert await other.address(OP) == PLACE
    assert await other.operation_at(CHANNEL, MessageTs("1.2")) == OP
    await store.save(operation(), [root(), reply(1), reply(2)], lease=after)
    claim = await store.queue.claim(OP, "sender", 60)
    assert claim is not None
    assert claim.head_id == "op1:2"  # what Slack has is not sent twice
    assert await store.queue.pending() == 1
    assert await store.check_epoch()


async def test_a_lock_that_another_took_after_the_loss_is_told(store: Store) -> None:
    lease = await claimed(store)
    await store.save(operation("op2"))
    assert await store.take(holder("op2")) is None
    held = await store.rebuild(operation(), lease=lease, address=None, known=[], holder=holder())
    assert held is not None
    assert held.operation == "op2"


async def test_a_closed_operation_is_rebuilt_into_history(store: Store) -> None:
    lease = await claimed(store)
    await store.rebuild(operation(**CLOSED), lease=lease, address=PLACE, known=[], holder=holder())
    assert await store.holder(SERVICE) is None
    assert await store.open_operations() == []
    assert [past.link for past in await store.past(SERVICE, 5)] == ["https://s/p12"]
    assert await store.link.redis.ttl(thread_key(OP, "operation")) > 0


async def test_a_look_between_the_index_and_the_rebuilt_record_loses_nothing(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await claimed(store)
    run = store.link.run

    async def look_first(*arguments: Any) -> Any:
        assert await other.open_operations() == []
        return await run(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(store.link, "run", look_first)
        await store.rebuild(operation(), lease=lease, address=None, known=[], holder=None)
    assert await store.link.redis.zscore(OPEN, OP) is not None
    assert await other.open_operations() == [operation()]


PAUSED = """
import asyncio, sys
from bot.clients.store import Store
from bot.errors import OwnershipLost
from tests.support.outgoing import operation, reply

async def main():
    store = await Store.open(sys.argv[1], lease_seconds=1.0)
    renewing = asyncio.create_task(store.leases.run())
    lost = []
    store.leases.subscribe_lost(lambda lease: lost.append(lease.name))
    lease = await store.leases.claim("op1")
    number = 0
    try:
        while True:
            number += 1
            await store.save(operation(headline=f"paused {number}"), [reply(number)], lease=lease)
            print(number, flush=True)
    except OwnershipLost:
        while not lost:
            await asyncio.sleep(0.01)
        print("lost", store.leases.holds(lease), *lost, flush=True)

asyncio.run(main())
"""


@pytest.fixture
def paused(redis_url: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", PAUSED, redis_url], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


async def test_a_process_that_is_stopped_and_wakes_up_writes_nothing(
    redis_url: str, paused: subprocess.Popen[str]
) -> None:
    """Stopped amid its writes, for longer than its lease; another takes over; it wakes up."""
    store = await Store.open(redis_url, lease_seconds=60)
    try:
        assert paused.stdout is not None
        assert await asyncio.to_thread(paused.stdout.readline) == "1\n"
        assert await store.leases.claim(OP) is None
        paused.send_signal(signal.SIGSTOP)
        async with asyncio.timeout(60):
            while (lease := await store.leases.claim(OP)) is None:  # noqa: ASYNC110 - until it runs out
                await asyncio.sleep(0.05)
        assert lease.away is not None
        assert not lease.clean
        queued = await store.link.redis.llen(thread_key(OP, "queue"))
        await store.save(operation(headline="the other"), lease=lease)
        paused.send_signal(signal.SIGCONT)
        said = await asyncio.to_thread(paused.stdout.read)
        assert said.split("\n")[-2] == "lost False op1"
        found = await store.operation(OP)
        assert found is not None
        assert found.headline == "the other"
        assert await store.link.redis.llen(thread_key(OP, "queue")) == queued
        assert store.leases.holds(lease)
    finally:
        await store.close()

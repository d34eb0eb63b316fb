"""Written before it is carried out, and carried out once, whoever does it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bot.clients.store_watches import Watches, lease_name
from bot.core.incident_state import How
from bot.core.monitor_events import OpenIncident, TellStopped, WatchStart
from bot.core.monitor_state import WatchStanding
from bot.watch_entries import open_entry
from bot.watch_records import Records
from tests.support.waiting import until
from tests.support.watch_duty import Orders, serving, stands, watch
from tests.support.watchmen import HOST, SERVICE, watchmen

if TYPE_CHECKING:
    from bot.watch_orders import Order


async def test_an_outage_is_ordered_once_and_written_before(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        orders = Orders()
        watching = await watch(room, orders)
        await serving(watching)
        orders.away = True
        room.far.unit.kill()
        await until(lambda: stands(watching) is WatchStanding.DOWN)
        saved = await Watches(room.ground.store.link).read(HOST, SERVICE)
        assert saved is not None
        assert [owed.kind for owed in saved.owed] == ["OpenIncident"]
        orders.away = False
        await until(lambda: bool(orders.of(OpenIncident)))
        await until(lambda: not watching.entries[SERVICE].owed and not watching.entries[SERVICE].unsaved)
        assert len(orders.of(OpenIncident)) == 1
        done = await Watches(room.ground.store.link).read(HOST, SERVICE)
        assert done is not None
        assert done.owed == ()
        assert orders.carried[0][0] == saved.owed[0].id


async def test_the_next_process_carries_out_what_was_ordered_under_the_same_name(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        orders, others = Orders(), Orders()
        watching = await watch(room, orders)
        await serving(watching)
        orders.away = True
        room.far.unit.kill()
        await until(lambda: bool(watching.entries[SERVICE].owed))
        name = watching.entries[SERVICE].owed[0].id
        await watching.close()
        await room.ground.store.leases.let_go(watching.lease)
        theirs = await watch(room, others, await room.another())
        assert stands(theirs) is WatchStanding.DOWN
        await until(lambda: bool(others.carried))
        assert others.carried[0][0] == name


async def test_one_that_lost_its_lease_writes_and_orders_nothing(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        orders = Orders()
        watching = await watch(room, orders)
        await serving(watching)
        await room.ground.store.leases.let_go(watching.lease)
        other = await room.another()
        assert await other.store.leases.claim(lease_name(HOST)) is not None
        room.far.unit.kill()
        await until(lambda: watching.is_lost)
        assert orders.carried == []


async def test_a_redis_that_came_back_empty_is_told_what_was_known(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        watching = await watch(room, Orders())
        await serving(watching)
        await room.ground.store.link.ask(room.ground.store.link.redis.flushall())
        room.far.unit.kill()
        await until(lambda: stands(watching) is WatchStanding.DOWN)
        found = None
        while found is None:
            await asyncio.sleep(0.05)
            found = await Watches(room.ground.store.link).read(HOST, SERVICE)
        assert '"down"' in found.state
        assert not watching.is_lost


async def test_what_goes_on_beside_stays_on_record_until_it_is_done(redis_url: str) -> None:
    """A start that is being looked for: whoever dies meanwhile leaves it to the next process."""
    async with watchmen(redis_url) as room:
        ends: list[asyncio.Future[bool]] = []
        asked: list[str] = []

        async def carry(order: Order, name: str) -> asyncio.Task[bool] | None:
            if not isinstance(order, WatchStart):
                return None
            end = asyncio.get_running_loop().create_future()
            ends.append(end)
            asked.append(name)
            return asyncio.ensure_future(_wait_for(end))

        async def on_record() -> list[str]:
            found = await Watches(room.ground.store.link).read(HOST, SERVICE)
            return [] if found is None else [owed.kind for owed in found.owed]

        lease = await room.ground.store.leases.claim(lease_name(HOST))
        assert lease is not None
        watches = Watches(room.ground.store.link)
        entry = await open_entry(room.ground, watches, HOST, SERVICE)
        records = Records(room.ground, watches, HOST, lease, carry, [entry])
        start = WatchStart(SERVICE, room.member, room.run, How.SYSTEMD, 1)
        stop = TellStopped(SERVICE, room.ground.clock.now(), None, "someone stopped it")
        await records.settle(entry, [start, stop], dirty=False)
        await records.settle(entry, [], dirty=False)
        assert await on_record() == ["WatchStart"]  # it holds up nothing
        assert len(asked) == 1
        ends[0].set_result(False)  # not now
        await asyncio.sleep(0.01)
        await records.settle(entry, [], dirty=False)
        assert asked == [asked[0]] * 2
        again = await open_entry(room.ground, watches, HOST, SERVICE)
        assert [owed.id for owed in again.owed] == asked[:1]
        ends[1].set_result(True)
        await asyncio.sleep(0.01)
        await records.settle(entry, [], dirty=False)
        assert await on_record() == []
        assert entry.beside == {}


async def _wait_for(end: asyncio.Future[bool]) -> bool:
    return await end

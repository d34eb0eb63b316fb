"""Written before it is carried out, and carried out once, whoever does it."""

from __future__ import annotations

import asyncio

from bot.clients.store_watches import Watches, lease_name
from bot.core.monitor_events import OpenIncident
from bot.core.monitor_state import WatchStanding
from tests.support.waiting import until
from tests.support.watch_duty import Orders, serving, stands, watch
from tests.support.watchmen import HOST, SERVICE, watchmen


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

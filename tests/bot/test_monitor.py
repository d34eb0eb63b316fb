"""Hosts are shared out among the processes that live; what one leaves, another takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.monitor import Monitor
from tests.support.waiting import until
from tests.support.watchmen import HOST, watchmen

if TYPE_CHECKING:
    from bot.watch_orders import Order


async def carry(order: Order, name: str) -> None:
    raise AssertionError(f"nothing happens: {order} {name}")


async def test_one_process_has_a_host_and_another_takes_it_when_it_is_left(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        ours = Monitor(room.ground, carry)
        theirs = Monitor(await room.another(), carry)
        await ours.share_out()
        await theirs.share_out()
        assert (list(ours.watching), list(theirs.watching)) == ([HOST], [])
        await until(lambda: ours.watching[HOST].rounds > 0)
        await ours.hand_over()
        await room.ground.store.leases.let_go(ours.watching[HOST].lease)
        await theirs.share_out()
        assert list(theirs.watching) == [HOST]
        await theirs.hand_over()


async def test_what_another_process_took_is_watched_no_more(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        ours = Monitor(room.ground, carry)
        await ours.share_out()
        watching = ours.watching[HOST]
        ours._lose(watching.lease)
        assert watching.is_lost
        await ours.hand_over()
        other = await room.another()
        await room.ground.store.leases.let_go(watching.lease)
        assert await other.store.leases.claim(watching.lease.name) is not None
        later = Monitor(room.ground, carry)
        await later.share_out()
        assert later.watching == {}


async def test_a_share_is_a_part_of_all_hosts(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        ours = Monitor(room.ground, carry)
        theirs = Monitor(await room.another(), carry)
        ours.hosts = theirs.hosts = dict.fromkeys((HOST,), ours.hosts[HOST])
        await theirs.share_out()
        await ours.share_out()
        assert len(ours.watching) + len(theirs.watching) == 1
        await ours.hand_over()
        await theirs.hand_over()


async def test_a_service_whose_monitor_is_off_is_not_watched(redis_url: str) -> None:
    async with watchmen(redis_url, service={"monitor": {"enabled": False}}) as room:
        ours = Monitor(room.ground, carry)
        await ours.share_out()
        assert (ours.watching, ours.hosts) == ({}, {})

"""The watch over one host, between a practice host and a real Redis: what it notices, writes and orders."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.clients.records import Holder
from bot.clients.store_watches import Watches, lease_name
from bot.core.events import HostName, OperationId, UserId, Verb
from bot.core.monitor_events import Muted, OpenIncident, TellIncident, TellStopped, WatchStart
from bot.core.monitor_state import WatchStanding
from bot.errors import StoreUnavailable
from bot.watch_orders import pack_word
from bot.watching import Watching
from tests.support.waiting import until
from tests.support.watchmen import HOST, SERVICE, watchmen

if TYPE_CHECKING:
    from bot.ground import Ground
    from bot.watch_orders import Order
    from tests.support.watchmen import Watchmen


class Orders:
    """What was ordered, by name; `away`: Redis is, for whoever carries it out."""

    def __init__(self) -> None:
        self.carried: list[tuple[str, Order]] = []
        self.away = False

    async def carry(self, order: Order, name: str) -> None:
        if self.away:
            raise StoreUnavailable("away")
        self.carried.append((name, order))

    def of(self, kind: type[Order]) -> list[Order]:
        return [order for _, order in self.carried if isinstance(order, kind)]


async def watch(room: Watchmen, orders: Orders, ground: Ground | None = None) -> Watching:
    ground = ground or room.ground
    lease = await ground.store.leases.claim(lease_name(HOST))
    assert lease is not None
    watching = Watching(ground, Watches(ground.store.link), HOST, lease, orders.carry)
    await watching.open([SERVICE])
    watching.start()
    return watching


def stands(watching: Watching) -> WatchStanding:
    return watching.entries[SERVICE].watch.state.standing


async def serving(watching: Watching) -> None:
    await until(lambda: stands(watching) is WatchStanding.SERVING)


async def test_a_service_that_serves_is_written_once_and_costs_two_commands_a_round(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        watching = await watch(room, Orders())
        await serving(watching)
        saved = await Watches(room.ground.store.link).read(HOST, SERVICE)
        assert saved is not None
        before, rounds = len(room.far.commands), watching.rounds
        await until(lambda: watching.rounds >= rounds + 5)
        assert len(room.far.commands) - before <= watching.rounds - rounds + 1
        assert await Watches(room.ground.store.link).read(HOST, SERVICE) == saved


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
        await asyncio.sleep(1)
        assert len(orders.of(OpenIncident)) == 1
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


async def test_work_that_was_asked_for_in_chat_is_no_outage(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        orders = Orders()
        watching = await watch(room, orders)
        await serving(watching)
        holder = Holder(
            operation=OperationId("op1"),
            service=SERVICE,
            verb=Verb.RESTART,
            by=UserId("U0ALICE"),
            since=room.ground.clock.now(),
        )
        assert await room.ground.store.take(holder) is None
        room.far.unit.submit("restart")
        await until(lambda: stands(watching) is WatchStanding.STARTING)
        await until(lambda: room.far.unit.restarts == 0 and room.far.unit.active == "active")
        assert orders.carried == []


async def test_a_restart_in_a_terminal_is_followed(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        orders = Orders()
        watching = await watch(room, orders)
        await serving(watching)
        room.far.unit.submit("restart")
        await until(lambda: bool(orders.of(WatchStart)))
        assert orders.of(OpenIncident) == orders.of(TellStopped) == []


async def test_a_word_is_heard_once_and_kept(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        orders = Orders()
        watching = await watch(room, orders)
        await serving(watching)
        until_then = room.ground.clock.now() + timedelta(hours=1)
        word = pack_word(Muted(UserId("U0ALICE"), until_then, "tests"), service=SERVICE, name="mute:1")
        await watching.watches.say(HOST, word)
        watching.poke()
        await until(lambda: watching.entries[SERVICE].watch.state.mute is not None)
        room.far.unit.kill()
        await until(lambda: stands(watching) is WatchStanding.DOWN)
        assert orders.of(OpenIncident) == []
        assert await watching.watches.words(HOST) == []


async def test_a_host_out_of_sight_is_one_incident_and_none_of_its_services(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        orders = Orders()
        watching = await watch(room, orders)
        await serving(watching)
        await room.far.close_door()
        await until(lambda: bool(orders.of(OpenIncident)))
        [opened] = [order for order in orders.of(OpenIncident) if isinstance(order, OpenIncident)]
        assert (opened.plan.subject, opened.plan.service) == (HostName("llm-two"), None)
        await room.far.open_door()
        await until(lambda: bool(orders.of(TellIncident)))
        assert len(orders.of(OpenIncident)) == 1
        assert stands(watching) is WatchStanding.SERVING


async def test_completions_are_asked_for_where_that_is_configured(redis_url: str) -> None:
    service = {"smoke": {"timeout": "1s"}, "monitor": {"completion_every": "20s"}}
    async with watchmen(redis_url, service=service) as room:
        orders = Orders()
        watching = await watch(room, orders)
        await serving(watching)
        room.far.engine.dying = True
        await until(lambda: bool(orders.of(OpenIncident)))
        [opened] = [order for order in orders.of(OpenIncident) if isinstance(order, OpenIncident)]
        assert "completion" in opened.plan.signs[0].sentence


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

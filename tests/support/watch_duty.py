"""A process on duty over the practice host: its watch, and what it ordered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.clients.store_watches import Watches, lease_name
from bot.core.monitor_state import WatchStanding
from bot.errors import StoreUnavailable
from bot.watching import Watching
from tests.support.waiting import until
from tests.support.watchmen import HOST, SERVICE

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

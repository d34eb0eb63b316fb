"""What happens to a unit reaches its machine, and what that orders is carried out."""

from __future__ import annotations

from bot.core.monitor_events import OpenIncident, TellStopped, WatchStart
from tests.support.waiting import until
from tests.support.watch_duty import Orders, serving, watch
from tests.support.watchmen import watchmen


async def test_a_restart_in_a_terminal_is_followed(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        orders = Orders()
        watching = await watch(room, orders)
        await serving(watching)
        room.far.unit.submit("restart")
        await until(lambda: bool(orders.of(WatchStart)))
        assert orders.of(OpenIncident) == orders.of(TellStopped) == []

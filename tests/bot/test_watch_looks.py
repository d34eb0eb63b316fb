"""Completions between startups, where they are wanted."""

from __future__ import annotations

from bot.core.monitor_events import OpenIncident
from tests.support.waiting import until
from tests.support.watch_duty import Orders, serving, watch
from tests.support.watchmen import watchmen


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

"""What Redis knows of an operation of ours reaches the watch, once each."""

from __future__ import annotations

from bot.clients.records import Holder
from bot.core.events import OperationId, UserId, Verb
from bot.core.monitor_state import WatchStanding
from tests.support.waiting import until
from tests.support.watch_duty import Orders, serving, stands, watch
from tests.support.watchmen import SERVICE, watchmen


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

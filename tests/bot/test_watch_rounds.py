"""Rounds over a practice host: what they cost, and what they tell of the host itself."""

from __future__ import annotations

from bot.clients.store_watches import Watches
from bot.core.events import HostName
from bot.core.incident_state import Severity
from bot.core.monitor_events import OpenIncident, TellIncident
from bot.core.monitor_state import WatchStanding
from tests.support.waiting import until
from tests.support.watch_duty import Orders, serving, stands, watch
from tests.support.watchmen import HOST, SERVICE, watchmen


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


async def test_a_host_out_of_sight_is_one_incident_and_none_of_its_services(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        orders = Orders()
        watching = await watch(room, orders)
        await serving(watching)
        await room.far.go_dark()
        await until(lambda: bool(orders.of(OpenIncident)))
        [opened] = [order for order in orders.of(OpenIncident) if isinstance(order, OpenIncident)]
        assert (opened.plan.subject, opened.plan.service) == (HostName("llm-two"), None)
        await room.far.open_door()
        await until(lambda: bool(orders.of(TellIncident)))
        assert len(orders.of(OpenIncident)) == 1
        assert stands(watching) is WatchStanding.SERVING


async def test_a_host_that_refuses_ssh_is_one_incident_that_says_so(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        orders = Orders()
        watching = await watch(room, orders)
        await serving(watching)
        await room.far.close_door()
        await until(lambda: bool(orders.of(OpenIncident)))
        [opened] = [order for order in orders.of(OpenIncident) if isinstance(order, OpenIncident)]
        assert (opened.plan.service, opened.plan.severity) == (None, Severity.DEGRADED)
        [sign] = opened.plan.signs
        assert sign.sentence == "SSH is refused (connection refused), so 1 service there cannot be seen"
        assert "refuses connections" in sign.evidence[0]
        assert stands(watching) is WatchStanding.SERVING

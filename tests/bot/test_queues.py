"""The queue an engine tells of, over real HTTP: asked for now and then, told as degraded, never paged."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from bot.clients.probe import Probe
from bot.clients.store_watches import Watches, lease_name
from bot.core.events import InvocationId
from bot.core.incident_state import Severity
from bot.core.monitor_events import LoadSeen, OpenIncident, TellIncident
from bot.core.monitor_state import WatchStanding
from bot.queues import EVERY, QueueLooks
from bot.watching import Watching
from config.services import ServiceSection
from tests.support.http_engine import HttpEngine, reply, serve_http
from tests.support.waiting import until
from tests.support.watchmen import HOST, SERVICE, watchmen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bot.watch_orders import Order
    from tests.support.watchmen import Watchmen

NOW = datetime(2026, 7, 14, 3, 0, tzinfo=UTC)
RUN, NEXT = (InvocationId("1" * 32),), (InvocationId("2" * 32),)
GROUP = "S0ONCALL1"


def probe_of(engine: HttpEngine) -> Probe:
    section = {"host": "llm-two", "unit": "a.service", "url": engine.url, "reach": "direct", "model": "kimi"}
    return Probe(ServiceSection.model_validate(section), host=None, api_key=None)


def queue(waiting: int) -> bytes:
    return reply(200, f'sglang:num_queue_reqs{{model="kimi"}} {waiting}.0\n'.encode(), kind="text/plain")


def paths(engine: HttpEngine) -> list[str]:
    return [request.path for request in engine.requests if not request.path.startswith(("/health", "/v1/m"))]


def test_it_is_asked_once_a_minute_and_never_twice_at_once() -> None:
    looks = QueueLooks(due=NOW)
    assert looks.is_due(NOW, runs=RUN)
    assert not looks.is_due(NOW + EVERY, runs=RUN)  # the last look is still out
    looks.busy = False
    assert not looks.is_due(NOW + EVERY - timedelta(seconds=1), runs=RUN)
    assert looks.is_due(NOW + EVERY, runs=RUN)


def test_the_first_look_comes_within_the_first_minute() -> None:
    looks = QueueLooks()
    looks.is_due(NOW, runs=RUN)
    assert looks.due is not None
    assert NOW <= looks.due <= NOW + EVERY


async def test_what_is_not_offered_is_not_asked_for_until_the_next_run() -> None:
    async with serve_http() as engine:
        engine.answers["/metrics"] = reply(401, b"")
        looks, probe = QueueLooks(due=NOW), probe_of(engine)
        assert looks.is_due(NOW, runs=RUN)
        assert await looks.look(probe) is None
        assert paths(engine) == ["/metrics", "/v1/loads"]
        assert not looks.is_due(NOW + 9 * EVERY, runs=RUN)
        engine.answers["/metrics"] = queue(4)
        assert looks.is_due(NOW + 9 * EVERY, runs=NEXT)
        assert await looks.look(probe) == LoadSeen(4, 0)


async def test_the_place_that_tells_is_remembered() -> None:
    async with serve_http() as engine:
        engine.answers["/v1/loads"] = reply(200, {"num_running_reqs": 8, "num_waiting_reqs": 41})
        looks, probe = QueueLooks(due=NOW), probe_of(engine)
        for minute in range(3):
            assert looks.is_due(NOW + minute * EVERY, runs=RUN)
            assert await looks.look(probe) == LoadSeen(41, 8)
        assert paths(engine) == ["/metrics", *["/v1/loads"] * 3]


async def test_an_engine_that_is_busy_is_asked_again() -> None:
    async with serve_http() as engine:
        engine.answers["/metrics"] = [reply(503, b""), queue(2)]
        looks, probe = QueueLooks(due=NOW), probe_of(engine)
        assert looks.is_due(NOW, runs=RUN)
        assert await looks.look(probe) is None
        assert looks.is_due(NOW + EVERY, runs=RUN)
        assert await looks.look(probe) == LoadSeen(2, 0)


@asynccontextmanager
async def watched(room: Watchmen, engine: HttpEngine) -> AsyncIterator[tuple[Watching, list[Order]]]:
    """The practice host's unit, and in front of its engine one that tells what a test wants."""
    ground = replace(room.ground, probes={SERVICE: probe_of(engine)})
    incidents, orders = room.incidents(), []

    async def carry(order: Order, name: str) -> None:
        orders.append(order)
        if isinstance(order, OpenIncident):
            await incidents.open(order.plan)
        elif isinstance(order, TellIncident):
            await incidents.tell(order.incident, order.event, name=name)

    lease = await ground.store.leases.claim(lease_name(HOST))
    assert lease is not None
    watching = Watching(ground, Watches(ground.store.link), HOST, lease, carry)
    await watching.open([SERVICE])
    watching.start()
    yield watching, orders
    await watching.close()


MONITOR: dict[str, Any] = {"monitor": {"escalate_after": "1m", "escalate_to": GROUP}}


async def test_a_queue_that_grows_is_told_as_degraded_and_pages_nobody(redis_url: str) -> None:
    async with watchmen(redis_url, speed=60.0, service=MONITOR) as room, serve_http() as engine:
        engine.healthy()
        engine.answers["/metrics"] = [queue(waiting) for waiting in (0, 0, 6, 14, 25, 38, *[38] * 99)]
        async with watched(room, engine) as (watching, orders):
            await until(lambda: bool(room.roots()))
            [opened] = [order for order in orders if isinstance(order, OpenIncident)]
            assert opened.plan.severity is Severity.DEGRADED
            assert opened.plan.signs[0].sentence.startswith("requests pile up: 38 wait, 0 did 4 looks before")
            seen = len(paths(engine))
            await until(lambda: len(paths(engine)) >= seen + 3)  # longer than it takes to escalate
            [root] = room.roots()
            assert "is degraded" in root.plain
            assert GROUP not in "".join([root.text, *room.thread(root)])
            assert watching.entries[SERVICE].watch.state.standing is WatchStanding.SERVING
            assert [order for order in orders if not isinstance(order, OpenIncident)] == []


async def test_a_service_that_does_not_serve_is_not_asked(redis_url: str) -> None:
    async with watchmen(redis_url, speed=60.0) as room, serve_http() as engine:
        engine.healthy()
        engine.answers["/health"] = reply(503, b"")
        engine.answers["/metrics"] = queue(0)
        async with watched(room, engine) as (watching, _):
            await until(lambda: watching.rounds >= 8)  # two told minutes
            assert paths(engine) == []
            engine.healthy()
            await until(lambda: paths(engine) == ["/metrics"])

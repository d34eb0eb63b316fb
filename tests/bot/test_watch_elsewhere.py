"""Two processes, one of which loses its way to its hosts; and both of them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bot import monitor as monitors
from bot.clients.ssh import Host
from bot.clients.store_watches import Watched
from bot.core.events import HostName, ServiceName
from bot.core.incident_events import Recovered
from bot.core.incident_state import SignKind
from bot.core.monitor_events import OpenIncident, TellIncident
from bot.core.monitor_state import Sight
from bot.monitor import Monitor
from bot.watch_elsewhere import Elsewhere
from bot.watch_plans import HOST_STATE
from tests.support.black_hole import black_hole
from tests.support.waiting import until
from tests.support.watch_duty import Orders
from tests.support.watchmen import HOST, SERVICE, Watchmen, watchmen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import pytest

    from bot.core.incident_state import IncidentPlan
    from bot.ground import Ground
    from config.services import HostSection
    from tests.support.black_hole import BlackHole

HOSTS = (HOST, HostName("llm-three"), HostName("llm-four"), HostName("llm-five"))
SERVICES = tuple(ServiceName(f"{SERVICE}-{number}") for number in range(len(HOSTS)))


def know(host: HostSection, port: int) -> str:
    """The same key at another port; where that is written."""
    beside = Path(f"{host.known_hosts}-{port}")
    beside.write_text(Path(host.known_hosts).read_text().replace(f":{host.port} ", f":{port} ", 1))
    return str(beside)


@asynccontextmanager
async def through(ground: Ground, way: BlackHole) -> AsyncIterator[Ground]:
    """Four hosts, all the same machine, that this process reaches that way."""
    configuration = ground.configuration
    section, host = ground.section(SERVICE), configuration.hosts[HOST]
    reached = host.model_copy(update={"port": way.port, "known_hosts": know(host, way.port)})
    changed = {
        "services": {
            name: section.model_copy(update={"host": at}) for name, at in zip(SERVICES, HOSTS, strict=True)
        },
        "hosts": dict.fromkeys(HOSTS, reached),
    }
    hosts = {name: Host(name, reached) for name in HOSTS}
    try:
        yield replace(
            ground,
            configuration=configuration.model_copy(update=changed),
            hosts=hosts,
            probes=dict.fromkeys(SERVICES, ground.probes[SERVICE]),
            engines=dict.fromkeys(SERVICES, ground.engines[SERVICE]),
        )
    finally:
        for each in hosts.values():
            await each.close()


def door(room: Watchmen) -> int:
    return room.ground.configuration.hosts[HOST].port


class Process:
    def __init__(self, ground: Ground, orders: Orders) -> None:
        self.monitor, self.ground = Monitor(ground, orders.carry), ground

    def sights(self) -> list[Sight]:
        return [each.host_watch.sight for each in self.monitor.watching.values()]

    def seen(self) -> bool:
        return all(each.host_watch.state.seen for each in self.monitor.watching.values())


@asynccontextmanager
async def two(room: Watchmen, orders: Orders, *ways: BlackHole) -> AsyncIterator[list[Process]]:
    """Each has two of the hosts and has seen them."""
    other = await room.another(owner="other")
    async with through(room.ground, ways[0]) as first, through(other, ways[1]) as second:
        processes = [Process(first, orders), Process(second, orders)]
        leases = room.ground.tasks.spawn("other's leases", other.store.leases.run())
        for process in processes:
            await process.monitor.share_out()
            assert len(process.monitor.watching) == 2
        await until(lambda: all(process.seen() for process in processes))
        yield processes
        for process in processes:
            await process.monitor.hand_over()
        leases.cancel()


async def share_until(processes: list[Process], condition: Callable[[], object]) -> None:
    async def share() -> None:
        for process in processes:
            await process.monitor.share_out()

    async with asyncio.timeout(60):
        while not condition():
            await share()
            await asyncio.sleep(0.1)


def opened(orders: Orders) -> list[IncidentPlan]:
    """Each once: the next process carries out again what may not have been."""
    plans = {
        each.plan.incident: each.plan for each in orders.of(OpenIncident) if isinstance(each, OpenIncident)
    }
    return list(plans.values())


async def test_what_one_process_does_not_reach_another_looks_at(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitors, "_CUT_OFF", 0.5)
    async with (
        watchmen(redis_url, speed=5, lease=5.0) as room,
        black_hole(door(room)) as ours,
        black_hole(door(room)) as theirs,
    ):
        orders = Orders()
        async with two(room, orders, ours, theirs) as processes:
            lost, other = processes
            ours.swallow()
            await share_until(processes, lambda: len(other.monitor.watching) == 4)
            assert lost.monitor.watching == {}
            [plan] = opened(orders)  # told in time, before anybody else had looked
            assert plan.signs[0].kind is SignKind.NETWORK
            assert len(plan.affected) == 2
            await share_until(processes, lambda: orders.of(TellIncident))
            assert [type(each.event) for each in orders.of(TellIncident)] == [Recovered]  # type: ignore[union-attr]
            assert other.sights() == [Sight.SEEN] * 4
            assert opened(orders) == [plan]
            assert lost.monitor.watching == {}  # it stays away
            monkeypatch.setattr(monitors, "_UNWANTED", 0.1)  # lease times
            await other.monitor.hand_over()
            await other.ground.store.leases.close()
            await share_until([lost], lambda: len(lost.monitor.watching) == 4)  # but for what nobody has


async def test_what_no_process_reaches_is_told_once(redis_url: str) -> None:
    async with (
        watchmen(redis_url, speed=5, lease=5.0) as room,
        black_hole(door(room)) as ours,
        black_hole(door(room)) as theirs,
    ):
        orders = Orders()
        async with two(room, orders, ours, theirs) as processes:
            ours.swallow()
            await share_until(processes, lambda: Sight.DOUBTFUL in processes[0].sights())
            theirs.swallow()
            gone = [Sight.GONE] * 4
            await share_until(processes, lambda: [*processes[0].sights(), *processes[1].sights()] == gone)
            for _ in range(20):
                await share_until(processes, lambda: True)
            assert [plan.signs[0].kind for plan in opened(orders)] == [SignKind.NETWORK]
            assert all(len(process.monitor.watching) == 2 for process in processes)  # nobody sees more


async def test_what_was_seen_by_who_is_no_more_has_no_say(redis_url: str) -> None:
    async with (
        watchmen(redis_url, speed=5, lease=5.0) as room,
        black_hole(door(room)) as ours,
        black_hole(door(room)) as theirs,
        two(room, Orders(), ours, theirs) as (process, other),
    ):
        for each in (process, other):
            await each.monitor.hand_over()
        own = {host: each.host_watch for host, each in process.monitor.watching.items()}
        for watch in own.values():
            watch.state.failing_since = room.ground.clock.now()
        gone, seen = other.monitor.watching.items()
        state = replace(gone[1].host_watch.state, sight=Sight.GONE)
        await other.monitor.watches.write(
            gone[1].lease, None, Watched(state=HOST_STATE.dump_json(state).decode())
        )
        elsewhere = Elsewhere(process.ground, process.monitor.watches, process.monitor.hosts)
        await elsewhere.look(own)
        assert elsewhere.beside(own) == own  # the other process still has one that it sees
        await other.ground.store.leases.let_go(seen[1].lease)
        await elsewhere.look(own)
        assert elsewhere.beside(own).keys() == {*own, gone[0]}

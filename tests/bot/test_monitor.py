"""Hosts are shared out among the processes that live; what one leaves, another takes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from bot.clients.ssh import Host
from bot.clients.store_watches import lease_name
from bot.core.events import HostName, ServiceName
from bot.core.incident_events import Recovered
from bot.core.incident_state import SignKind
from bot.core.monitor_events import OpenIncident, TellIncident
from bot.core.monitor_state import Sight
from bot.errors import StoreUnavailable
from bot.monitor import Monitor
from bot.watching import Watching
from tests.support.waiting import until
from tests.support.watch_duty import Orders
from tests.support.watchmen import HOST, SERVICE, watchmen

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from bot.ground import Ground
    from bot.watch_orders import Order

OTHER, FAR = ServiceName("other"), HostName("llm-three")


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


async def test_what_nobody_who_lives_takes_is_taken_and_kept(redis_url: str) -> None:
    """The other process is there and has no watch: it is being stopped, say."""
    async with watchmen(redis_url) as room:
        ours = Monitor(room.ground, carry)
        other = await room.another()
        running = asyncio.ensure_future(other.store.leases.run())
        ours.hosts = {HOST: [SERVICE], HostName("llm-three"): [SERVICE]}
        await ours.share_out()
        assert list(ours.watching) == [HOST]
        async with asyncio.timeout(60):
            while len(ours.watching) < 2:
                await ours.share_out()
                await asyncio.sleep(0.05)
        for _ in range(5):
            await ours.share_out()
        assert len(ours.watching) == 2
        third = await room.another()  # another one lives, which may take its share
        await ours.share_out()
        assert len(ours.watching) == 1
        assert not await room.ground.store.leases.is_owned(lease_name(HostName("llm-three")))
        del third
        running.cancel()
        await ours.hand_over()


async def test_a_host_whose_record_could_not_be_read_is_left_to_others(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watchmen(redis_url) as room:
        ours = Monitor(room.ground, carry)

        async def read(*_: object) -> None:
            raise StoreUnavailable("no answer in time")

        monkeypatch.setattr(ours.watches, "read", read)
        with pytest.raises(StoreUnavailable):
            await ours.share_out()
        assert not await room.ground.store.leases.is_owned(lease_name(HOST))


async def test_a_host_that_cannot_be_watched_by_a_fault_of_ours_holds_up_no_other(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watchmen(redis_url) as room:
        ours, bad = Monitor(room.ground, carry), HostName("bad")
        ours.hosts = {bad: ours.hosts[HOST], HOST: ours.hosts[HOST]}
        sound, tried = Watching.open, 0

        async def break_down(self: Watching, services: list[ServiceName]) -> None:
            nonlocal tried
            if self.host == bad:
                tried += 1
                raise RuntimeError("broken")
            await sound(self, services)

        monkeypatch.setattr(Watching, "open", break_down)
        for _ in range(3):
            await ours.share_out()
        assert list(ours.watching) == [HOST]
        assert tried == 1
        await ours.hand_over()


async def test_a_redis_that_came_back_empty_is_told_at_once_what_was_known(redis_url: str) -> None:
    async with watchmen(redis_url, service={"monitor": {"every": "1h"}}) as room:
        ours = Monitor(room.ground, carry)
        await ours.share_out()
        watching = ours.watching[HOST]
        await until(lambda: watching.entries[SERVICE].watch.state.served)
        link = room.ground.store.link
        await link.ask(link.redis.flushall())
        await until(lambda: not room.ground.store.leases.holds(watching.lease))
        async with asyncio.timeout(60):
            while await ours.watches.read(HOST, SERVICE) is None:
                await ours.share_out()
                await asyncio.sleep(0.05)
        assert room.ground.store.leases.holds(watching.lease)
        assert not watching.is_lost
        await ours.hand_over()


def fail(*_: object, **__: object) -> None:
    raise LookupError("nobody thought of this")


async def test_a_watch_that_breaks_is_begun_anew(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watchmen(redis_url) as room:
        ours = Monitor(room.ground, carry)
        await ours.share_out()
        broken = ours.watching[HOST]
        await until(lambda: broken.rounds > 0)
        monkeypatch.setattr("bot.put_off._FIRST", 0.1)
        with monkeypatch.context() as amiss:
            amiss.setattr("bot.watch_rounds.take_due", fail)
            await until(lambda: broken.is_lost)
        await until_watched(ours)
        assert ours.watching[HOST] is not broken
        await until(lambda: ours.watching[HOST].rounds > 0)
        await ours.hand_over()


async def until_watched(monitor: Monitor) -> None:
    async with asyncio.timeout(60):
        while HOST not in monitor.watching or monitor.watching[HOST].is_lost:
            await monitor.share_out()
            await asyncio.sleep(0.01)


async def until_put_off(monitor: Monitor, times: int) -> list[MutableMapping[str, Any]]:
    """What the log says of it then."""
    with capture_logs() as logs:
        async with asyncio.timeout(60):
            while monitor.ground.tallies.put_off["watch"] < times:
                await monitor.share_out()
                await asyncio.sleep(0.01)
    assert "task_failed" not in [fact["event"] for fact in logs]
    return [fact for fact in logs if fact["event"] == "host_put_off"]


async def test_a_watch_that_always_breaks_is_begun_anew_later_and_later_and_told_whole_once(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.watch_words.Words.run", fail)
    monkeypatch.setattr("bot.put_off._FIRST", 0.05)
    async with watchmen(redis_url) as room:
        ours, theirs = Monitor(room.ground, carry), await room.another()
        told = await until_put_off(ours, 4)
        assert [fact["seconds"] for fact in told] == [0.05, 0.1, 0.2, 0.4]
        assert [fact["exc_info"] is None for fact in told] == [False, True, True, True]
        assert [fact["error"] for fact in told] == ["LookupError('nobody thought of this')"] * 4
        assert await theirs.store.leases.claim(lease_name(HOST)) is not None, "it is not kept from others"
        await ours.hand_over()


async def test_a_watch_that_lived_and_breaks_is_not_put_off_for_long(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.monitor._SOUND", 0.0)
    monkeypatch.setattr("bot.watch_words.Words.run", fail)
    monkeypatch.setattr("bot.put_off._FIRST", 0.05)
    async with watchmen(redis_url) as room:
        ours = Monitor(room.ground, carry)
        told = await until_put_off(ours, 3)
        assert [fact["seconds"] for fact in told] == [0.05] * 3
        await ours.hand_over()


async def test_a_service_whose_monitor_is_off_is_not_watched(redis_url: str) -> None:
    async with watchmen(redis_url, service={"monitor": {"enabled": False}}) as room:
        ours = Monitor(room.ground, carry)
        await ours.share_out()
        assert (ours.watching, ours.hosts) == ({}, {})


def two_hosts(ground: Ground) -> Ground:
    """Both are the same machine."""
    configuration = ground.configuration
    section, host = ground.section(SERVICE), configuration.hosts[HOST]
    services = {SERVICE: section, OTHER: section.model_copy(update={"host": FAR})}
    hosts = {HOST: host, FAR: host}
    return replace(
        ground,
        configuration=configuration.model_copy(update={"services": services, "hosts": hosts}),
        hosts={HOST: ground.hosts[HOST], FAR: Host(FAR, host)},
        probes={SERVICE: ground.probes[SERVICE], OTHER: ground.probes[SERVICE]},
        engines={SERVICE: ground.engines[SERVICE], OTHER: ground.engines[SERVICE]},
    )


async def test_when_none_of_its_hosts_answers_that_is_told_once(redis_url: str) -> None:
    async with watchmen(redis_url, speed=5) as room:
        ground, orders = two_hosts(room.ground), Orders()
        monitor = Monitor(ground, orders.carry)
        await monitor.share_out()
        states = [watching.host_watch for watching in monitor.watching.values()]
        assert len(states) == 2
        await until(lambda: all(each.state.seen for each in states))
        await room.far.go_dark()
        await until(lambda: all(each.sight is Sight.GONE for each in states))
        rounds = {host: each.rounds for host, each in monitor.watching.items()}
        await until(lambda: all(each.rounds > rounds[host] for host, each in monitor.watching.items()))
        [opened] = orders.of(OpenIncident)
        assert isinstance(opened, OpenIncident)
        assert opened.plan.signs[0].kind is SignKind.NETWORK
        assert set(opened.plan.affected) == {SERVICE, OTHER}
        await room.far.open_door()
        await until(lambda: all(each.sight is Sight.SEEN for each in states))
        await until(lambda: bool(orders.of(TellIncident)))
        assert [type(each.event) for each in orders.of(TellIncident)] == [Recovered]  # type: ignore[union-attr]
        assert orders.of(OpenIncident) == [opened]
        await monitor.hand_over()
        await ground.hosts[FAR].close()

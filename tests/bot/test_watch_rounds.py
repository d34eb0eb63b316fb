"""Rounds over a practice host: what they cost, and what they tell of the host itself."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from bot.clients.store import Store
from bot.clients.store_watches import Watches, lease_name
from bot.core.events import PORT_REFUSED, HostName, ProbeAnswer, ServiceName, UserId
from bot.core.incident_state import Severity
from bot.core.monitor_events import OpenIncident, TellIncident
from bot.core.monitor_state import Mute, Sight, WatchStanding
from bot.errors import StoreUnavailable
from bot.rounds import Seen
from bot.watch_rounds import Look
from bot.watching import Watching
from config.engine_file import load_engine
from config.loading import parse_configuration
from tests.support.ssh import SshServer, connect, hang, serve
from tests.support.waiting import until
from tests.support.watch_duty import Orders, serving, stands, watch
from tests.support.watchmen import HOST, SERVICE, watchmen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

    from bot.clients.ssh import Host
    from tests.support.ssh import Process

TEN = [ServiceName(f"s{number}") for number in range(10)]


@dataclass
class Healthy:
    """An engine that answers; `patience`: the least that it was given for it."""

    checks: int = 0
    slow: float = 0.0

    async def check(self, *, whole: bool = True, host_within: float | None = None) -> ProbeAnswer:
        del host_within
        await asyncio.sleep(self.slow)
        self.checks += 1
        return ProbeAnswer(health=200, models=("m",) if whole else None)

    async def load(self, path: str) -> None:
        """It tells nothing of its queue now."""


async def show(words: list[str], process: Process) -> None:
    """`systemctl show` of units that all run."""
    units = [word for word in words if word.endswith(".service")]
    block = f"LoadState=loaded\nActiveState=active\nSubState=running\nInvocationID={'1' * 32}\n"
    process.stdout.write("\n".join(block for _ in units).encode())
    process.exit(0)


async def boot(_: list[str], process: Process) -> None:
    process.stdout.write(b"0b9c2f1e-51d5-4f4e-9f64-6a3f3c0d7a11\n")
    process.exit(0)


@dataclass
class Ten:
    """Ten services on one host, and each one's engine."""

    watching: Watching
    engines: dict[ServiceName, Healthy]
    server: SshServer
    orders: Orders

    def least(self) -> int:
        """How often the one was looked at that was looked at least."""
        return min(engine.checks for engine in self.engines.values())

    def shown(self) -> int:
        return sum(words[:2] == ["systemctl", "show"] for words in self.server.commands)


@asynccontextmanager
async def ten(redis_url: str, folder: Path, *, far: Host | None = None) -> AsyncIterator[Ten]:
    """`far`: where the first of them has a further member."""
    async with watchmen(redis_url) as room, serve(folder) as server, connect(server) as host:
        server.answers |= {"systemctl": show, "cat": boot}
        section = server.section().model_dump(mode="json")
        unit = {"url": "http://127.0.0.1:1", "model": "m"}
        services: dict[str, Any] = {
            name: unit | {"host": "llm-two", "unit": f"{name}.service"} for name in TEN
        }
        if far is not None:
            members = [{"host": each, "unit": "s0.service"} for each in ("llm-two", "far")]
            services[TEN[0]] = unit | {"members": members}
        hosts = {"llm-two": section, "far": section}
        raw = {"slack": {"channel": "C0LLMOPS"}, "hosts": hosts, "services": services}
        engines = {name: Healthy() for name in TEN}
        ground = replace(
            room.ground,
            configuration=parse_configuration(raw, source="test"),
            hosts={HOST: host, HostName("far"): far or host},
            probes=cast("Any", engines),
            engines=dict.fromkeys(TEN, load_engine("sglang")),
        )
        lease = await ground.store.leases.claim(lease_name(HOST))
        assert lease is not None
        orders = Orders()
        watching = Watching(ground, Watches(ground.store.link), HOST, lease, orders.carry)
        await watching.open(TEN)
        watching.start()
        yield Ten(watching, engines, server, orders)
        await watching.close()


async def test_a_service_that_serves_is_written_once_and_costs_two_commands_a_round(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        watching = await watch(room, Orders())
        await serving(watching)
        saved = await Watches(room.ground.store.link).read(HOST, SERVICE)
        assert saved is not None
        watching.entries[SERVICE].rounds = 1  # all is asked again every so many
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


async def test_a_host_opens_nothing_while_all_its_services_are_muted(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        orders = Orders()
        watching = await watch(room, orders)
        await serving(watching)
        state = watching.entries[SERVICE].watch.state
        state.mute = Mute(datetime.now(UTC) + timedelta(hours=1), UserId("U0ALICE"), "new driver")
        await room.far.go_dark()
        await until(lambda: watching._machines.sight is Sight.GONE)
        rounds = watching.rounds
        await until(lambda: watching.rounds > rounds + 2)
        assert not orders.of(OpenIncident)
        state.mute = None
        await until(lambda: bool(orders.of(OpenIncident)))
        [opened] = [order for order in orders.of(OpenIncident) if isinstance(order, OpenIncident)]
        assert opened.plan.service is None


async def test_a_host_that_refuses_ssh_is_one_incident_that_says_so(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        orders = Orders()
        watching = await watch(room, orders)
        await serving(watching)
        await room.far.close_door()
        await until(lambda: bool(orders.of(OpenIncident)))
        [opened] = [order for order in orders.of(OpenIncident) if isinstance(order, OpenIncident)]
        assert (opened.plan.service, opened.plan.severity) == (None, Severity.HOST)
        [sign] = opened.plan.signs
        assert sign.sentence == "SSH is refused (connection refused), so 1 service there cannot be seen"
        assert "refuses connections" in sign.evidence[0]
        assert stands(watching) is WatchStanding.SERVING


async def test_ten_services_of_a_host_cost_it_one_command_for_each_every(
    redis_url: str, tmp_path: Path
) -> None:
    """On a busy machine some are looked at by themselves."""
    async with ten(redis_url, tmp_path) as room:
        await until(lambda: room.least() >= 2)
        shown, checks = room.shown(), room.least()
        await until(lambda: room.least() >= checks + 5)
        assert room.shown() - shown <= 2 * 5
        assert len(room.server.commands) - room.shown() <= 1  # the boot, asked once a connection


async def test_engines_are_not_given_less_time_because_another_host_hangs(
    redis_url: str, tmp_path: Path
) -> None:
    """A look waits two seconds for that one, which is all that engines are given; they need half of it."""
    (tmp_path / "far").mkdir()
    async with serve(tmp_path / "far") as other, connect(other) as far:
        other.answers["cat"] = hang
        async with ten(redis_url, tmp_path, far=far) as room:
            await until(lambda: room.least() >= 2)
            for engine in room.engines.values():
                engine.slow = 1.2
            checks = room.least()
            await until(lambda: room.least() >= checks + 2)
            standings = {entry.watch.state.standing for entry in room.watching.entries.values()}
            assert WatchStanding.DOWN not in standings
            assert room.orders.of(OpenIncident) == []


async def test_one_service_of_which_redis_does_not_tell_holds_up_no_other(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = Store.holder

    async def tell(self: Store, service: ServiceName) -> Any:
        if service == TEN[0]:
            raise StoreUnavailable("no answer in time")
        return await holder(self, service)

    monkeypatch.setattr(Store, "holder", tell)
    async with ten(redis_url, tmp_path) as room:
        standing = {name: entry.watch.state for name, entry in room.watching.entries.items()}
        await until(lambda: all(standing[name].standing is WatchStanding.SERVING for name in TEN[1:]))
        assert standing[TEN[0]].standing is WatchStanding.UNKNOWN
        monkeypatch.undo()
        await until(lambda: standing[TEN[0]].standing is WatchStanding.SERVING)


def test_a_host_that_was_slow_to_answer_leaves_its_engines_their_time() -> None:
    far: asyncio.Future[Seen] = cast("Any", None)
    slow = Look(datetime.now(UTC), time.monotonic(), Seen(), far, alone=True, least=3.0)
    assert slow.left == 3.0
    quick = replace(slow, end=time.monotonic() + 60)
    assert 50 < quick.left <= 60


async def test_a_dark_host_on_which_something_answers_another_way_is_not_gone(redis_url: str) -> None:
    async with watchmen(redis_url, service={"reach": "direct"}) as room:
        orders = Orders()
        watching = await watch(room, orders)
        await serving(watching)
        await room.far.go_dark()
        await until(lambda: bool(orders.of(OpenIncident)))
        [opened] = [order for order in orders.of(OpenIncident) if isinstance(order, OpenIncident)]
        assert (opened.plan.service, opened.plan.severity) == (None, Severity.DEGRADED)
        [sign] = opened.plan.signs
        assert sign.sentence == "SSH does not answer, though 1 service on it can be reached another way"
        assert stands(watching) is WatchStanding.SERVING


@dataclass
class Refusing(Healthy):
    """Nothing listens on its port, on a host that runs."""

    async def check(self, *, whole: bool = True, host_within: float | None = None) -> ProbeAnswer:
        await super().check(whole=whole, host_within=host_within)
        return ProbeAnswer(error=PORT_REFUSED)


async def test_a_dark_host_on_which_a_port_refuses_is_not_gone(redis_url: str) -> None:
    async with watchmen(redis_url, service={"reach": "direct"}) as room:
        orders = Orders()
        watching = await watch(room, orders)
        await serving(watching)
        cast("dict[ServiceName, Any]", room.ground.probes)[SERVICE] = Refusing()
        await room.far.go_dark()

        def of_host() -> list[OpenIncident]:
            opened = [order for order in orders.of(OpenIncident) if isinstance(order, OpenIncident)]
            return [order for order in opened if order.plan.service is None]

        await until(lambda: bool(of_host()))
        [opened] = of_host()
        assert opened.plan.severity is Severity.DEGRADED
        [sign] = opened.plan.signs
        told = "SSH does not answer, though the host is there and refuses connections to"
        assert sign.sentence == f"{told} {SERVICE}"

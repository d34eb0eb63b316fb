"""What happens to a unit reaches its machine, and what that orders is carried out."""

from __future__ import annotations

from bot.core.events import LogLine, Origin, ProbeAnswer
from bot.core.monitor_events import Checked, OpenIncident, TellStopped, UnitLine, WatchStart
from bot.core.monitor_state import WatchStanding
from tests.support.waiting import until
from tests.support.watch_duty import Orders, serving, stands, watch
from tests.support.watchmen import HOST, SERVICE, watchmen


async def test_a_restart_in_a_terminal_is_followed(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        orders = Orders()
        watching = await watch(room, orders)
        await serving(watching)
        room.far.unit.submit("restart")
        await until(lambda: bool(orders.of(WatchStart)))
        assert orders.of(OpenIncident) == orders.of(TellStopped) == []


async def test_a_look_from_before_a_line_that_proves_an_end_is_not_told(redis_url: str) -> None:
    """The round asks, the engine dies, its line is heard; then the round's good answers arrive."""
    async with watchmen(redis_url, service={"monitor": {"successes": 1, "every": "1h"}}) as room:
        orders = Orders()
        watching = await watch(room, orders)
        await serving(watching)
        entry, asked = watching.entries[SERVICE], room.ground.clock.now()
        unit = await room.ground.hosts[HOST].show(room.unit, scope="system")
        text = "Scheduler hit an exception: Traceback (most recent call last):"
        line = LogLine(text, text, origin=Origin.SERVICE, invocation=room.run)
        await watching.tell_line(SERVICE, UnitLine(room.member, line))
        assert stands(watching) is WatchStanding.DOWN
        good = Checked(ProbeAnswer(health=200), {room.member: unit})
        assert not await watching._machines.tell(entry, good, asked=asked)
        assert stands(watching) is WatchStanding.DOWN
        assert await watching._machines.tell(entry, good, asked=room.ground.clock.now())

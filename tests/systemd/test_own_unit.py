"""systemd runs the bot: active when it is ready, killed and started again when it hangs, stopped in order."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest_asyncio

from bot.practice.slack import PracticeSlack
from tests.support.real_workspace import ALICE, CHANNEL, WITHIN
from tests.support.redis_many import LOOPBACK, Node, free_ports
from tests.systemd.own_unit import UNIT, OwnUnit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.systemd.real_host import RealHost


class Room:
    def __init__(self, unit: OwnUnit, slack: PracticeSlack, redis: Node) -> None:
        self.unit = unit
        self.slack = slack
        self.redis = redis

    async def until(self, holds: Callable[[dict[str, str]], bool]) -> dict[str, str]:
        """The unit's facts once `holds`; fails with its log."""
        facts: dict[str, str] = {}
        try:
            async with asyncio.timeout(WITHIN):
                while not holds(facts := await self.unit.facts()):  # noqa: ASYNC110 - systemd alone knows
                    await asyncio.sleep(0.1)
        except TimeoutError as error:
            raise AssertionError(f"{facts}\n{await self.unit.log()}") from error
        return facts

    def thread(self) -> list[str]:
        """The root as it is now, and the replies; of all threads, of which there must be one."""
        roots = [m for m in self.slack.channel_messages(CHANNEL) if m.bot and m.thread_ts is None]
        return [m.plain for root in roots for m in self.slack.thread(CHANNEL, root.ts)]

    async def told(self, word: str) -> None:
        try:
            await self.slack.wait_for(lambda _: word in " ".join(self.thread()) or None, WITHIN)
        except TimeoutError as error:
            raise AssertionError(f"{self.thread()}\n{await self.unit.log()}") from error


@pytest_asyncio.fixture
async def room(real_host: RealHost) -> AsyncIterator[Room]:
    async with AsyncExitStack() as stack:
        redis = Node(free_ports(1)[0], {"bind": LOOPBACK, "save": '""'})
        stack.callback(redis.remove)
        redis.start()
        slack = PracticeSlack()
        slack.add_user(ALICE, "alice")
        slack.add_channel(CHANNEL, "llm-ops")
        stack.push_async_callback(slack.stop)
        await slack.start()
        unit = OwnUnit(real_host)
        unit.install(slack, redis_url=f"redis://{LOOPBACK}:{redis.port}/0")
        stack.push_async_callback(unit.remove)
        await real_host.run("systemctl daemon-reload")
        yield Room(unit, slack, redis)
    assert slack.refusals == []


async def test_it_is_active_when_ready_killed_when_it_hangs_and_goes_on_where_it_stood(
    room: Room, real_host: RealHost
) -> None:
    # A Redis that does not answer: the process runs, and is not ready.
    room.redis.process.send_signal(signal.SIGSTOP)
    await real_host.run(f"systemctl start --no-block {UNIT}")
    facts = await room.until(lambda facts: facts["StatusText"] == "not ready: starting")
    assert (facts["ActiveState"], facts["SubState"]) == ("activating", "start")
    room.redis.process.send_signal(signal.SIGCONT)
    await room.until(lambda facts: facts["StatusText"] == "ready; startups: 0 under way")
    facts = await room.until(lambda facts: facts["ActiveState"] == "active")

    await real_host.set_scenario("healthy", seconds={"weights": 8.0})
    began = (await real_host.run("date +%s.%N")).strip()
    assert (await room.slack.slash(ALICE, CHANNEL, "restart kimi-k2.5")).acknowledged
    await room.told("loading weights")
    before = facts["NRestarts"]

    # It hangs: nothing of it answers any more. The watchdog's signal wakes it only to end it.
    await real_host.run(f"systemctl kill --signal=SIGSTOP --kill-whom=main {UNIT}")
    after = await room.until(
        lambda now: now["NRestarts"] != before and now["ActiveState"] == "active" and now["MainPID"] != "0"
    )
    assert after["MainPID"] != facts["MainPID"]
    log = await room.unit.log()
    assert "Watchdog timeout" in log
    assert "Fatal Python error: Aborted" in log  # and where each thread stood

    await room.told("Where the time went")
    await real_host.run(f"systemctl stop {UNIT}")
    assert (await room.unit.facts())["Result"] == "success"
    _, *replies = room.thread()
    assert len(replies) == len(set(replies))
    assert sum("*healthy*" in reply for reply in replies) == 1
    assert sum("Weights loaded" in reply for reply in replies) == 1, "\n".join(
        [*replies, await room.unit.log()]
    )
    told = await real_host.run(f"journalctl -u {real_host.unit} -o cat --no-pager --since=@{began}")
    assert sum(line.startswith("Started ") for line in told.splitlines()) == 1
    assert '"event": "stopped"' in await room.unit.log()

"""An outage from its fault to its end, whose bot is killed at any of its side effects.

The service dies, and stays so until its incident stands in Slack; then somebody starts it in a terminal, and
that start waits until its own thread stands there too. So whoever is killed misses nothing that happened, and
the threads at the end hold what those of an undisturbed outage hold: once each, in order.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from aiohttp import web

from bot.clients.store_incidents import IncidentStore
from bot.clients.store_watches import Watches
from bot.core.events import HostName, ServiceName
from bot.core.monitor_state import WatchStanding
from bot.practice.scenarios.outages import amid, fall_in_forward
from bot.practice.workspace import CHANNEL, SERVICE
from bot.watch_plans import WATCH_STATE
from tests.support.kill_matrix import AT_ONCE, EVERY, REACHED, choose_points
from tests.support.killing import AFTER_A_DEATH, BRIEF, Stage, kind_of, staged, until, until_awaited

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bot.practice.scenarios import Scenario
    from bot.practice.scenarios.stage import Stage as PracticeStage
    from bot.practice.slack_state import PostedMessage
    from tests.support.killing import Nursery

LEAST = 15
SHARES = range(4 if EVERY else 1)
TIMEOUT = 1800 if EVERY else 240
SPEED = 40.0
# Of a start alone: a restart whose bot is killed at these is another matrix.
_OF_STARTS = (
    "TAKE",
    "SETTLE",
    "RELEASE",
    "baseline",
    "setup",
    "kimi:open",
    "SWAP",
    "kimi:at",
    "files",
    "upload",
)
SAID_TO_DIE, HEALTHY = "Process died by SIGKILL", ["root: healthy", "✅ *healthy*"]
DIED, STARTED = "died by SIGKILL", "Someone or something outside chat"


@dataclass(slots=True)
class Script:
    """What happens to the service when the test lets it."""

    breaks: asyncio.Event = field(default_factory=asyncio.Event)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)

    def scenario(self) -> Scenario:
        [brief] = BRIEF.scripts

        async def die(stage: PracticeStage) -> None:
            await self.breaks.wait()
            await fall_in_forward(stage)

        async def start(stage: PracticeStage) -> None:
            await self.goes_on.wait()
            await brief(stage)

        return replace(BRIEF, name="dies-once", scripts=(start,), serving=amid(die))


@dataclass(slots=True)
class Outage:
    """`heard`: what other tools were told, as it came."""

    stage: Stage
    script: Script
    heard: list[dict[str, Any]]

    async def play(self) -> None:
        """From a service that serves to one that does again; whoever has to tell it lives or not."""
        await until_awaited(self._is_watched)
        self.script.breaks.set()
        await until(self._is_seen)
        self.stage.workspace.host.unit.submit("start")
        await until(lambda: len(self.stage.roots()) > 1)
        self.script.goes_on.set()
        await until_awaited(self._is_over)

    def _is_seen(self) -> bool:
        """Whether the thread tells both of the line that proves the end, and of the end itself."""
        return any(DIED in message.plain for root in self.stage.roots() for message in self._thread(root))

    def _thread(self, root: PostedMessage) -> list[PostedMessage]:
        return self.stage.workspace.slack.thread(CHANNEL, root.ts)

    async def _is_watched(self) -> bool:
        """Whether whoever watches has seen it serve, and has that on record."""
        watches = Watches(self.stage.store.link)
        watched = await watches.read(HostName("llm-two"), ServiceName(SERVICE))
        return watched is not None and (
            WATCH_STATE.validate_json(watched.state).standing is WatchStanding.SERVING
        )

    async def _is_over(self) -> bool:
        found = await IncidentStore(self.stage.store.link).opened()
        if not found or any(record.over is None or record.owed for record in found):
            return False
        closed = await self.stage.store.history(ServiceName(SERVICE), 1)
        return bool(closed) and await self.stage.store.queue.pending() == 0

    def threads(self) -> list[list[str]]:
        """What each says, as kinds; the incident first.

        What the log says and what systemd does come from two places at once, in either order; which of them
        came first stands in the root alone.
        """
        roots = sorted(self.stage.roots(), key=lambda root: float(root.ts))
        threads = [[_kind_of(message) for message in self._thread(root)] for root in roots]
        for thread in threads[:1]:
            first = next((at for at, word in enumerate(thread) if word.startswith(STARTED)), len(thread))
            said = thread[1:first]
            thread[1:first] = sorted(said if SAID_TO_DIE in said else [*said, SAID_TO_DIE])
        return threads

    def doubles(self) -> list[str]:
        """Messages that stand there twice, by the names that make each of ours one."""
        messages = [message for root in self.stage.roots() for message in self._thread(root)]
        payloads = [message.metadata["event_payload"] for message in messages if message.metadata]
        counts = Counter(str(payload["id"]) for payload in payloads)
        return [name for name, count in counts.items() if count > 1]

    def told(self) -> list[str]:
        """What other tools were told, each when it came first."""
        return list(dict.fromkeys(each["event"] + " " + each["id"].rpartition("-")[2] for each in self.heard))

    def untold(self) -> list[str]:
        """Of what other tools were told, what came out of order."""
        numbers = list(dict.fromkeys(each["sequence"] for each in self.heard))
        return [] if numbers == sorted(numbers) else [str(numbers)]

    async def compare(self, usual: list[list[str]]) -> list[str]:
        """What is wrong with the end; nothing, where the threads are the usual ones."""
        (told, *starts), store = self.threads(), self.stage.store
        excused = [word for start in starts for word in start if word.startswith(AFTER_A_DEATH)]
        started = [[word for word in start if word not in excused] for start in starts]
        incidents = await IncidentStore(store.link).opened()
        [*_, closed] = await store.history(ServiceName(SERVICE), 5)
        facts = {
            "incident": (told, usual[0]),
            "starts": (started, usual[1:]),
            "start": ([word for start in started for word in start if "healthy" in word], HEALTHY),
            "doubles": (self.doubles(), []),
            "too often": (self.stage.told_too_often(excused), []),
            "incidents": (len(incidents), 1),
            "the start": (closed.verdict, "healthy"),
            "orders": (self.stage.orders(), []),
            "webhook, ends": ([self.heard[0]["event"], self.heard[-1]["event"]], ["opened", "resolved"]),
            "webhook, order": (self.untold(), []),
            "parked": (await store.parked(), []),
            "set aside": (await store.unreadable(), []),
            "open": (await store.open_operations(), []),
        }
        return [f"{name}: {found}, not {right}" for name, (found, right) in facts.items() if found != right]


def _kind_of(message: PostedMessage) -> str:
    """Without how long it took, which a root tells."""
    kind = kind_of(message)
    return "root: over" if kind.startswith("root:") and "was down " in message.plain else kind


@asynccontextmanager
async def outage(nursery: Nursery, folder: Path) -> AsyncIterator[Outage]:
    script, heard = Script(), []

    async def hear(request: web.Request) -> web.Response:
        heard.append(await request.json())
        return web.Response(status=204)

    app = web.Application()
    app.add_routes([web.post("/told", hear)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/told"
    try:
        async with staged(
            nursery, folder, speed=SPEED, scenario=script.scenario(), watched=True, webhook=url
        ) as stage:
            yield Outage(stage, script, heard)
    finally:
        await runner.cleanup()


async def play_undisturbed(nursery: Nursery, folder: Path) -> tuple[list[str], list[list[str]]]:
    """The side effects and the threads of an outage in which nobody dies."""
    async with outage(nursery, folder) as found:
        bot = await found.stage.bring_up()
        await found.stage.connected(bot)
        await found.play()
        return bot.points(), found.threads()


async def play_killed(found: Outage, point: str) -> bool:
    """Whether the bot came to that point at all."""
    first = await found.stage.bring_up(choose=point)
    over = asyncio.create_task(found.play())
    await until(lambda: first.ended.done() or over.done())
    if first.ended.done():
        assert first.ended.result() == -signal.SIGKILL
        await found.stage.bring_up()
    await over
    return first.ended.done()


async def play_share(when: str, share: int, *, nursery: Nursery, folder: Path) -> None:
    """Killed `when` ("before" or "after") each of one part of the chosen side effects."""
    points, usual = await play_undisturbed(nursery, folder / "usual")
    chosen = [
        point for point in choose_points(points) if EVERY or not any(kind in point for kind in _OF_STARTS)
    ]
    assert len(chosen) >= LEAST
    mine = [point for point in chosen if point.startswith(when)][share :: len(SHARES)]
    room = asyncio.Semaphore(AT_ONCE)
    faults: list[str] = []

    async def one(number: int, point: str) -> bool:
        async with room, outage(nursery, folder / str(number)) as found:
            found.stage.apart = number % 2 == 1
            try:
                reached = await play_killed(found, point)
                faults.extend(f"{point}: {fault}" for fault in await found.compare(usual))
            except TimeoutError:
                faults.append(f"{point}: it came to no end: {found.threads()}, {found.told()}")
                return True
            return reached

    reached = sum(await asyncio.gather(*(one(number, point) for number, point in enumerate(mine))))
    print(f"{when}, share {share}: killed at {reached} of {len(mine)}; {len(points)} side effects in all")  # noqa: T201
    assert not faults, "\n".join(faults)
    assert reached >= len(mine) * REACHED

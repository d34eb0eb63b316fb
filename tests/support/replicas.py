"""Bot processes on one Redis and one practice host, without ears: each may die, sleep, or leave in order."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from bot.app import App
from bot.clients.slack import Outbox, Timing, connect_slack
from bot.clients.slack_history import Archive
from bot.clients.store import Store
from bot.core.events import ChannelId, ServiceName, UserId, Verb
from bot.core.request import Request, Started
from bot.practice.scenarios import SCENARIOS
from bot.practice.workspace import ALICE, API_KEY, CHANNEL, SERVICE, PracticeWorkspace
from bot.recovery import Recovery
from bot.schedule import Schedule
from bot.startups import Startups
from config.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bot.clients.records import Operation
    from bot.core.events import OperationId
    from bot.practice.slack_state import PostedMessage

LEASE = 1.5  # seconds
NAME = ServiceName(SERVICE)
WITHIN = 60.0


@dataclass(slots=True)
class Replica:
    """One process; its parts end apart, as a test wants it."""

    app: App
    store: Store
    startups: Startups
    outbox: Outbox
    schedule: Schedule
    leases: asyncio.Task[None]
    is_gone: bool = False

    async def die(self) -> None:
        """As SIGKILL does it: nothing is let go, nothing is said."""
        if not self.is_gone:
            self.is_gone = True
            self.schedule.close()
            await self.app.tasks.close(grace=5)
            await self._close()

    def doze(self) -> None:
        """Its lease is renewed no more, and it does not know."""
        self.leases.cancel()

    async def leave(self) -> None:
        """As SIGTERM does it."""
        if not self.is_gone:
            self.is_gone = True
            self.schedule.close()
            await self.startups.hand_over()
            await self.outbox.drain(5)
            self.leases.cancel()
            await self.store.leases.close()
            await self.app.tasks.close(grace=5)
            await self._close()

    async def _close(self) -> None:
        await self.app.close()  # hosts and probes
        await self.store.link.close()

    async def begin(self, verb: Verb = Verb.RESTART, **changes: Any) -> OperationId:
        request = Request(NAME, verb, UserId(ALICE), channel=ChannelId(CHANNEL), confirmed=True, **changes)
        answer = await self.startups.request(request)
        assert isinstance(answer, Started), answer
        return answer.operation


@dataclass(slots=True)
class Replicas:
    workspace: PracticeWorkspace
    redis_url: str
    all: list[Replica] = field(default_factory=list)

    async def start(self, *, outbox: bool = True, adopts: bool = True) -> Replica:
        """`outbox`: it sends to Slack. `adopts`: it looks at once and then every two seconds."""
        slack = self.workspace.slack
        settings = Settings(
            bot_token=SecretStr(slack.bot_token),
            app_token=SecretStr(slack.app_token),
            signing_secret=SecretStr(slack.signing_secret),
            slack_api_url=slack.api_url,
            redis_url=self.redis_url,
        )
        environ = {"PRACTICE_API_KEY": API_KEY}
        clock = self.workspace.clock
        app = App(self.workspace.configuration(), settings, environ=environ, clock=clock)
        store = await Store.open(self.redis_url, lease_seconds=LEASE)
        sender = Outbox(
            connect_slack(slack.bot_token, slack.api_url), store, timing=Timing(LEASE, poll=0.2, settle=0.2)
        )
        startups = Startups(app._lay_ground(store, sender))
        if outbox:
            app.tasks.spawn("outbox", sender.run())
        leases = app.tasks.spawn("leases", store.leases.run())
        if adopts:
            await startups.adopt()
        schedule = Schedule(startups, clock=clock)
        schedule.start()
        if not adopts:
            job = next(job for job in schedule._scheduler.get_jobs() if job.name == "adopt_soon")
            job.remove()
        replica = Replica(app, store, startups, sender, schedule, leases)
        self.all.append(replica)
        return replica

    async def until(self, seen: Callable[[], Any], *, within: float = WITHIN) -> Any:
        return await self.workspace.slack.wait_for(lambda _: seen(), within)

    def roots(self) -> list[PostedMessage]:
        messages = self.workspace.slack.channel_messages(CHANNEL)
        return [message for message in messages if message.bot and message.thread_ts is None]

    def replies(self, root: int = 0) -> list[str]:
        roots = self.roots()
        if len(roots) <= root:
            return []
        return [message.plain for message in self.workspace.slack.thread(CHANNEL, roots[root].ts)[1:]]

    def said(self, word: str, root: int = 0) -> int:
        return sum(word in reply for reply in self.replies(root))

    def orders(self) -> list[str]:
        """The verbs that systemd was told, in order."""
        return self.workspace.host.orders

    async def closed(self, replica: Replica, operation: OperationId) -> Operation:
        """Its record once it is closed and all that was said of it stands in Slack."""
        record: Operation | None = None

        async def look() -> bool:
            nonlocal record
            record = await replica.store.operation(operation)
            return record is not None and record.closed is not None

        await self._until_async(look)
        assert await replica.outbox.drain(WITHIN)
        assert record is not None
        return record

    async def _until_async(self, look: Callable[[], Any]) -> None:
        async with asyncio.timeout(WITHIN):
            while not await look():  # noqa: ASYNC110 - Redis alone knows
                await asyncio.sleep(0.05)


@asynccontextmanager
async def replicas(
    scenario: str = "healthy", *, redis_url: str = "", speed: float = 60.0, **changes: Any
) -> AsyncIterator[Replicas]:
    """`redis_url`: else the workspace's own."""
    changes.setdefault("watched", False)  # what happens between startups has tests of its own
    workspace = PracticeWorkspace(SCENARIOS[scenario], speed=speed, **changes)
    every: Replicas | None = None
    try:
        await workspace.start_surroundings()
        every = Replicas(workspace, redis_url or workspace.redis_url)
        yield every
    finally:
        for replica in every.all if every is not None else ():
            await replica.die()
        await workspace.stop()
    assert workspace.slack.refusals == [], "the stand-in Slack refused a call"


async def watch_over(every: Replicas, replica: Replica) -> Recovery:
    slack = every.workspace.slack
    archive = Archive(connect_slack(slack.bot_token, slack.api_url))
    recovery = Recovery(replica.startups.ground, replica.startups, archive)
    await recovery.open()
    replica.app.tasks.spawn("recovery", recovery.run())
    await every.until(lambda: not replica.startups.barred)
    return recovery


def loading(every: Replicas) -> bool:
    return bool(every.said("Ranks connected"))

"""The bot between a practice Slack, a real Redis, and a service on whatever host a test has."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from bot.app import App
from bot.clock import Clock
from bot.core.events import ServiceName
from bot.practice.redis import EmbeddedRedis
from bot.practice.slack import PracticeSlack
from config.services import AccessSection, Configuration, HostSection, ServiceSection, SlackSection
from config.settings import Settings
from tests.support.pace import hurried

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bot.clients.records import Operation
    from bot.practice.slack_state import PostedMessage

ENVIRON: dict[str, Any] = {"ENGINE_KEY": "kimi-seeded-secret-0123456789"}
ALICE, CHANNEL, SERVICE = "U0ALICE", "C0LLMOPS", "kimi-k2.5"
WITHIN = 60.0


@dataclass(slots=True)
class RealWorkspace:
    slack: PracticeSlack
    configuration: Configuration
    settings: Settings
    app: App
    clock: Clock | None = None

    async def stop(self) -> None:
        """The process ends in order."""
        await self.app.close()

    async def start_anew(self) -> None:
        """The next process, on the same Redis and the same Slack."""
        self.app = App(self.configuration, self.settings, environ=ENVIRON, clock=self.clock)
        await self.app.start()

    async def begin(self, words: str) -> PostedMessage:
        before = len(self.roots())
        outcome = await self.slack.slash(ALICE, CHANNEL, words)
        assert outcome.acknowledged
        return (await self.slack.wait_for(lambda _: self.roots()[before:] or None, WITHIN))[0]

    def roots(self) -> list[PostedMessage]:
        return [m for m in self.slack.channel_messages(CHANNEL) if m.bot and m.thread_ts is None]

    def root(self) -> PostedMessage:
        return self.roots()[-1]

    def replies(self) -> list[PostedMessage]:
        return self.slack.thread(CHANNEL, self.root().ts)[1:]

    async def reply(self, word: str) -> PostedMessage:
        return await self.slack.wait_for(
            lambda _: next((m for m in self.replies() if word in m.plain), None), WITHIN
        )

    async def verdict(self) -> Operation:
        startups = self.app.startups
        await self.slack.wait_for(lambda _: not startups.running or None, WITHIN)
        assert await startups.ground.outbox.drain(WITHIN)
        [operation] = await startups.ground.store.history(ServiceName(SERVICE), 1)
        return operation


@asynccontextmanager
async def real_workspace(
    folder: Path, *, host: HostSection, service: ServiceSection, clock: Clock | None = None
) -> AsyncIterator[RealWorkspace]:
    """Ends with the proof that the stand-in Slack had nothing to refuse."""
    slack = PracticeSlack()
    async with AsyncExitStack() as stack:
        redis = EmbeddedRedis(folder / "redis")
        stack.push_async_callback(redis.stop)
        url = await redis.start()
        slack.add_user(ALICE, "alice")
        slack.add_channel(CHANNEL, "llm-ops")
        stack.push_async_callback(slack.stop)
        await slack.start()
        stack.enter_context(hurried(slack))
        settings = Settings(
            bot_token=SecretStr(slack.bot_token),
            app_token=SecretStr(slack.app_token),
            signing_secret=None,
            slack_api_url=slack.api_url,
            redis_url=url,
        )
        configuration = Configuration(
            slack=SlackSection(channel=CHANNEL),
            access=AccessSection(operators=(ALICE,), channels=(CHANNEL,)),
            hosts={str(service.host): host},
            services={SERVICE: service},
        )
        app = App(configuration, settings, environ=ENVIRON, clock=clock)
        room = RealWorkspace(slack, configuration, settings, app, clock)
        stack.push_async_callback(room.stop)
        await room.app.start()
        yield room
    assert slack.refusals == []
    assert slack.warnings == []

"""An outbox between a real Redis and the practice Slack, with short waits."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from typing import TYPE_CHECKING

from bot.clients.slack import Outbox, Pace, Timing, connect_slack
from bot.clients.store import Store
from bot.core.events import ChannelId
from bot.practice.slack import PracticeSlack
from tests.support.outgoing import CHANNEL, OTHER_CHANNEL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from bot.practice.slack_state import PostedMessage

PATIENCE = 60.0  # seconds, for a busy machine
QUICK = Timing(lease=1.0, poll=0.02, settle=0.02, longest=0.1)
# Fast enough for tests, slow enough that coalescing shows.
BRISK = Pace(post_interval=0.001, post_burst=100, edit_interval=0.001, edit_burst=100, root_interval=0.05)
CALL_SECONDS = 0.5


async def until(predicate: Callable[[], Awaitable[bool] | bool], seconds: float = PATIENCE) -> None:
    """For what tells nobody when it changes."""
    async with asyncio.timeout(seconds):
        while True:
            found = predicate()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(0.01)


class Stage:
    """Slack, a store, and as many outboxes as a test wants."""

    def __init__(self, slack: PracticeSlack, store: Store) -> None:
        self.slack = slack
        self.store = store

    @contextlib.asynccontextmanager
    async def outbox(
        self,
        *,
        pace: Pace = BRISK,
        timing: Timing = QUICK,
        fallback: str | None = None,
        call_seconds: float = CALL_SECONDS,
    ) -> AsyncIterator[Outbox]:
        """Runs inside the block; its end is a cancellation, as at the stop of the bot."""
        outbox = self.idle_outbox(pace=pace, timing=timing, fallback=fallback, call_seconds=call_seconds)
        running = asyncio.create_task(outbox.run())
        try:
            yield outbox
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    def idle_outbox(
        self,
        *,
        pace: Pace = BRISK,
        timing: Timing = QUICK,
        fallback: str | None = None,
        call_seconds: float = CALL_SECONDS,
    ) -> Outbox:
        web = connect_slack(self.slack.bot_token, self.slack.api_url, timeout=call_seconds)
        channel = ChannelId(fallback) if fallback else None
        return Outbox(web, self.store, pace=pace, timing=timing, fallback=channel)

    async def deliver(self, *, pace: Pace = BRISK) -> Outbox:
        """Everything that is queued, by an outbox that then stops."""
        async with self.outbox(pace=pace) as outbox:
            assert await outbox.drain(PATIENCE), self.slack.refusals
        return outbox

    def thread(self, channel: str = CHANNEL) -> list[str]:
        """The texts of the channel's first thread."""
        roots = self.slack.channel_messages(channel)
        return [message.text for message in self.slack.thread(channel, roots[0].ts)] if roots else []

    def root(self, channel: str = CHANNEL) -> PostedMessage:
        return self.slack.channel_messages(channel)[0]

    def calls(self, method: str) -> int:
        return sum(call.method == method for call in self.slack.calls)


@contextlib.asynccontextmanager
async def open_stage(redis_url: str) -> AsyncIterator[Stage]:
    async with open_slack() as slack:
        store = await Store.open(redis_url)
        try:
            yield Stage(slack, store)
        finally:
            await store.close()


@contextlib.asynccontextmanager
async def open_slack() -> AsyncIterator[PracticeSlack]:
    slack = PracticeSlack(rates={})
    await slack.start()
    slack.add_channel(CHANNEL, "llm-ops")
    slack.add_channel(OTHER_CHANNEL, "llm-dev")
    try:
        yield slack
    finally:
        await slack.stop()

"""Bolt apps against the practice Slack, as a product would run them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from bot.practice.slack import PracticeSlack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ALICE, BOB, OPS = "U0ALICE", "U0BOB", "C0OPS"


@asynccontextmanager
async def practice_slack(**options: object) -> AsyncIterator[PracticeSlack]:
    """A workspace with Alice, Bob and #llm-ops."""
    slack = PracticeSlack(**options)  # type: ignore[arg-type]
    slack.add_user(ALICE, "alice")
    slack.add_user(BOB, "bob")
    slack.add_channel(OPS, "llm-ops")
    await slack.start()
    try:
        yield slack
    finally:
        await slack.stop()


def web_client(slack: PracticeSlack, token: str | None = None) -> AsyncWebClient:
    return AsyncWebClient(token=token or slack.bot_token, base_url=slack.api_url, retry_handlers=[])


def bolt_app(slack: PracticeSlack) -> AsyncApp:
    return AsyncApp(client=web_client(slack), signing_secret=slack.signing_secret)


@asynccontextmanager
async def connected(slack: PracticeSlack, app: AsyncApp) -> AsyncIterator[AsyncSocketModeHandler]:
    """The app on Socket Mode, until the block ends."""
    handler = AsyncSocketModeHandler(
        app, slack.app_token, web_client=web_client(slack, slack.app_token), ping_interval=0.2
    )
    await handler.connect_async()  # type: ignore[no-untyped-call]
    try:
        yield handler
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]

"""The slash command `/kimi`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from bot.clients.records import Intent
from bot.core.events import ChannelId, UserId
from handlers.voices import SlashVoice
from handlers.whispers import Whisper

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncRespond

    from handlers.intents import Intents
    from handlers.parts import Parts

COMMAND = "/kimi"


def register(app: AsyncApp, parts: Parts, intents: Intents) -> None:
    @app.command(COMMAND)
    async def hear(ack: AsyncAck, respond: AsyncRespond, body: dict[str, Any]) -> None:
        intent = Intent(
            token=body.get("trigger_id") or uuid4().hex,  # without it nothing tells a repeat
            owner=intents.owner,
            at=datetime.now(UTC),
            user=UserId(body["user_id"]),
            channel=ChannelId(body["channel_id"]),
            words=parts.mask(body.get("text") or ""),
        )
        otherwise = Whisper(parts.client, body["channel_id"], body["user_id"])
        await intents.receive(intent, SlashVoice(ack, respond, otherwise))

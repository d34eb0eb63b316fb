"""The slash command `/kimi`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from bot.core.events import ChannelId, UserId
from handlers.dialogue import GRACE, Speaker
from handlers.voices import SlashVoice

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncRespond

    from handlers.dialogue import Dialogue
    from handlers.parts import Parts

COMMAND = "/kimi"


def register(app: AsyncApp, parts: Parts, dialogue: Dialogue) -> None:
    @app.command(COMMAND)
    async def hear(ack: AsyncAck, respond: AsyncRespond, body: dict[str, Any]) -> None:
        voice = SlashVoice(ack, respond)
        speaker = Speaker(UserId(body["user_id"]), ChannelId(body["channel_id"]))
        work = dialogue.hear(body.get("text", ""), token=body["trigger_id"], speaker=speaker, voice=voice)
        # A quick answer comes with the acknowledgement; a slow one follows it.
        await asyncio.wait({parts.tasks.spawn("command", work)}, timeout=GRACE)
        await voice.acknowledge()

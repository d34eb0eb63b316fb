"""Mentions: `@kimi …` in a channel or, where slash commands cannot be typed, in a thread."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bot.core.events import ChannelId, MessageTs, UserId
from handlers.dialogue import Speaker
from handlers.voices import EphemeralVoice

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp, AsyncBoltContext

    from handlers.dialogue import Dialogue
    from handlers.parts import Parts


def register(app: AsyncApp, parts: Parts, dialogue: Dialogue) -> None:
    @app.event("app_mention")
    async def hear(event: dict[str, Any], body: dict[str, Any], context: AsyncBoltContext) -> None:
        if "user" not in event or "bot_id" in event:
            return  # programs do not get answers, so that two bots cannot talk for ever
        thread = event.get("thread_ts")
        speaker = Speaker(
            UserId(event["user"]), ChannelId(event["channel"]), MessageTs(thread) if thread else None
        )
        voice = EphemeralVoice(parts.client, event["channel"], event["user"], thread)
        words = read_words(event.get("text", ""), context.bot_user_id)
        work = dialogue.hear(words, token=body["event_id"], speaker=speaker, voice=voice)
        parts.tasks.spawn("mention", work)


def read_words(text: str, bot: str | None) -> str:
    """What stands behind the mention, or before it where nothing stands behind."""
    if bot is None:
        return text
    before, *behind = re.split(rf"<@{re.escape(bot)}(?:\|[^<>]*)?>", text, maxsplit=1)
    return behind[0] if behind and behind[0].strip() else before

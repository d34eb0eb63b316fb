"""Modals: the question for a restart's reason, opened from the Home tab."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from bot.core.command import Command, Word
from bot.core.events import UserId
from handlers.actions import read_press
from handlers.dialogue import GRACE, Speaker
from handlers.voices import ModalVoice

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncAck, AsyncApp

    from handlers.dialogue import Dialogue
    from handlers.parts import Parts


def register(app: AsyncApp, parts: Parts, dialogue: Dialogue) -> None:
    @app.view("kimi:restart")
    async def submit(ack: AsyncAck, body: dict[str, Any], view: dict[str, Any]) -> None:
        service = read_press({"value": view.get("private_metadata")}).service
        if service is None:
            await ack()
            return
        voice = ModalVoice(ack, parts.client, view["id"])
        work = dialogue.obey(
            Command(Word.RESTART, service, reason=read_reason(view)),
            token=body["trigger_id"],
            speaker=Speaker(UserId(body["user"]["id"]), None),
            voice=voice,
            confirmed=False,
        )
        await asyncio.wait({parts.tasks.spawn("modal", work)}, timeout=GRACE)
        await voice.acknowledge()


def read_reason(view: dict[str, Any]) -> str:
    """What was typed, on one line; nothing where the field was left empty."""
    typed = view.get("state", {}).get("values", {}).get("reason", {}).get("reason", {}).get("value")
    return " ".join((typed or "").split())

"""Modals: the question for a restart's reason, opened from the Home tab."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bot.clients.records import Intent
from bot.core.command import Command, Word
from bot.core.events import UserId
from handlers.actions import read_press
from handlers.dialogue import COMMAND
from handlers.voices import ModalVoice

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncAck, AsyncApp

    from handlers.intents import Intents
    from handlers.parts import Parts


def register(app: AsyncApp, parts: Parts, intents: Intents) -> None:
    @app.view("kimi:restart")
    async def submit(ack: AsyncAck, body: dict[str, Any], view: dict[str, Any]) -> None:
        service = read_press({"value": view.get("private_metadata")}).service
        if service is None:
            await ack()
            return
        intent = Intent(
            token=body["trigger_id"],
            owner=intents.owner,
            at=datetime.now(UTC),
            user=UserId(body["user"]["id"]),
            command=COMMAND.dump_json(
                Command(Word.RESTART, service, reason=parts.mask(read_reason(view)))
            ).decode(),
            view=view["id"],
        )
        await intents.receive(intent, ModalVoice(ack, parts.client, view["id"], intent.user))


def read_reason(view: dict[str, Any]) -> str:
    """What was typed, on one line; nothing where the field was left empty."""
    typed = view.get("state", {}).get("values", {}).get("reason", {}).get("reason", {}).get("value")
    return " ".join((typed or "").split())

"""What people do in Slack, filed by Slack's own features; each handler hands over and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from handlers import actions, commands, home, mentions, views
from handlers.intents import Intents

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from handlers.parts import Parts

log = structlog.get_logger()


def register(app: AsyncApp, parts: Parts) -> Intents:
    """Binds every handler to `app`. What is returned must look now and then for what dead processes left."""
    intents = Intents(parts)
    commands.register(app, parts, intents)
    mentions.register(app, parts, intents)
    actions.register(app, parts, intents)
    views.register(app, parts, intents)
    home.register(app, parts)

    @app.error
    async def failed(error: Exception, body: dict[str, Any]) -> None:
        log.error("handler_failed", kind=body.get("type", body.get("command")), exc_info=error)

    return intents

"""What people do in Slack, filed by Slack's own features; each handler hands over and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from handlers import actions, commands, home, mentions, views
from handlers.dialogue import Dialogue

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from handlers.parts import Parts

log = structlog.get_logger()


def register(app: AsyncApp, parts: Parts) -> None:
    """Binds every handler to `app`."""
    dialogue = Dialogue(parts)
    commands.register(app, parts, dialogue)
    mentions.register(app, parts, dialogue)
    actions.register(app, parts, dialogue)
    views.register(app, parts, dialogue)
    home.register(app, parts)

    @app.error
    async def failed(error: Exception, body: dict[str, Any]) -> None:
        log.error("handler_failed", kind=body.get("type", body.get("command")), exc_info=error)

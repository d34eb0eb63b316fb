"""Mentions: `@kimi …` in a channel or, where slash commands cannot be typed, in a thread."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from slack_bolt.response import BoltResponse

from bot.clients.records import Intent
from bot.core.answers import REDIS_GONE_FOR_NOW, render_sentence
from bot.core.events import ChannelId, MessageTs, UserId
from bot.errors import CommandRefused, StoreUnavailable
from handlers.turns import Turn
from handlers.voices import restore_voice

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from slack_bolt.async_app import AsyncApp, AsyncBoltContext, AsyncBoltRequest

    from handlers.intents import Intents
    from handlers.parts import Parts

_TELL_AGAIN = 503  # over a socket: no acknowledgement


def register(app: AsyncApp, parts: Parts, intents: Intents) -> None:
    async def keep(
        body: dict[str, Any],
        context: AsyncBoltContext,
        request: AsyncBoltRequest,
        next_: Callable[[], Awaitable[None]],
    ) -> BoltResponse | None:
        """An event is acknowledged after this. What is kept is begun here, whatever bolt does next."""
        heard = read_intent(body, context.bot_user_id, owner=intents.owner, again=_is_repeat(request))
        intent = heard and heard.model_copy(update={"words": parts.mask(heard.words or "")})
        try:
            if intent is not None and await intents.keep(intent, told_again=True):
                intents.begin(intent, restore_voice(parts.client, intent))
        except CommandRefused as refusal:  # told again, it would be refused again
            if intent is not None:
                turn = Turn(parts, intent, restore_voice(parts.client, intent))
                parts.tasks.spawn("mention refused", turn.tell(render_sentence(str(refusal))))
        except StoreUnavailable:
            if intent is not None and not _is_repeat(request):
                turn = Turn(parts, intent, restore_voice(parts.client, intent))
                parts.tasks.spawn("mention not kept", turn.tell(render_sentence(REDIS_GONE_FOR_NOW)))
            return BoltResponse(status=_TELL_AGAIN)
        await next_()
        return None

    @app.event("app_mention", middleware=[keep])
    async def hear() -> None:
        """Nothing is left to do, but what nobody hears is not acknowledged."""


def read_intent(body: dict[str, Any], bot: str | None, *, owner: str, again: bool) -> Intent | None:
    """None for what programs say: they get no answers, so that two bots cannot talk for ever.

    `again`: Slack tells it once more, minutes later perhaps; else now is when it was said, whatever Slack's
    clock says.
    """
    event = body["event"]
    if not event.get("user") or event.get("bot_id"):
        return None
    thread, said = event.get("thread_ts"), body.get("event_time")
    return Intent(
        token=body.get("event_id") or f"{event['channel']}:{event['ts']}",
        owner=owner,
        at=datetime.fromtimestamp(said, UTC) if again and said else datetime.now(UTC),
        user=UserId(event["user"]),
        channel=ChannelId(event["channel"]),
        thread_ts=MessageTs(thread) if thread else None,
        words=read_words(event.get("text") or "", bot),
    )


def _is_repeat(request: AsyncBoltRequest) -> bool:
    return request.headers.get("x-slack-retry-num", ["0"])[0] not in {"", "0"}


def read_words(text: str, bot: str | None) -> str:
    """What stands behind the mention, or before it where nothing stands behind."""
    if bot is None:
        return text
    before, *behind = re.split(rf"<@{re.escape(bot)}(?:\|[^<>]*)?>", text, maxsplit=1)
    return behind[0] if behind and behind[0].strip() else before

"""One person's answer through Slack's Web API: where that person spoke, else in the conversation with them.

What Slack refuses for its form is said once more there, shorter and as plain text. What it refuses for the
place goes on to the next place. Of what may have arrived nothing is said again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

import structlog

from bot.clients.slack_calls import DEFAULT_RETRY_AFTER, Meaning, meaning_of, sending
from bot.core.undelivered import render_aside, render_plain
from bot.errors import SlackBusy, SlackError, SlackRefused, SlackUncertain, SlackUnreachable
from handlers.parts import Web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bot.core.blocks import Message

log = structlog.get_logger()

RESPONSE_URL = "response_url"
NOT_TAKEN = (SlackRefused, SlackBusy, SlackUnreachable)  # surely nothing arrived
_WHISPER, _POST = "chat.postEphemeral", "chat.postMessage"
_SPENT = frozenset({"expired_url", "used_url", "no_such_url"})


@dataclass(frozen=True, slots=True)
class Whisper:
    """Seen by `user` alone. `channel` None: there is no place but the conversation with them."""

    web: Web
    channel: str | None
    user: str
    thread_ts: str | None = None

    async def tell(self, message: Message) -> None:
        if self.channel is None:
            await self.tell_aside(message, None)
            return
        try:
            await say_or_simplify(self._whisper, message)
        except NOT_TAKEN as error:
            await self.tell_aside(message, error.code)

    async def tell_aside(self, message: Message, code: str | None) -> None:
        """In the conversation with that person, whose id stands for it; `code`: why not where they spoke."""
        await say_or_simplify(self._post, render_aside(message, self.channel, code))
        log.info("answer_told_aside", channel=self.channel, by=self.user, code=code)

    async def _whisper(self, message: Message) -> None:
        thread = {} if self.thread_ts is None else {"thread_ts": self.thread_ts}
        with sending(_WHISPER):
            await self.web.chat_postEphemeral(
                channel=self.channel or "", user=self.user, text=message.text, blocks=message.blocks, **thread
            )

    async def _post(self, message: Message) -> None:
        with sending(_POST):
            await self.web.chat_postMessage(
                channel=self.user,
                text=message.text,
                blocks=message.blocks,
                unfurl_links=False,
                unfurl_media=False,
            )


async def say_or_simplify(say: Callable[[Message], Awaitable[None]], message: Message) -> None:
    """Raises the SlackError of the second try, or of the first where plainer words are no help."""
    try:
        await say(message)
    except SlackRefused as refusal:
        if not refusal.repairable:
            raise
        log.info("answer_simplified", method=refusal.method, code=refusal.code)
        await say(render_plain(message, refusal.code))


def read_failure(status: int, body: str) -> SlackError | None:
    """What a `response_url` answered; None where it took the message."""
    code = _read_code(body)
    if status == HTTPStatus.OK and not code:
        return None
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return SlackBusy(RESPONSE_URL, DEFAULT_RETRY_AFTER)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return SlackUncertain(RESPONSE_URL, f"HTTP status {status}")
    code = code or f"HTTP status {status}"
    repairable = code not in _SPENT and meaning_of(code) is Meaning.REPAIRABLE
    return SlackRefused(RESPONSE_URL, code, repairable=repairable)


def _read_code(body: str) -> str:
    """The error in a body, which is JSON or the bare word; "" for `ok`."""
    try:
        found = json.loads(body)
    except ValueError:
        word = body.strip()
        return "" if word == "ok" or not word.replace("_", "").isalnum() else word[:60]
    return str(found.get("error", "")) if isinstance(found, dict) and not found.get("ok") else ""

"""The ways of telling one person something in private, by where that person spoke."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import structlog
from slack_bolt.async_app import AsyncAck, AsyncRespond

from bot.clients.slack_calls import sending
from bot.core.answers import make_modal
from bot.core.undelivered import render_aside
from bot.errors import SlackBusy, SlackRefused
from handlers.parts import Web

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.clients.records import Intent
    from bot.core.blocks import Block, Message

log = structlog.get_logger()

_OK = 200
_WHISPER, _POST = "chat.postEphemeral", "chat.postMessage"
_OVERTAKING = 0.3  # seconds in which a call of ours may reach Slack before the acknowledgement sent earlier


class Voice(Protocol):
    async def tell(self, message: Message, /) -> None: ...


class AckVoice(Voice, Protocol):
    """One whose first answer may come with the acknowledgement."""

    async def acknowledge(self) -> None:
        """Now, and without an answer, where none came yet."""


@dataclass(slots=True)
class SlashVoice:
    """Answers with the acknowledgement while that is still to come, and through the response_url later."""

    ack: AsyncAck
    respond: AsyncRespond
    _acknowledged: bool = field(default=False, init=False)
    _told: float = field(default=0.0, init=False)  # monotonic: when the acknowledgement took an answer along

    async def tell(self, message: Message) -> None:
        if self._acknowledged:
            await asyncio.sleep(self._told + _OVERTAKING - time.monotonic())
            await _respond(self.respond, message, replace=False)
            return
        self._acknowledged, self._told = True, time.monotonic()
        await self.ack(text=message.text, blocks=message.blocks, response_type="ephemeral")

    async def acknowledge(self) -> None:
        if not self._acknowledged:
            self._acknowledged = True
            await self.ack()


@dataclass(frozen=True, slots=True)
class EphemeralVoice:
    """Answers where a person mentioned the bot or pressed a button in a thread; seen by that person alone."""

    web: Web
    channel: str
    user: str
    thread_ts: str | None

    async def tell(self, message: Message) -> None:
        """Where Slack refuses it there, in the conversation with that person: their id stands for it."""
        thread = {} if self.thread_ts is None else {"thread_ts": self.thread_ts}
        try:
            with sending(_WHISPER):
                await self.web.chat_postEphemeral(
                    channel=self.channel, user=self.user, text=message.text, blocks=message.blocks, **thread
                )
        except (SlackRefused, SlackBusy) as error:  # of what may have arrived nothing is said twice
            aside = render_aside(message, self.channel, error.code)
            with sending(_POST):
                await self.web.chat_postMessage(
                    channel=self.user,
                    text=aside.text,
                    blocks=aside.blocks,
                    unfurl_links=False,
                    unfurl_media=False,
                )
            log.info("answer_told_aside", channel=self.channel, by=self.user, code=error.code)


@dataclass(frozen=True, slots=True)
class PressVoice:
    """Answers a press through the response_url; `replace`: in the place of the question that was pressed."""

    respond: AsyncRespond
    replace: bool

    async def tell(self, message: Message) -> None:
        await _respond(self.respond, message, replace=self.replace)


@dataclass(slots=True)
class ModalVoice:
    """Answers in the modal that was submitted; without `ack`, in the modal whose button was pressed."""

    ack: AsyncAck | None
    web: Web
    view_id: str
    _acknowledged: float = field(default=0.0, init=False)  # monotonic

    async def tell(self, message: Message) -> None:
        await self._show(message.blocks)

    async def acknowledge(self) -> None:
        """Keeps the modal open for an answer that is still to come."""
        if self.ack is not None:
            await self._show([{"type": "section", "text": {"type": "plain_text", "text": "One moment…"}}])

    async def _show(self, blocks: Sequence[Block]) -> None:
        view = make_modal("answer", "kimi", blocks)
        ack, self.ack = self.ack, None
        if ack is None:
            await asyncio.sleep(self._acknowledged + _OVERTAKING - time.monotonic())
            await self.web.views_update(view_id=self.view_id, view=view)
        else:
            self._acknowledged = time.monotonic()
            await ack(response_action="update", view=view)


class NoVoice:
    """Nobody can be told: there is neither a channel nor a modal."""

    async def tell(self, message: Message) -> None:
        log.warning("answer_without_a_place", text=message.text)


def restore_voice(web: Web, intent: Intent) -> Voice:
    """For a process that did not hear the words itself: acknowledgement and response_url are not its own."""
    if intent.view is not None:
        return ModalVoice(None, web, intent.view)
    if intent.channel is None:
        return NoVoice()
    return EphemeralVoice(web, intent.channel, intent.user, intent.thread_ts)


async def _respond(respond: AsyncRespond, message: Message, *, replace: bool) -> None:
    answer = await respond(
        text=message.text, blocks=message.blocks, response_type="ephemeral", replace_original=replace
    )
    if answer.status_code != _OK:
        log.warning("answer_not_delivered", status=answer.status_code, body=answer.body[:200])

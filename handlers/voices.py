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
from bot.core.blocks import section
from handlers.parts import Web
from handlers.whispers import NOT_TAKEN, RESPONSE_URL, Whisper, read_failure, say_or_simplify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.clients.records import Intent
    from bot.core.blocks import Block, Message

log = structlog.get_logger()

_UPDATE = "views.update"
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
    otherwise: Whisper
    _acknowledged: bool = field(default=False, init=False)
    _told: float = field(default=0.0, init=False)  # monotonic: when the acknowledgement took an answer along

    async def tell(self, message: Message) -> None:
        if self._acknowledged:
            await asyncio.sleep(self._told + _OVERTAKING - time.monotonic())
            await _respond(self.respond, message, self.otherwise, replace=False)
            return
        self._acknowledged, self._told = True, time.monotonic()
        await self.ack(text=message.text, blocks=message.blocks, response_type="ephemeral")

    async def acknowledge(self) -> None:
        if not self._acknowledged:
            self._acknowledged = True
            await self.ack()


@dataclass(frozen=True, slots=True)
class PressVoice:
    """Answers a press through the response_url; `replace`: in the place of the question that was pressed."""

    respond: AsyncRespond
    replace: bool
    otherwise: Whisper

    async def tell(self, message: Message) -> None:
        await _respond(self.respond, message, self.otherwise, replace=self.replace)


@dataclass(slots=True)
class ModalVoice:
    """Answers in the modal that was submitted; without `ack`, in the modal whose button was pressed."""

    ack: AsyncAck | None
    web: Web
    view_id: str
    user: str
    _acknowledged: float = field(default=0.0, init=False)  # monotonic

    async def tell(self, message: Message) -> None:
        """A modal that was closed meanwhile shows nothing any more."""
        try:
            await say_or_simplify(self._show_message, message)
        except NOT_TAKEN as error:
            await Whisper(self.web, None, self.user).tell_aside(message, error.code)

    async def _show_message(self, message: Message) -> None:
        await self._show(message.blocks or (section(message.text),))

    async def acknowledge(self) -> None:
        """Keeps the modal open for an answer that is still to come."""
        if self.ack is not None:
            await self._show([{"type": "section", "text": {"type": "plain_text", "text": "One moment…"}}])

    async def _show(self, blocks: Sequence[Block]) -> None:
        view = make_modal("answer", "kimi", blocks)
        ack, self.ack = self.ack, None
        if ack is None:
            await asyncio.sleep(self._acknowledged + _OVERTAKING - time.monotonic())
            with sending(_UPDATE):
                await self.web.views_update(view_id=self.view_id, view=view)
        else:
            self._acknowledged = time.monotonic()
            await ack(response_action="update", view=view)


def restore_voice(web: Web, intent: Intent) -> Voice:
    """For a process that did not hear the words itself: acknowledgement and response_url are not its own."""
    if intent.view is not None:
        return ModalVoice(None, web, intent.view, intent.user)
    return Whisper(web, intent.channel, intent.user, intent.thread_ts)


async def _respond(respond: AsyncRespond, message: Message, otherwise: Whisper, *, replace: bool) -> None:
    """A response_url is spent after five answers or half an hour: then there are other ways."""

    async def send(said: Message) -> None:
        with sending(RESPONSE_URL):
            answer = await respond(
                text=said.text, blocks=said.blocks, response_type="ephemeral", replace_original=replace
            )
        failure = read_failure(answer.status_code, answer.body)
        if failure is not None:
            raise failure

    try:
        await say_or_simplify(send, message)
    except NOT_TAKEN as error:
        log.info("response_url_not_taken", by=otherwise.user, code=error.code)
        await otherwise.tell(message)

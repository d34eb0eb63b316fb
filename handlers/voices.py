"""The ways of telling one person something in private, by where that person spoke."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import structlog
from slack_bolt.async_app import AsyncAck, AsyncRespond

from bot.core.answers import make_modal
from handlers.parts import Web

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.core.blocks import Block, Message

log = structlog.get_logger()

_OK = 200


class Voice(Protocol):
    async def tell(self, message: Message, /) -> None: ...


@dataclass(slots=True)
class SlashVoice:
    """Answers with the acknowledgement while that is still to come, and through the response_url later."""

    ack: AsyncAck
    respond: AsyncRespond
    _acknowledged: bool = field(default=False, init=False)

    async def tell(self, message: Message) -> None:
        if self._acknowledged:
            await _respond(self.respond, message, replace=False)
            return
        self._acknowledged = True
        await self.ack(text=message.text, blocks=message.blocks, response_type="ephemeral")

    async def acknowledge(self) -> None:
        """Without a word, where none has been said yet."""
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
        thread = {} if self.thread_ts is None else {"thread_ts": self.thread_ts}
        await self.web.chat_postEphemeral(
            channel=self.channel, user=self.user, text=message.text, blocks=message.blocks, **thread
        )


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
            await self.web.views_update(view_id=self.view_id, view=view)
        else:
            await ack(response_action="update", view=view)


async def _respond(respond: AsyncRespond, message: Message, *, replace: bool) -> None:
    answer = await respond(
        text=message.text, blocks=message.blocks, response_type="ephemeral", replace_original=replace
    )
    if answer.status_code != _OK:
        log.warning("answer_not_delivered", status=answer.status_code, body=answer.body[:200])

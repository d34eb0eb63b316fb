"""What Slack refuses for good is told on another way: in the fallback channel, and to who asked for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.clients.records import Outgoing
from bot.clients.store_queue import Queue
from bot.core.blocks import Message
from bot.core.events import ChannelId
from bot.core.undelivered import render_refusal, render_refusal_with, render_untold

if TYPE_CHECKING:
    from bot.clients.records import Parked

_ALERT = "alert-"
_DIRECT = "dm-"
_PRESENT = frozenset(
    {"root", "edit", "present"}
)  # what the root of a thread shows, now or until a moment ago


@dataclass(frozen=True, slots=True)
class Alerts:
    """`channel`: the fallback channel, where there is one.

    There each thread that was refused goes on as a thread of its own, one for each of Slack's codes: replies,
    files, and the newest present in its root. Every message of it is queued under an id of its own, so that
    telling twice tells once.
    """

    queue: Queue
    channel: ChannelId | None = None

    async def tell(self, parked: Parked, content: bytes | None) -> None:
        """Queue what is to be told of it; `content` of an upload. Raises StoreUnavailable."""
        refused = parked.outgoing
        if refused.thread.startswith(_ALERT):
            return  # where alerts themselves are refused, only the log is left
        if self.channel is not None and refused.channel != self.channel:
            alert = f"{_ALERT}{refused.thread}-{parked.code}"
            files = {f"{alert}:{refused.id}": content} if content is not None else {}
            await self.queue.push(alert, self._alert(alert, parked, self.channel), files)
        if refused.kind == "root" and refused.asker is not None:
            await self._tell_asker(parked, refused.asker)

    def _alert(self, alert: str, parked: Parked, channel: ChannelId) -> list[Outgoing]:
        refused = parked.outgoing
        words = render_refusal(refused.channel, parked.method, parked.code)
        root = _outgoing(words, name=f"{alert}:root", thread=alert, channel=channel)
        if refused.kind in _PRESENT:
            both = render_refusal_with(words, Message(refused.text, refused.blocks))
            edit = _outgoing(both, name=f"{alert}:edit", thread=alert, channel=channel)
            return [root, edit.model_copy(update={"kind": "edit"})]
        changes = {
            "id": f"{alert}:{refused.id}",
            "thread": alert,
            "kind": "upload" if refused.kind == "upload" else "reply",
            "channel": channel,
            "thread_ts": None,
            "broadcast": False,
            "asker": None,
        }
        return [root, refused.model_copy(update=changes)]

    async def _tell_asker(self, parked: Parked, asker: str) -> None:
        """In the conversation between the two: a person's id stands for it."""
        refused, thread = parked.outgoing, f"{_DIRECT}{parked.outgoing.thread}"
        words = render_untold(refused.channel, parked.code, fallback=self.channel)
        told = _outgoing(words, name=f"{thread}:root", thread=thread, channel=ChannelId(asker))
        await self.queue.push(thread, [told], {})


def _outgoing(words: Message, *, name: str, thread: str, channel: ChannelId) -> Outgoing:
    return Outgoing(
        id=name, thread=thread, kind="root", channel=channel, text=words.text, blocks=words.blocks
    )

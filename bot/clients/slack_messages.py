"""Outgoing messages as Slack's methods take them; plain and shortened where it refused them; read back."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from bot.clients.records import Address
from bot.clients.slack_calls import call
from bot.core.events import ChannelId, MessageTs

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient

    from bot.clients.records import Attempt, Outgoing

EVENT_TYPE = "kimi_message"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://kimi-bot/message")
PLAIN_BYTES = 3500  # chat.update refuses more than 4,000 bytes of text
POST_BYTES = 39_000  # chat.postMessage cuts silently beyond 40,000 characters
CLOCK_SKEW = timedelta(minutes=5)  # between our clock and Slack's
PAGE = 200
CUT = "\n… {left} more characters are left out."


def shorten(text: str, *, limit: int) -> str:
    """At most `limit` bytes of UTF-8, and how much is missing; never cut inside a character."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    room = limit - len(CUT.format(left=len(text)).encode())
    kept = raw[: max(0, room)].decode(errors="ignore")
    return kept + CUT.format(left=len(text) - len(kept))


def plain(message: Outgoing) -> Outgoing:
    """The same said in text alone, short enough for every method."""
    text = shorten(message.text.strip() or "(A message that cannot be shown.)", limit=PLAIN_BYTES)
    return message.model_copy(update={"text": text, "blocks": ()})


def comment_of(message: Outgoing) -> str:
    """What is said with a file."""
    return (message.file.comment if message.file else "") or message.text


async def post(
    web: AsyncWebClient, message: Outgoing, thread_ts: str | None, *, tagged: bool = True
) -> Address:
    """Where Slack has put it; the channel differs from the one asked for when that was a person.

    Only a `tagged` message can be read back.
    """
    answer = await call(
        web,
        "chat.postMessage",
        {
            "channel": message.channel,
            "text": shorten(message.text, limit=POST_BYTES),
            "blocks": list(message.blocks) or None,
            "thread_ts": thread_ts,
            "reply_broadcast": True if message.broadcast and thread_ts else None,
            "unfurl_links": False,
            "unfurl_media": False,
            "metadata": _metadata(message, message.id) if tagged else None,
            "client_msg_id": str(uuid.uuid5(NAMESPACE, message.id)),
        },
    )
    return Address(channel=answer.get("channel", message.channel), ts=answer["ts"])


async def update(web: AsyncWebClient, message: Outgoing, address: Address) -> None:
    """Shows the edit. The metadata goes on naming what is edited: the root, or the reply that took over."""
    name = "root" if address.present is None else "present"
    await call(
        web,
        "chat.update",
        {
            "channel": address.channel,
            "ts": address.edited,
            "text": message.text,
            "blocks": list(message.blocks) or None,
            "parse": "none",
            "metadata": _metadata(message, f"{message.thread}:{name}"),
        },
    )


async def permalink(web: AsyncWebClient, address: Address) -> str:
    answer = await call(web, "chat.getPermalink", {"channel": address.channel, "message_ts": address.ts})
    return str(answer["permalink"])


async def read_back(
    web: AsyncWebClient, message: Outgoing, attempt: Attempt, *, channel: ChannelId, thread_ts: str | None
) -> MessageTs | None:
    """The ts of the message, if an earlier try has reached Slack: by its metadata, or by its file."""
    method = "conversations.replies" if thread_ts else "conversations.history"
    arguments: dict[str, Any] = {
        "channel": channel,
        "ts": thread_ts,
        "oldest": f"{(attempt.at - CLOCK_SKEW).timestamp():.6f}",
        "include_all_metadata": True,
        "limit": PAGE,
    }
    while True:
        page = await call(web, method, arguments)
        for found in page.get("messages", ()):
            if _is(found, message, attempt):
                return MessageTs(found["ts"])
        cursor = (page.get("response_metadata") or {}).get("next_cursor")
        if not cursor:
            return None
        arguments["cursor"] = cursor


def _metadata(message: Outgoing, name: str) -> dict[str, Any]:
    """Every app of the workspace can read this: ids and tags, nothing else."""
    payload = {**message.tags, "operation": message.thread, "id": name}
    return {"event_type": EVENT_TYPE, "event_payload": payload}


def _is(found: dict[str, Any], message: Outgoing, attempt: Attempt) -> bool:
    metadata = found.get("metadata") or {}
    payload = metadata.get("event_payload") or {}
    if metadata.get("event_type") == EVENT_TYPE and payload.get("id") == message.id:
        return True
    return attempt.file is not None and any(file.get("id") == attempt.file for file in found.get("files", ()))

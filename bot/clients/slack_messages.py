"""Outgoing messages as Slack's methods take them; plain and shortened where it refused them; read back."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from bot.clients.records import Address
from bot.clients.slack_calls import call, call_dated
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
NEWEST_PAGES = 5  # of a channel, where no clock says how far back to look
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
    look = partial(_look_for, web, message, attempt, channel=channel, thread_ts=thread_ts)
    found, date = await look(oldest=attempt.at - CLOCK_SKEW)
    if found is None and _are_clocks_apart(attempt, date):
        # What was sent just now may be long ago for Slack, whose clock counts here.
        found, _ = await look(oldest=None)
    return found


def _are_clocks_apart(attempt: Attempt, date: datetime | None) -> bool:
    """Whether ours, or that of who made the attempt, may be further ahead of Slack's than is allowed for."""
    now = datetime.now(UTC)
    return max(attempt.at, now) - min(now, date or now) > CLOCK_SKEW / 2


async def _look_for(
    web: AsyncWebClient,
    message: Outgoing,
    attempt: Attempt,
    *,
    channel: ChannelId,
    thread_ts: str | None,
    oldest: datetime | None,
) -> tuple[MessageTs | None, datetime | None]:
    """Where it is, and Slack's time. Without `oldest` all of a thread, or the newest pages of a channel."""
    method = "conversations.replies" if thread_ts else "conversations.history"
    arguments: dict[str, Any] = {
        "channel": channel,
        "ts": thread_ts,
        "oldest": f"{oldest.timestamp():.6f}" if oldest else None,
        "include_all_metadata": True,
        "limit": PAGE,
    }
    pages = 0
    while True:
        page, date = await call_dated(web, method, arguments)
        pages += 1
        for found in page.get("messages", ()):
            if _is(found, message, attempt):
                return MessageTs(found["ts"]), date
        cursor = (page.get("response_metadata") or {}).get("next_cursor")
        if not cursor or (oldest is None and thread_ts is None and pages == NEWEST_PAGES):
            return None, date
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

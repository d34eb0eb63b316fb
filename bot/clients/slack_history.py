"""Reads our own messages back from Slack: what stands there when Redis knows nothing any more."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bot.clients.slack_calls import call
from bot.clients.slack_messages import EVENT_TYPE, PAGE, comment_of
from bot.core.events import ChannelId, MessageTs
from bot.errors import SlackBusy, SlackUncertain, SlackUnreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import datetime

    from slack_sdk.web.async_client import AsyncWebClient

    from bot.clients.records import Address, Outgoing

TRIES = 6  # of one page; Slack's own waits count too
PAUSE = 1.0  # seconds after the first failure, doubled each time
LONGEST = 60.0  # seconds that a Retry-After is obeyed at once; it is at most that in Slack's documentation


@dataclass(frozen=True, slots=True)
class FoundRoot:
    """A root of ours. `operation`: its thread, for a startup the operation's id; `tags` as last edited."""

    channel: ChannelId
    ts: MessageTs
    operation: str
    id: str
    text: str
    tags: dict[str, str] = field(default_factory=dict)


async def find_roots(web: AsyncWebClient, channel: ChannelId, *, oldest: datetime) -> list[FoundRoot]:
    """The roots in a channel that this bot has posted since `oldest`, oldest first.

    Another app may post metadata that looks like ours: whose message it is, Slack says. Raises one of the
    SlackErrors; SlackRefused where the channel may not be read.
    """
    ours = await _who_we_are(web)
    arguments = {"channel": channel, "oldest": f"{oldest.timestamp():.6f}"}
    found = [
        FoundRoot(
            channel=channel,
            ts=MessageTs(message["ts"]),
            operation=str(payload["operation"]),
            id=str(payload["id"]),
            text=str(message.get("text", "")),
            tags={key: str(value) for key, value in payload.items() if key not in {"operation", "id"}},
        )
        async for message in _messages(web, "conversations.history", arguments)
        if message.get("thread_ts", message["ts"]) == message["ts"]
        and _is_ours(message, ours)
        and (payload := _payload(message))
    ]
    return sorted(found, key=lambda root: float(root.ts))


async def told_ids(web: AsyncWebClient, address: Address) -> list[str]:
    """The ids of our messages in a thread, root first; a file carries none. Raises one of the SlackErrors."""
    payloads = [_payload(message) for message in await _ours_in(web, address)]
    return list(dict.fromkeys(str(payload["id"]) for payload in payloads if payload))


async def told_among(web: AsyncWebClient, address: Address, messages: Sequence[Outgoing]) -> set[str]:
    """Which of these stand in the thread, by their ids: files too. Raises one of the SlackErrors.

    A file is known by its name and by what is said with it; of two that are alike in both, the first counts
    first.
    """
    standing = await _ours_in(web, address)
    told = {str(payload["id"]) for message in standing if (payload := _payload(message))}
    files = Counter(
        (str(file.get("name")), str(message.get("text", "")))
        for message in standing
        for file in message.get("files", ())
    )
    found: set[str] = set()
    for message in messages:
        if message.id in told:
            found.add(message.id)
        elif message.kind == "upload" and message.file is not None:
            key = (message.file.name, comment_of(message))
            if files[key] > 0:
                files[key] -= 1
                found.add(message.id)
    return found


async def _ours_in(web: AsyncWebClient, address: Address) -> list[dict[str, Any]]:
    ours = await _who_we_are(web)
    arguments = {"channel": address.channel, "ts": address.ts}
    found = {
        message["ts"]: message
        async for message in _messages(web, "conversations.replies", arguments)
        if _is_ours(message, ours)
    }
    return [found[ts] for ts in sorted(found, key=float)]


async def _who_we_are(web: AsyncWebClient) -> frozenset[str]:
    answer = await _patiently(web, "auth.test", {})
    return frozenset(str(answer[key]) for key in ("bot_id", "user_id") if answer.get(key))


def _is_ours(message: Mapping[str, Any], ours: frozenset[str]) -> bool:
    return message.get("bot_id") in ours or message.get("user") in ours


def _payload(message: Mapping[str, Any]) -> dict[str, Any] | None:
    metadata = message.get("metadata") or {}
    payload = metadata.get("event_payload") or {}
    sound = metadata.get("event_type") == EVENT_TYPE and {"operation", "id"} <= payload.keys()
    return payload if sound else None


async def _messages(
    web: AsyncWebClient, method: str, arguments: Mapping[str, Any]
) -> AsyncIterator[dict[str, Any]]:
    """All pages, as Slack orders them."""
    given = {**arguments, "include_all_metadata": True, "limit": PAGE}
    while True:
        page = await _patiently(web, method, given)
        for message in page.get("messages", ()):
            yield message
        cursor = (page.get("response_metadata") or {}).get("next_cursor")
        if not cursor:
            return
        given["cursor"] = cursor


async def _patiently(web: AsyncWebClient, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Reading does no harm, so it is tried again; Slack's own waits are kept."""
    for tried in range(TRIES):
        try:
            return await call(web, method, arguments)
        except SlackBusy as error:
            if tried + 1 == TRIES:
                raise
            await asyncio.sleep(min(LONGEST, max(error.retry_after, PAUSE)))
        except (SlackUncertain, SlackUnreachable):
            if tried + 1 == TRIES:
                raise
            await asyncio.sleep(PAUSE * 2**tried)
    raise AssertionError("the last try ends in an answer or an error")

"""Reads our own messages back from Slack: what stands there when Redis knows nothing any more."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from bot.clients.slack_calls import call
from bot.clients.slack_messages import EVENT_TYPE, PAGE, comment_of
from bot.core.events import ChannelId, MessageTs
from bot.errors import SlackBusy, SlackRefused, SlackUncertain, SlackUnreachable, TokenRefused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
    from datetime import datetime

    from slack_sdk.web.async_client import AsyncWebClient

    from bot.clients.records import Address, Outgoing

TELLS = "tells"  # tag of a reply: what it says, in one word
PAGES = 30  # of a channel's history at most: its newest 6,000 messages
TRIES = 6  # of one page; Slack's own waits count too
PAUSE = 1.0  # seconds after the first failure, doubled each time
LONGEST = 60.0  # seconds that a Retry-After is obeyed at once; it is at most that in Slack's documentation
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class FoundRoot:
    """A root of ours. `operation`: its thread, for a startup the operation's id; `tags` as last edited.

    `body`: its first section, where the headline and what explains it stand.
    """

    channel: ChannelId
    ts: MessageTs
    operation: str
    id: str
    text: str
    tags: dict[str, str] = field(default_factory=dict)
    body: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """What of ours stands in a thread. `tells`: what the replies were tagged with. `present`: see Address.

    `course`: the same tags in the order of the replies, each with when that was posted.
    """

    ids: tuple[str, ...]  # root first; a file carries none
    tells: frozenset[str]
    files: tuple[tuple[str, str], ...]  # the name of each, and what is said with it
    present: MessageTs | None = None
    course: tuple[tuple[str, MessageTs], ...] = ()

    def among(self, messages: Sequence[Outgoing]) -> set[str]:
        """Which of these stand there, by their ids: files too.

        A file is known by its name and by what is said with it; of two that are alike in both, the first
        counts first.
        """
        told, files = set(self.ids), Counter(self.files)
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


class Archive:
    """Slack as what it is when Redis has lost everything. Every method raises one of the SlackErrors."""

    def __init__(self, web: AsyncWebClient) -> None:
        self._web = web

    async def roots(self, channel: ChannelId, *, oldest: datetime) -> list[FoundRoot]:
        """Those of this bot, oldest first; SlackRefused where the channel may not be read."""
        return await find_roots(self._web, channel, oldest=oldest)

    async def readable_roots(self, channels: Iterable[ChannelId], *, oldest: datetime) -> list[FoundRoot]:
        """Those in all of the channels that Slack lets us read."""
        found: list[FoundRoot] = []
        for channel in channels:
            try:
                found += await self.roots(channel, oldest=oldest)
            except TokenRefused:
                raise
            except SlackRefused as error:
                log.warning("channel_not_readable", channel=channel, error=str(error))
        return found

    async def read(self, address: Address) -> Standing:
        return await read_thread(self._web, address)


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
            body=_body(message),
        )
        async for message in _messages(web, "conversations.history", arguments, pages=PAGES)
        if message.get("thread_ts", message["ts"]) == message["ts"]
        and _is_ours(message, ours)
        and (payload := _payload(message))
    ]
    return sorted(found, key=lambda root: float(root.ts))


async def read_thread(web: AsyncWebClient, address: Address) -> Standing:
    """All of it that is ours. Raises one of the SlackErrors."""
    messages = await _ours_in(web, address)
    tagged = [(message, payload) for message in messages if (payload := _payload(message))]
    presents = [
        MessageTs(message["ts"])
        for message, payload in tagged
        if message["ts"] != address.ts and str(payload["id"]).startswith(f"{payload['operation']}:present")
    ]
    return Standing(
        ids=tuple(dict.fromkeys(str(payload["id"]) for _, payload in tagged)),
        tells=frozenset(str(payload[TELLS]) for _, payload in tagged if payload.get(TELLS)),
        files=tuple(
            (str(file.get("name")), str(message.get("text", "")))
            for message in messages
            for file in message.get("files", ())
        ),
        present=presents[-1] if presents else None,
        course=tuple(
            (str(payload[TELLS]), MessageTs(message["ts"]))
            for message, payload in tagged
            if payload.get(TELLS)
        ),
    )


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


def _body(message: Mapping[str, Any]) -> str:
    sections = (block for block in message.get("blocks", ()) if block.get("type") == "section")
    first: dict[str, Any] = next(sections, {})
    return str((first.get("text") or {}).get("text") or message.get("text", ""))


def _payload(message: Mapping[str, Any]) -> dict[str, Any] | None:
    metadata = message.get("metadata") or {}
    payload = metadata.get("event_payload") or {}
    sound = metadata.get("event_type") == EVENT_TYPE and {"operation", "id"} <= payload.keys()
    return payload if sound else None


async def _messages(
    web: AsyncWebClient, method: str, arguments: Mapping[str, Any], *, pages: int | None = None
) -> AsyncIterator[dict[str, Any]]:
    """All pages, or so many, as Slack orders them: the newest of a channel first, the oldest of a thread."""
    given = {**arguments, "include_all_metadata": True, "limit": PAGE}
    asked = 0
    while True:
        if asked == pages:
            log.warning("history_not_read_to_its_end", channel=arguments.get("channel"), pages=asked)
            return
        asked += 1
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

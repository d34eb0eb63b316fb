"""An upload in Slack's three steps, and the reply that stands in for a file Slack would not take."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

from bot.clients.slack_calls import SERVER_ERROR, TOO_MANY, call, read_retry_after, sending
from bot.clients.slack_messages import comment_of
from bot.clients.slack_session import assure, open_session
from bot.core.tail import split_rows
from bot.core.words import count
from bot.errors import SlackBusy, SlackRefused, SlackUncertain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from slack_sdk.web.async_client import AsyncWebClient

    from bot.clients.records import FileNote, Outgoing
    from bot.core.events import ChannelId

RESERVE = "files.getUploadURLExternal"
COMPLETE = "files.completeUploadExternal"
SEND = "the upload address"
TAIL_BYTES = 2800  # of the file's end, in the reply that stands in for it; a whole message has about 13 kB
COMMENT_CHARACTERS = 1000
ALT_CHARACTERS = 1000  # Slack: alt_txt_too_large beyond
UNSHOWN = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")  # ANSI and C0 controls but tab
SLOWEST = 65536  # bytes a second below which an upload is given up


async def upload(
    web: AsyncWebClient, note: FileNote, content: bytes, *, reserved: Callable[[str], Awaitable[None]]
) -> str:
    """Steps one and two; Slack's id of the file. `reserved` hears it before anything can be seen in Slack."""
    content = content or b"(empty)\n"  # Slack refuses a length of 0
    wanted = {"filename": note.name, "length": len(content), "alt_txt": note.alt[:ALT_CHARACTERS] or None}
    slot = await call(web, RESERVE, wanted)
    await _send(web, str(slot["upload_url"]), content)
    await reserved(str(slot["file_id"]))
    return str(slot["file_id"])


async def complete(
    web: AsyncWebClient, message: Outgoing, file_id: str, *, channel: ChannelId, thread_ts: str | None
) -> None:
    """Step three: only now does the channel see the file."""
    title = message.file.title if message.file else file_id
    await call(
        web,
        COMPLETE,
        {
            "files": json.dumps([{"id": file_id, "title": title}]),
            "channel_id": channel,
            "thread_ts": thread_ts,
            "initial_comment": comment_of(message) or None,
        },
    )


async def _send(web: AsyncWebClient, url: str, content: bytes) -> None:
    timeout = web.timeout + len(content) / SLOWEST
    # In pieces: megabytes in one go would hold up the loop, of which aiohttp warns.
    body = io.BytesIO(content)
    assure()
    with sending(SEND):
        async with (
            open_session(timeout=timeout, trust_env=web.trust_env_in_session) as session,
            session.post(url, data=body, proxy=web.proxy, ssl=web.ssl or True) as answer,
        ):
            status, headers = answer.status, answer.headers
    if status == TOO_MANY:
        raise SlackBusy(SEND, read_retry_after(headers))
    if status >= SERVER_ERROR:
        raise SlackUncertain(SEND, f"HTTP status {status}")
    if status >= 400:  # noqa: PLR2004 - HTTP's own border
        raise SlackRefused(SEND, f"HTTP status {status}")


def stand_in(message: Outgoing, content: bytes | None, code: str) -> Outgoing:
    """A reply with the end of the file, and a note of what is missing and why."""
    comment = comment_of(message)[:COMMENT_CHARACTERS]
    if message.file is not None and message.file.alt:
        return _in_words(message, message.file.alt, comment, code)
    tail, kept, lines = _end_of(content or b"")
    why = f"The file could not be attached: Slack answered {code}."
    if content is None:
        why = "The file could not be attached: its content is no longer there."
    missing = f"{why} {_say_shown(kept, lines)}" if kept else why
    blocks = [_section(comment)] if comment.strip() else []
    blocks.append(_section(missing))
    if tail.strip():
        preformatted = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": tail}]}
        blocks.append({"type": "rich_text", "elements": [preformatted]})
    text = "\n".join(part for part in (comment, missing) if part.strip())
    return message.model_copy(update={"kind": "reply", "text": text, "blocks": tuple(blocks), "file": None})


def _in_words(message: Outgoing, alt: str, comment: str, code: str) -> Outgoing:
    """A picture that cannot be shown is told."""
    told = f"The picture could not be attached: Slack answered {code}. In words: {alt[:ALT_CHARACTERS]}"
    blocks = tuple(_section(text) for text in (comment, told) if text.strip())
    text = "\n".join(part for part in (comment, told) if part.strip())
    return message.model_copy(update={"kind": "reply", "text": text, "blocks": blocks, "file": None})


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "plain_text", "text": text}}


def _say_shown(kept: int, lines: int) -> str:
    if kept == lines:
        return f"All of it follows: {count(lines, 'line')}."
    return f"The last {kept:,} of {lines:,} lines follow; the rest is missing here."


def _end_of(content: bytes) -> tuple[str, int, int]:
    """The last whole lines that fit, how many they are, of how many; of a line too long its end."""
    rows = split_rows(content.decode(errors="replace"))
    lines = [UNSHOWN.sub("", row.replace("\r", "\n")) for row in rows]
    kept: list[str] = []
    room = TAIL_BYTES
    for line in reversed(lines):
        room -= len(json.dumps(line))
        if room < 0:
            break
        kept.append(line)
    if lines and not kept:
        return lines[-1][-TAIL_BYTES // 6 :], 1, len(lines)
    return "\n".join(reversed(kept)), len(kept), len(lines)

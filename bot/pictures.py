"""Has pictures drawn, off the loop, and makes uploads of them; one that cannot be drawn is only logged."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from bot.clients.records import FileNote, Outgoing
from bot.core.history import describe_history
from bot.core.picture_words import describe_waterfall
from bot.messages import Letter

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.core.events import ChannelId, MessageTs, OperationId
    from bot.core.history import History
    from bot.core.picture import Waterfall

log = structlog.get_logger()


def draw_waterfall(waterfall: Waterfall) -> bytes:
    """PNG. Slow: for a thread, or for a command line."""
    from bot import chart  # noqa: PLC0415 - the plotting library takes half a second that few commands need

    return chart.draw_waterfall(waterfall)


def draw_history(history: History) -> bytes:
    """PNG. Slow: for a thread."""
    from bot import chart  # noqa: PLC0415 - as above

    return chart.draw_history(history)


async def waterfall_letter(
    waterfall: Waterfall, *, operation: OperationId, channel: ChannelId, name: str
) -> Letter | None:
    """The picture for the thread of `operation`. None: it could not be drawn."""
    content = await _draw(lambda: draw_waterfall(waterfall), name)
    if content is None:
        return None
    note = FileNote(
        name=name,
        title=f"{waterfall.title}: where the time went",
        comment="Where the time went, phase by phase and rank by rank.",
        alt=describe_waterfall(waterfall),
    )
    return _letter(note, content, identity=f"{operation}:picture", thread=operation, channel=channel)


async def history_letter(
    history: History,
    *,
    thread: str,
    channel: ChannelId,
    thread_ts: MessageTs | None,
    name: str,
) -> Letter | None:
    """The picture as an answer, into the thread at `thread_ts` or under a root of its own.

    None: it could not be drawn.
    """
    content = await _draw(lambda: draw_history(history), name)
    if content is None:
        return None
    note = FileNote(
        name=name,
        title=f"{history.title}: past startups",
        comment="How long each took, phase by phase; the newest stands at the right.",
        alt=describe_history(history),
    )
    identity = f"{thread}:picture"
    return _letter(note, content, identity=identity, thread=thread, channel=channel, thread_ts=thread_ts)


async def _draw(draw: Callable[[], bytes], name: str) -> bytes | None:
    try:
        return await asyncio.to_thread(draw)
    except Exception:  # whatever the library raises: a picture is worth no startup
        log.exception("picture_not_drawn", name=name)
        return None


def _letter(
    note: FileNote,
    content: bytes,
    *,
    identity: str,
    thread: OperationId | str,
    channel: ChannelId,
    thread_ts: MessageTs | None = None,
) -> Letter:
    outgoing = Outgoing.of_file(note, identity=identity, thread=thread, channel=channel, thread_ts=thread_ts)
    return Letter(outgoing, content)

"""Fetches the whole decoded log of a start from its hosts, or what this process still remembers of it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from bot.core import log_file
from bot.core.journal import Decoder
from bot.core.log_file import FilePosition, LogFileDecoder
from bot.core.tail import TailFile, render_tail
from bot.errors import HostError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from bot.core.events import InvocationId, LogLine, Member
    from bot.core.redact import Redactor
    from bot.sources import Link

log = structlog.get_logger()

_WITHIN = 60.0  # real seconds a host has to hand over a log
_FILE_MOST = 16 << 20  # bytes read from the end of a log file
_REFUSALS = (HostError, TimeoutError)


async def read_start(
    links: Mapping[Member, Link],
    invocations: Mapping[Member, InvocationId | None],
    *,
    make_redactor: Callable[[], Redactor],
    begun: Mapping[Member, datetime | None] | None = None,
) -> TailFile:
    """Every line of the given invocations, member after member. `begun`: when they did, by the hosts' clocks.

    A member whose host does not hand it over in time is told from memory: the newest lines alone.
    """
    lines: list[LogLine] = []
    for member, link in links.items():
        invocation = invocations.get(member)
        if invocation is None:  # it never got that far: what was heard is all there is
            lines.extend(link.ring)
            continue
        try:
            began = (begun or {}).get(member)
            lines.extend(await _read_start(link, make_redactor, invocation=invocation, began=began))
        except _REFUSALS as error:
            log.warning("tail_from_memory", member=member, error=str(error), lines=len(link.ring))
            lines.extend(link.ring)
    return await asyncio.to_thread(render_tail, lines)  # a million lines take seconds


async def _read_start(
    link: Link, make_redactor: Callable[[], Redactor], *, invocation: InvocationId, began: datetime | None
) -> list[LogLine]:
    lines = await _read(link, make_redactor(), invocation=invocation)
    if link.log_file is None:
        return lines
    place = link.log_start or FilePosition(offset=_FILE_MOST)
    written, _ = await _read_file(link, link.log_file, make_redactor(), place=place)
    return await asyncio.to_thread(_merge, lines, written, began)


async def read_latest(
    link: Link,
    *,
    make_redactor: Callable[[], Redactor],
    lines: int | None = None,
    since: timedelta | None = None,
) -> TailFile:
    """The last `lines` lines, or those of the last `since`; raises HostError."""
    try:
        found = await _read(link, make_redactor(), lines=lines, since=since)
        if link.log_file is not None:
            found = await _add_file(link, link.log_file, make_redactor(), found=found, since=since)
            found = found[-lines:] if lines else found
        return await asyncio.to_thread(render_tail, found)
    except TimeoutError as error:
        sentence = (
            f"{link.host.name}: the journal was not handed over within {_WITHIN:g} s; ask for fewer lines"
        )
        raise HostError(link.host.name, sentence) from error


async def read_end(
    link: Link, *, make_redactor: Callable[[], Redactor], invocation: InvocationId | None, lines: int
) -> list[LogLine]:
    """The last whole lines of one start, or of the unit; raises HostError."""
    try:
        found = await _read(link, make_redactor(), invocation=invocation, lines=lines)
        if link.log_file is not None:
            found = await _add_file(link, link.log_file, make_redactor(), found=found, since=None)
    except TimeoutError as error:
        sentence = f"{link.host.name}: the journal was not handed over within {_WITHIN:g} s"
        raise HostError(link.host.name, sentence) from error
    return [line for line in found if not line.partial][-lines:]


async def _add_file(
    link: Link, path: str, redactor: Redactor, *, found: list[LogLine], since: timedelta | None
) -> list[LogLine]:
    place = FilePosition(offset=_FILE_MOST)
    written, end = await _read_file(link, path, redactor, place=place)
    began = datetime.fromtimestamp(end.seen, UTC) - since if since is not None and end.seen else None
    return await asyncio.to_thread(_merge, found, written, began)


def _merge(lines: list[LogLine], written: list[LogLine], began: datetime | None) -> list[LogLine]:
    return log_file.merge(lines, log_file.since(written, began))


async def _read_file(
    link: Link, path: str, redactor: Redactor, *, place: FilePosition
) -> tuple[list[LogLine], FilePosition]:
    """The whole lines of a log file from `place` on, and where it ended."""
    decoder = LogFileDecoder(redactor, position=place)
    found: list[LogLine] = []
    async with asyncio.timeout(_WITHIN):
        async with aclosing(link.host.read_log(path, position=place)) as stream:
            async for data in stream:
                found.extend(decoder.feed(data))
    end = decoder.position
    found.extend(decoder.close())
    return [line for line in found if not line.partial], end


async def _read(
    link: Link,
    redactor: Redactor,
    *,
    invocation: InvocationId | None = None,
    lines: int | None = None,
    since: timedelta | None = None,
) -> list[LogLine]:
    decoder = Decoder(redactor)
    found: list[LogLine] = []
    async with asyncio.timeout(_WITHIN):
        stream = link.host.read_journal(
            link.unit, scope=link.scope, invocation=invocation, lines=lines, since=since
        )
        async with aclosing(stream):
            async for data in stream:
                found.extend(decoder.feed(data))
    found.extend(decoder.close())
    return found

"""Fetches the whole decoded log of a start from its hosts, or what this process still remembers of it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import structlog

from bot.core.journal import Decoder
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


async def read_start(
    links: Mapping[Member, Link],
    invocations: Mapping[Member, InvocationId | None],
    *,
    make_redactor: Callable[[], Redactor],
) -> TailFile:
    """Every line of the given invocations, member after member.

    A member whose host does not hand it over in time is told from memory: the newest lines alone.
    """
    lines: list[LogLine] = []
    for member, link in links.items():
        invocation = invocations.get(member)
        if invocation is None:  # it never got that far: what was heard is all there is
            lines.extend(link.ring)
            continue
        try:
            lines.extend(await _read(link, make_redactor(), invocation=invocation))
        except (HostError, TimeoutError) as error:
            log.warning("tail_from_memory", member=member, error=str(error), lines=len(link.ring))
            lines.extend(link.ring)
    return render_tail(lines)


async def read_latest(
    link: Link,
    *,
    make_redactor: Callable[[], Redactor],
    lines: int | None = None,
    since: timedelta | None = None,
) -> TailFile:
    """The last `lines` lines, or those of the last `since`; raises HostError."""
    try:
        return render_tail(await _read(link, make_redactor(), lines=lines, since=since))
    except TimeoutError as error:
        sentence = (
            f"{link.host.name}: the journal was not handed over within {_WITHIN:g} s; ask for fewer lines"
        )
        raise HostError(link.host.name, sentence) from error


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

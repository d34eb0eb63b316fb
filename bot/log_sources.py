"""The sources beside the journal: what the kernel says, and the file of a unit that logs to one."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import structlog

from bot.core.events import HostLost, HostRestored, LineRead, LogMissed, Origin
from bot.core.journal import Decoder
from bot.core.kernel import matters
from bot.core.log_file import FilePosition, LogFileDecoder
from bot.errors import HostError, PermissionRefused
from bot.sources import KERNEL, LOG_FILE, Backoff, Inbox, Link, Piece

if TYPE_CHECKING:
    from bot.core.events import LogLine
    from bot.core.redact import Redactor

log = structlog.get_logger()

# Real seconds what was written while nobody looked waits: the journal says which start it belongs to.
_JOURNAL_FIRST = 1.0
WATCHED_MOST = 16 << 20  # bytes of a file that are searched for the start that is under way


async def follow_kernel(link: Link, inbox: Inbox, *, redactor: Redactor) -> None:
    """The few kernel lines that matter; a host that refuses them is done without.

    A lost link is told by the journal's source; here it is only taken up again.
    """
    backoff = Backoff()
    while True:
        alive = False
        decoder = Decoder(redactor, position=link.kernel)
        try:
            async with aclosing(link.host.follow_kernel(position=link.kernel)) as stream:
                async for data in stream:
                    alive = True
                    await _deliver_kernel(link, inbox, decoder=decoder, data=data)
        except PermissionRefused as error:
            log.info("kernel_refused", member=link.member, error=str(error))
            return
        except HostError as error:
            log.debug("kernel_lost", member=link.member, error=str(error))
        await asyncio.sleep(backoff.after(alive=alive))


async def _deliver_kernel(link: Link, inbox: Inbox, *, decoder: Decoder, data: bytes) -> None:
    said = (line for line in decoder.feed(data) if line.origin is Origin.KERNEL)  # nothing counts twice
    lines = [line for line in said if matters(line.reading)]
    link.kernel = decoder.position
    if not lines:
        return
    link.remember(lines)
    events = tuple(LineRead(link.member, line) for line in lines)
    await inbox.put(Piece(events, link.member, link.kernel, KERNEL))


async def follow_log_file(link: Link, inbox: Inbox, *, redactor: Redactor) -> None:
    """Follow the member's log file for ever; what cannot be read is told, and tried again with backoff."""
    backoff = Backoff()
    while True:
        alive, error = await _follow_once(link, inbox, redactor=redactor)
        pause = backoff.after(alive=alive)
        log.warning("log_file_lost", member=link.member, error=str(error), retry_in=pause)
        link.log_lost = True
        await inbox.put(Piece((HostLost(link.member, str(error)),)))
        await asyncio.sleep(pause)


async def _follow_once(link: Link, inbox: Inbox, *, redactor: Redactor) -> tuple[bool, HostError]:
    """Until the stream ends: whether it brought anything, and why it ended."""
    place = link.log or FilePosition(offset=WATCHED_MOST)
    decoder = LogFileDecoder(redactor, position=place)
    began = asyncio.get_running_loop().time()
    alive = False
    try:
        async with aclosing(link.host.follow_log(link.log_file or "", position=place)) as stream:
            async for data in stream:
                lines = decoder.feed(data)
                alive = decoder.opened
                await _tell_missed(link, inbox, decoder=decoder)
                await _tell_restored(link, inbox, seen=alive)
                if lines:
                    await asyncio.sleep(began + _JOURNAL_FIRST - asyncio.get_running_loop().time())
                    await _deliver(link, inbox, lines=lines, place=decoder.position)
    except HostError as error:
        return alive, error
    return alive, HostError(link.host.name, f"{link.host.name}: {link.log_file} ended")


async def _tell_missed(link: Link, inbox: Inbox, *, decoder: LogFileDecoder) -> None:
    since, decoder.missed = decoder.missed, None
    if since is not None:
        log.warning("log_file_gap", member=link.member, since=str(since))
        await inbox.put(Piece((LogMissed(link.member, since, None, link.log_file),)))


async def _tell_restored(link: Link, inbox: Inbox, *, seen: bool) -> None:
    """A file that is only waited for is not seen again."""
    if seen and link.log_lost:
        link.log_lost = False
        if not link.lost:
            await inbox.put(Piece((HostRestored(link.member),)))


async def _deliver(link: Link, inbox: Inbox, *, lines: list[LogLine], place: FilePosition) -> None:
    link.log = place
    link.remember(lines)
    events = tuple(LineRead(link.member, line) for line in lines)
    await inbox.put(Piece(events, link.member, place, LOG_FILE))

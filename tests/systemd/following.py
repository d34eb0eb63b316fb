"""Reads a real journal through the bot's own client and decoder."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from bot.core.journal import Decoder, Position
from bot.core.redact import Redactor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from bot.clients.ssh import Host
    from bot.core.events import LogLine
    from tests.systemd.real_host import RealHost

READY = "fired up and ready to roll"
PATIENCE = 60.0  # seconds, for a busy machine


async def follow_until(
    host: Host, real: RealHost, words: str, *, position: Position
) -> tuple[list[LogLine], Position]:
    """Whole lines from `position` to the first that has the words, and where to go on."""
    decoder = Decoder(Redactor(), position=position)
    found: list[LogLine] = []
    async with (
        asyncio.timeout(PATIENCE),
        aclosing(host.follow_journal(real.unit, scope="system", position=position)) as stream,
    ):
        async for data in stream:
            found += [line for line in decoder.feed(data) if not line.partial]
            if any(words in line.text for line in found):
                break
    return found, decoder.position


async def read_all(stream: AsyncIterator[bytes]) -> list[LogLine]:
    """Every whole line of a journal that ends."""
    decoder = Decoder(Redactor())
    found = [line async for data in stream for line in decoder.feed(data)]
    return [line for line in (*found, *decoder.close()) if not line.partial]


async def here(host: Host) -> Position:
    """The journal's end now."""
    return Position(await host.journal_end(scope="system"))


async def eventually(ask: Callable[[], Awaitable[object]]) -> None:
    """Until the answer is true; what a host does takes its time."""
    async with asyncio.timeout(PATIENCE):
        while not await ask():  # noqa: ASYNC110  the host sets no event here
            await asyncio.sleep(0.05)

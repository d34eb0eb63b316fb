"""Asks every host of a service while a person waits, who learns early which of them keep silent.

A host that is gone is known only after the whole time-out of a connection. What was asked goes on meanwhile:
the notice cancels nothing, and nothing is asked twice because of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from bot.core.events import HostName
from bot.errors import HostError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from bot.sources import Link

T = TypeVar("T")

SLOW_AFTER = 4.0  # real seconds, as long as `status` waits
_TELL_WITHIN = 2.0  # real seconds: a Slack that hangs delays no restart

# Told once: which hosts have not answered, and for how many seconds.
Slow: TypeAlias = Callable[[tuple[HostName, ...], float], Awaitable[None]]


async def ask_each(
    links: Sequence[Link], ask: Callable[[Link], Awaitable[T]], *, slow: Slow | None = None
) -> list[T]:
    """The answers in order. Raises what the first that fails raises."""
    silent = [HostName(link.host.name) for link in links]

    async def ask_one(link: Link) -> T:
        answer = await ask(link)
        silent.remove(HostName(link.host.name))
        return answer

    async def ask_all() -> list[T]:
        return await asyncio.gather(*map(ask_one, links))

    work = asyncio.create_task(ask_all())
    try:
        answered, _ = await asyncio.wait({work}, timeout=None if slow is None else SLOW_AFTER)
        if slow is not None and not answered and silent:  # the last may have answered in this very moment
            with suppress(TimeoutError):
                async with asyncio.timeout(_TELL_WITHIN):
                    await slow(tuple(dict.fromkeys(silent)), SLOW_AFTER)
        return await work
    finally:
        work.cancel()


@asynccontextmanager
async def noticing(links: Sequence[Link], slow: Slow | None) -> AsyncIterator[None]:
    """Around what may take long where all is well: whether those hosts answer at all is asked beside it."""
    if slow is None:
        yield
        return
    beside = asyncio.create_task(_look(links, slow))
    try:
        yield
    finally:
        beside.cancel()


async def _look(links: Sequence[Link], slow: Slow) -> None:
    with suppress(HostError):  # told by what is done there
        await ask_each(links, lambda link: link.host.show(link.unit, scope=link.scope), slow=slow)

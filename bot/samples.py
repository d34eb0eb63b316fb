"""Asks the hosts of a startup what they measure, and where its ranks stand in their code."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from bot.core.events import EvidenceSampled
from bot.core.ranks import in_order
from bot.errors import HostError
from bot.sources import Piece

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from bot.core.events import Member, Rank
    from bot.core.redact import Redactor
    from bot.sources import Inbox, Link

log = structlog.get_logger()

_WITHIN = 60.0  # real seconds all stacks together may take
_TOGETHER = 2  # processes looked at at a time: each stands still while it is


async def sample_unit(link: Link, inbox: Inbox, *, at: datetime, model: str | None) -> None:
    """One sample, begun `at`; a host that cannot be reached is told by those who watch its unit."""
    try:
        sample = await link.host.sample(link.unit, scope=link.scope, at=at, model=model)
    except HostError as error:
        log.info("not_sampled", member=link.member, error=str(error))
        return
    await inbox.put(Piece((EvidenceSampled(link.member, sample),)))


async def read_stacks(
    links: Mapping[Member, Link], processes: Mapping[Member, Mapping[Rank, int]], *, redactor: Redactor
) -> tuple[str, int] | None:
    """The stacks of every rank as one text, and of how many; None where no host gives any."""
    gate = asyncio.Semaphore(_TOGETHER)

    async def look(member: Member, rank: Rank, pid: int) -> str | None:
        host = links[member].host
        try:
            async with gate:
                stack = await host.dump_stack(pid)
        except HostError as error:  # the other hosts of the service may tell all the same
            log.info("no_stack", member=member, rank=rank, error=str(error))
            return None
        return None if stack is None else f"=== {rank} on {host.name}, process {pid}\n\n{stack}\n"

    asked = [
        look(member, rank, pids[rank])
        for member, pids in processes.items()
        for rank in sorted(pids, key=in_order)
    ]
    try:
        async with asyncio.timeout(_WITHIN):
            told = [stack for stack in await asyncio.gather(*asked) if stack is not None]
    except TimeoutError:
        log.warning("no_stacks", within=_WITHIN)
        return None
    return (redactor.redact("\n".join(told))[0], len(told)) if told else None

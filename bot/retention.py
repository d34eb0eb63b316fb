"""Keeps what Redis holds within bounds: now and then, by one process at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog

from bot.errors import StoreUnavailable

if TYPE_CHECKING:
    import asyncio

    from bot.clients.store import Store
    from bot.clock import Clock
    from bot.tasks import Tasks

log = structlog.get_logger()

LEASE = "retention"


class Retention:
    """The process that has the lease prunes; where it dies, another has it by the next time."""

    def __init__(self, store: Store, *, clock: Clock, tasks: Tasks) -> None:
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self._pruning: asyncio.Task[bool] | None = None

    def prune_soon(self) -> None:
        """What the schedule calls; nothing where the last one still runs."""
        if self._pruning is None or self._pruning.done():
            self._pruning = self._tasks.spawn("retention", self.prune())

    async def prune(self) -> bool:
        """Whether it was our turn, and Redis took part; what was missed is dropped the next time."""
        began = time.monotonic()
        try:
            if await self._store.leases.claim(LEASE) is None:
                return False
            await self._store.prune(self._clock.now())
        except StoreUnavailable as error:
            log.warning("retention_delayed", error=str(error))
            return False
        log.info("retention_done", seconds=round(time.monotonic() - began, 1))
        return True

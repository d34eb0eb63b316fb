"""What an engine is asked for beside its rounds: a completion now and then, and its queue."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from bot.core.monitor_events import SmokeChecked
from bot.core.monitor_state import WatchStanding
from bot.errors import StoreUnavailable
from bot.ground import Ground
from bot.sources import smoke_masked
from bot.watch_machines import Machines

if TYPE_CHECKING:
    import asyncio

    from bot.watch_entries import Entry

Spawn: TypeAlias = Callable[[str, Callable[[], Awaitable[None]]], "asyncio.Task[Any]"]


@dataclass(slots=True)
class Looks:
    ground: Ground
    machines: Machines
    spawn: Spawn

    def begin_due(self, entry: Entry) -> None:
        """Each of them, where its time has come; never one that is still out."""
        self._check_smoke(entry)
        self._check_queue(entry)

    def _check_smoke(self, entry: Entry) -> None:
        every = self.ground.section(entry.watch.service).monitor.completion_every
        if every is None or entry.smoking:
            return
        now = self.ground.clock.now()
        if entry.smoke_due is None:
            entry.smoke_due = now + every * random.uniform(0.5, 1.0)  # noqa: S311 - a jitter
        if _serves(entry) and now >= entry.smoke_due:
            entry.smoke_due = now + every
            self.smoke(entry)

    def smoke(self, entry: Entry) -> None:
        """Ask for a completion now."""
        if not entry.smoking:
            entry.smoking = True
            self.spawn(f"completion {entry.service}", partial(self._run_smoke, entry))

    async def _run_smoke(self, entry: Entry) -> None:
        try:
            asked = self.ground.clock.now()
            probe = self.ground.probes[entry.watch.service]
            result = await smoke_masked(probe, redactor=self.ground.make_redactor(), short=True)
        finally:
            entry.smoking = False
        await self.machines.tell_surely(entry, SmokeChecked(result), asked=asked)

    def _check_queue(self, entry: Entry) -> None:
        now = self.ground.clock.now()
        runs = tuple(member.invocation for member in entry.watch.state.members.values())
        if _serves(entry) and entry.queue.is_due(now, runs=runs):
            self.spawn(f"queue {entry.service}", partial(self._look_at_queue, entry))

    async def _look_at_queue(self, entry: Entry) -> None:
        asked = self.ground.clock.now()
        load = await entry.queue.look(self.ground.probes[entry.watch.service])
        serves = entry.watch.state.standing is WatchStanding.SERVING
        if load is not None and serves:
            with contextlib.suppress(StoreUnavailable):  # the next look tells the same
                await self.machines.tell(entry, load, asked=asked)


def _serves(entry: Entry) -> bool:
    state = entry.watch.state
    return state.standing is WatchStanding.SERVING and state.operation is None

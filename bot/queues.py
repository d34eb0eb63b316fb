"""When an engine is asked for its queue, and where it tells that."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import structlog

from bot.clients.probe import LOAD_PATHS, NotOffered

if TYPE_CHECKING:
    from bot.clients.probe import Probe
    from bot.core.monitor_events import LoadSeen

log = structlog.get_logger()

EVERY = timedelta(minutes=1)


@dataclass(slots=True)
class QueueLooks:
    """Of one engine. A place that tells no queue is not asked again until the engine runs anew."""

    due: datetime | None = None
    runs: tuple[Any, ...] = ()
    paths: tuple[str, ...] = LOAD_PATHS
    busy: bool = False

    def is_due(self, now: datetime, *, runs: tuple[Any, ...]) -> bool:
        """Whether to `look` now; where it is True, that must follow. `runs`: those of its members."""
        if runs != self.runs:
            self.runs, self.paths = runs, LOAD_PATHS
        if self.busy or not self.paths:
            return False
        if self.due is None:  # engines are not asked all at once
            self.due = now + EVERY * random.uniform(0, 1)  # noqa: S311 - a jitter
        if now < self.due:
            return False
        self.due, self.busy = now + EVERY, True
        return True

    async def look(self, probe: Probe) -> LoadSeen | None:
        """None: it does not tell, now or at all."""
        runs = self.runs
        try:
            for path in self.paths:
                try:
                    found = await probe.load(path)
                except NotOffered as error:
                    log.debug("queue_not_told", why=str(error))
                    if runs == self.runs:
                        self.paths = tuple(each for each in self.paths if each != path)
                else:
                    if found is not None and runs == self.runs:
                        self.paths = (path,)
                    return found
        finally:
            self.busy = False
        return None

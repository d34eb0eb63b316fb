"""Incidents of what nobody watches any more: the configuration has changed since they were opened.

Theory. Whoever has the incident decides, by its own configuration, but not for itself alone: while processes
with the old configuration live, one of them may have the host and watch on. Whoever watches a host marks in
Redis what it watches there, and only what has been unmarked for minutes is ended. A process that begins with
a configuration that is put right meanwhile marks it again, and nothing was told. A process of an earlier
release marks nothing: what it watches on a host that it has, nobody knows.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.clients.leases import Leases
from bot.clients.store_watches import Watches, lease_name
from bot.core.incident_state import IncidentId
from bot.watch_plans import why_unwatched
from config.services import Configuration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.core.incident_state import IncidentPlan

AFTER = 180.0  # real seconds that nobody may have watched it


@dataclass(slots=True)
class Unwatched:
    """`after`: real seconds, counted in this process."""

    configuration: Configuration
    watches: Watches
    leases: Leases
    after: float = field(default_factory=lambda: AFTER)
    _since: dict[IncidentId, float] = field(default_factory=dict)

    async def find(self, opened: Sequence[IncidentPlan]) -> list[tuple[IncidentPlan, str]]:
        """Of the open ones those to be ended, and why. Raises StoreUnavailable."""
        now, found, since = time.monotonic(), list[tuple["IncidentPlan", str]](), dict[IncidentId, float]()
        for plan in opened:
            why = why_unwatched(self.configuration, plan.host, plan.service)
            if why is None or await self._is_marked(plan):
                continue
            since[plan.incident] = self._since.get(plan.incident, now)
            if now - since[plan.incident] >= self.after:
                found.append((plan, why))
        self._since = since
        return found

    async def _is_marked(self, plan: IncidentPlan) -> bool:
        """Whether somebody watches it: one with another configuration."""
        marked = await self.watches.marked(plan.host)
        if marked is None:
            return await self.leases.is_owned(lease_name(plan.host))
        return plan.service is None or plan.service in marked

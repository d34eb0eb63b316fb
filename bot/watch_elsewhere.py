"""What other processes see of the hosts that they watch, as Redis has it: asked while none of ours answers.

Where theirs went in the same moment, one incident tells it for all, whichever process has it. Where one of
theirs is seen, it may be only this process that has lost its way, and that one should look at ours instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from bot.clients.store_watches import Watches, lease_name
from bot.core.events import HostName, ServiceName
from bot.core.monitor_host import HostWatch
from bot.core.monitor_state import Sight
from bot.ground import Ground
from bot.watch_plans import HOST_STATE, make_host_plan

if TYPE_CHECKING:
    from bot.core.monitor_state import HostState

log = structlog.get_logger()

_FEWEST = 2  # hosts that are silent: of a single one nobody can tell


@dataclass(slots=True)
class Elsewhere:
    """`hosts`: all that are watched, by whichever process."""

    ground: Ground
    watches: Watches
    hosts: Mapping[HostName, Sequence[ServiceName]]
    _theirs: dict[HostName, HostWatch] = field(default_factory=dict)
    _reached: bool = False

    async def look(self, own: Mapping[HostName, HostWatch]) -> None:
        """Nothing is asked while one of our own answers. Raises StoreUnavailable."""
        theirs, reached = dict[HostName, HostWatch](), False
        for host in self.hosts if _are_silent(own) else ():
            if host in own or (state := await self._read(host)) is None:
                continue
            seen = state.seen and state.sight is Sight.SEEN
            if seen and not await self.ground.store.leases.is_owned(lease_name(host)):
                continue  # who saw it is no more, perhaps with the host
            theirs[host] = HostWatch(make_host_plan(self.ground, host, self.hosts[host]), state)
            reached = reached or seen
        self._theirs, self._reached = theirs, reached

    async def _read(self, host: HostName) -> HostState | None:
        found = await self.watches.read(host, None)
        try:
            return HOST_STATE.validate_json(found.state) if found is not None else None
        except ValueError:
            return None  # whoever has it tells of that

    def beside(self, own: Mapping[HostName, HostWatch]) -> Mapping[HostName, HostWatch]:
        """All that may have gone in the same moment; ours alone, where another process still sees one."""
        return own if self._reached else {**self._theirs, **own}

    def is_reached(self, own: Mapping[HostName, HostWatch]) -> bool:
        """Another process sees hosts, and this one none of its own, which has been told."""
        return self._reached and any(each.state.leads for each in own.values())


def _are_silent(own: Mapping[HostName, HostWatch]) -> bool:
    failing = [each.state.failing_since is not None for each in own.values() if each.state.seen]
    return len(failing) >= _FEWEST and all(failing)

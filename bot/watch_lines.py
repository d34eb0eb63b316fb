"""The lines a watch hears of a host: what systemd says of its units, and the few that tell of an end.

One stream for all units of a host and scope, searched on the host. It begins with the present: what was said
while nobody listened, the next round finds in the state of the units.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import structlog

from bot.clients.ssh import Host
from bot.clients.ssh_watch import lacks_patterns
from bot.core.events import InvocationId, Member, Origin, ServiceName, UnitName
from bot.core.journal import Decoder
from bot.core.kernel import read_culprit
from bot.core.monitor_events import UnitLine
from bot.core.monitor_lines import telling_pattern
from bot.core.redact import Redactor
from bot.errors import HostError, PermissionRefused
from bot.sources import Backoff

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from bot.core.events import LogLine

log = structlog.get_logger()

Hear: TypeAlias = Callable[[ServiceName, UnitLine], Awaitable[None]]
Whose: TypeAlias = Callable[[InvocationId], list[tuple[ServiceName, Member]]]
_ASK_WITHIN = 5.0  # real seconds
_MOST_PIDS = 64
_NAMES = ("USER_UNIT", "UNIT", "_SYSTEMD_USER_UNIT", "_SYSTEMD_UNIT", "OBJECT_SYSTEMD_UNIT")


@dataclass(slots=True)
class HostLines:
    """`units`: who wants to hear of each. A host that refuses is done without, and the rounds remain.

    `whose`: the members whose present run that is, since what a service writes names no more than its run.
    """

    host: Host
    scope: str
    hear: Hear
    whose: Whose
    make_redactor: Callable[[], Redactor]
    units: dict[UnitName, list[tuple[ServiceName, Member]]] = field(default_factory=dict)
    _units_of: dict[int, UnitName | None] = field(default_factory=dict)  # by process that the kernel named

    async def follow(self) -> None:
        """For ever. Where the host's journalctl cannot search, only systemd's own lines are heard."""
        backoff, telling = Backoff(), True
        while True:
            alive = False
            decoder = Decoder(self.make_redactor())
            try:
                async with aclosing(self._open(telling=telling)) as stream:
                    async for data in stream:
                        alive = True
                        for line in decoder.feed(data):
                            await self._route(line)
            except PermissionRefused as error:
                log.warning("monitor_lines_refused", host=self.host.name, error=str(error))
                return
            except HostError as error:
                if telling and lacks_patterns(error):
                    log.info("monitor_lines_not_searched", host=self.host.name, error=str(error))
                    telling = False
                    continue
                log.debug("monitor_lines_lost", host=self.host.name, error=str(error))
            await asyncio.sleep(backoff.after(alive=alive))

    def _open(self, *, telling: bool) -> AsyncGenerator[bytes, None]:
        units = list(self.units)
        if telling:
            return self.host.follow_telling(units, scope=self.scope, pattern=telling_pattern())
        return self.host.follow_units(units, scope=self.scope)

    async def _route(self, line: LogLine) -> None:
        if line.partial:
            return
        kernel = line.origin is Origin.KERNEL
        for service, member in await self._ask_whose(line) if kernel else self._concerned(line):
            await self.hear(service, UnitLine(member, line))

    async def _ask_whose(self, line: LogLine) -> list[tuple[ServiceName, Member]]:
        """The kernel names a process at best, and the host its unit; what neither does concerns all of it."""
        unit, pid = None, read_culprit(line.reading)
        if pid is not None:
            if pid not in self._units_of:
                await self._ask_unit(pid)
            unit = self._units_of.get(pid)
        if unit is not None:
            return self.units.get(unit, [])
        return [each for listeners in self.units.values() for each in listeners]

    async def _ask_unit(self, pid: int) -> None:
        """Nothing is noted where the host does not tell soon; a service's processes are all in its group."""
        try:
            async with asyncio.timeout(_ASK_WITHIN):
                finished = await self.host.run(("cat", f"/proc/{pid}/cgroup"))
        except (HostError, TimeoutError) as error:
            log.debug("culprit_not_told", host=self.host.name, pid=pid, error=str(error))
            return
        groups = [part for part in finished.out.strip().split("/") if part.endswith(".service")]
        self._units_of = dict([*self._units_of.items()][-_MOST_PIDS:])
        self._units_of[pid] = UnitName(groups[-1]) if groups and not finished.status else None

    def _concerned(self, line: LogLine) -> list[tuple[ServiceName, Member]]:
        named = (line.fields.get(name) for name in _NAMES)
        found = next((UnitName(unit) for unit in named if unit in self.units), None)
        if found is not None:
            return self.units[found]
        if len(self.units) == 1:
            return next(iter(self.units.values()))
        return self.whose(line.invocation) if line.invocation is not None else []

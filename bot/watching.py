"""The watch over one host and its services in the process that has the host's lease.

Each service is watched by a machine of the core's, told in turn of rounds and lines. What a machine remembers
is written only when it changes, together with what it orders; orders are carried out afterwards, each once
however often that is tried, so that another process can go on anywhere in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from typing import TYPE_CHECKING, Any

import structlog

from bot.clients.store_watches import MARK_FOR
from bot.errors import OwnershipLost, StoreUnavailable
from bot.watch_entries import open_entry, open_host_entry
from bot.watch_looks import Looks
from bot.watch_machines import Machines
from bot.watch_records import Records
from bot.watch_rounds import Rounds
from bot.watch_words import Words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from bot.clients.leases import Lease
    from bot.clients.store_watches import Watches
    from bot.core.events import HostName, InvocationId, Member, ServiceName
    from bot.core.monitor_events import UnitLine
    from bot.core.monitor_host import HostWatch
    from bot.ground import Ground
    from bot.watch_entries import Entry
    from bot.watch_records import Carry

log = structlog.get_logger()

_BEGIN_WITHIN = 1.0  # real seconds
_MARK_EVERY = MARK_FOR / 4
_CLOSE_WITHIN = 2.0


class Watching:
    """Its life in this process."""

    def __init__(
        self,
        ground: Ground,
        watches: Watches,
        host: HostName,
        lease: Lease,
        carry: Carry,
        *,
        neighbours: Callable[[], Mapping[HostName, HostWatch]] = dict,
    ) -> None:
        """`neighbours`: the watches over all hosts, of this process and as far as is known of others."""
        self.ground = ground
        self.watches = watches
        self.host = host
        self.is_lost = False
        self.broken: Exception | None = None  # by a fault of ours: what it is lost for
        self._records = Records(ground, watches, host, lease, carry)
        self._machines = Machines(ground, self._records, neighbours=neighbours)
        self._looks = Looks(ground, self._machines, self.spawn)
        self._machines.smoke = self._looks.smoke
        self._words = Words(watches, host, self._machines)
        self._rounds = Rounds(ground, host, self._machines, self._looks)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._began = time.monotonic()

    async def open(self, services: Sequence[ServiceName]) -> None:
        """Take up what the watch remembers. Raises StoreUnavailable."""
        ground, watches, host = self.ground, self.watches, self.host
        for service in services:
            self._machines.entries[service] = await open_entry(ground, watches, host, service)
        # All at once, for one look at the host serves them all; hosts begin one after the other.
        due = time.monotonic() + random.uniform(0, _BEGIN_WITHIN)  # noqa: S311 - a jitter
        for entry in self._machines.entries.values():
            entry.due = due
        self._machines.own = await open_host_entry(ground, watches, host, services)
        self._records.entries = [*self._machines.entries.values(), self._machines.own]

    def start(self) -> None:
        self._began = time.monotonic()
        self.spawn("rounds", self._rounds.run, vital=True)
        self.spawn("words", self._words.run, vital=True)
        self.spawn("mark", self._mark)

    async def _mark(self) -> None:
        """For ever: so that whoever watches otherwise knows that somebody does. See `incident_unwatched`."""
        while True:
            with contextlib.suppress(StoreUnavailable):
                await self.watches.mark(self.host, list(self._machines.entries))
            await asyncio.sleep(_MARK_EVERY)

    def spawn(
        self, name: str, work: Callable[[], Awaitable[None]], *, vital: bool = False
    ) -> asyncio.Task[Any]:
        """`vital`: without it nobody watches, so that with its failure the whole watch is begun anew."""
        task = self.ground.tasks.spawn(f"monitor {self.host} {name}", self._guard(work, vital=vital))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guard(self, work: Callable[[], Awaitable[None]], *, vital: bool) -> None:
        try:
            await work()
        except OwnershipLost:
            self.lose()
        except Exception as error:
            if not vital:
                raise
            self.broken = self.broken or error  # whoever begins it anew tells of it
            self.lose()

    async def write_anew(self) -> None:
        """All that it knows, where Redis may have come back empty. What is refused waits for rounds."""
        try:
            await self._machines.write_all()
        except OwnershipLost:
            self.lose()

    def lose(self) -> None:
        """Another process has the host, or nobody here can go on: nothing more is written or ordered."""
        if not self.is_lost:
            self.is_lost = True
            log.info("monitor_lost", host=self.host)
            self.stop()

    def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()

    async def close(self) -> None:
        """Stop, and wait until nothing of it runs."""
        self.stop()
        if tasks := tuple(self._tasks):
            await asyncio.wait(tasks, timeout=_CLOSE_WITHIN)

    def poke(self) -> None:
        """Something was said to it."""
        self._words.poke()

    async def tell_line(self, service: ServiceName, event: UnitLine) -> None:
        await self._machines.tell_line(service, event)

    def whose(self, invocation: InvocationId) -> list[tuple[ServiceName, Member]]:
        """The members whose present run that is."""
        return self._machines.whose(invocation)

    @property
    def lease(self) -> Lease:
        """Another one than at first where Redis came back empty."""
        return self._records.lease

    @property
    def entries(self) -> dict[ServiceName, Entry]:
        return self._machines.entries

    @property
    def age(self) -> float:
        """Real seconds since it began to look."""
        return time.monotonic() - self._began

    @property
    def host_watch(self) -> HostWatch:
        """Once it is opened."""
        assert self._machines.own is not None  # noqa: S101 - for the type checker
        return self._machines.own.host_watch

    @property
    def rounds(self) -> int:
        """How many are over and told."""
        return self._rounds.count

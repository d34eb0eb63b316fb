"""What the machines of one host are told, one event at a time each, and what becomes of what they order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bot.core.events import HostName, ServiceName
from bot.core.monitor_events import Checked, CheckSmoke, HostChecked
from bot.core.monitor_host import HostWatch
from bot.core.monitor_network import darkness_of
from bot.core.monitor_state import Sight
from bot.errors import StoreUnavailable
from bot.ground import Ground
from bot.watch_entries import Entry
from bot.watch_operations import look_at_operation
from bot.watch_records import Records

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import InvocationId, Member
    from bot.core.monitor_events import HostEvent, UnitLine, WatchAction, WatchEvent
    from bot.watch_orders import Order

_RETRY = 1.0  # real seconds


def _ask_nothing(_: Entry) -> None:
    """Until there is somebody to ask."""


@dataclass(slots=True)
class Machines:
    """`own`: the host's, once it is opened. `smoke`: asks a service for a completion at once.

    `neighbours`: the watches over all hosts of this process, this one among them.
    """

    ground: Ground
    records: Records
    entries: dict[ServiceName, Entry] = field(default_factory=dict)
    own: Entry | None = None
    smoke: Callable[[Entry], None] = _ask_nothing
    neighbours: Callable[[], Mapping[HostName, HostWatch]] = dict

    @property
    def sight(self) -> Sight:
        return self.own.host_watch.sight if self.own is not None else Sight.SEEN

    def are_muted(self, now: datetime) -> bool:
        """All services of the host."""
        mutes = [entry.watch.state.mute for entry in self.entries.values()]
        return bool(mutes) and all(mute is not None and now < mute.until for mute in mutes)

    def whose(self, invocation: InvocationId) -> list[tuple[ServiceName, Member]]:
        """The members whose present run that is."""
        return [
            (service, name)
            for service, entry in self.entries.items()
            for name, member in entry.watch.state.members.items()
            if member.invocation == invocation
        ]

    async def tell_line(self, service: ServiceName, event: UnitLine) -> None:
        await self.tell_surely(self.entries[service], event)

    async def tell_surely(self, entry: Entry, event: WatchEvent, *, asked: datetime | None = None) -> None:
        """Of what comes once: Redis is waited for."""
        while True:
            try:
                await self.tell(entry, event, asked=asked)
            except StoreUnavailable:
                await asyncio.sleep(_RETRY)
            else:
                return

    async def tell(self, entry: Entry, event: WatchEvent, *, asked: datetime | None = None) -> bool:
        """Raises StoreUnavailable, and nothing was told, where Redis does not say what is under way.

        `asked`: when the question was put that this answers. False, and it is not told, where a line has told
        of something newer since: a look that was under way meanwhile shows what was.
        """
        actions: list[WatchAction] = []
        dirty = False
        async with entry.lock:
            found, facts = await look_at_operation(self.ground.store, entry.watch)
            if asked is not None and entry.is_stale(asked):
                return False
            if isinstance(event, Checked):
                event = replace(event, operation=found)
            now = self.ground.clock.now()
            for each in (*facts, event):
                actions += entry.watch.handle(each, now)
                dirty = dirty or entry.watch.dirty
            orders: list[Order] = []
            for action in actions:
                if isinstance(action, CheckSmoke):
                    self.smoke(entry)
                else:
                    orders.append(action)
            await self.records.settle(entry, orders, dirty=dirty)
        return True

    async def write_all(self) -> None:
        """What all of them remember; what Redis does not take now is written with their next rounds."""
        for entry in self.records.entries:
            async with entry.lock:
                await self.records.settle(entry, (), dirty=True)

    async def tell_host(self, event: HostEvent) -> None:
        if (own := self.own) is None:
            return
        async with own.lock:
            watch, now = own.host_watch, self.ground.clock.now()
            if isinstance(event, HostChecked) and event.error is not None:
                # At this very moment: of two that go together only one may lead.
                event = replace(event, dark=darkness_of(watch.plan.host, self.neighbours(), now))
            orders = watch.handle(event, now)
            await self.records.settle(own, orders, dirty=own.host_watch.dirty)

"""What this process has of one service under watch, or of a host: its machine, its times, what is owed."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import structlog

from bot.clients.probe import Probe
from bot.clients.store_watches import Owed, Watched
from bot.core.events import Member, ServiceName
from bot.core.monitor import Watch
from bot.core.monitor_host import HostWatch
from bot.core.monitor_state import HostState, WatchStanding, WatchState
from bot.core.times import bring_back
from bot.queues import QueueLooks
from bot.rounds import pace_of
from bot.sources import Link
from bot.watch_plans import HOST_STATE, WATCH_STATE, make_host_plan, make_watch_plan, probe_inside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import TypeAdapter

    from bot.clients.store_watches import Watches
    from bot.core.events import HostName
    from bot.ground import Ground

log = structlog.get_logger()

_PROVEN = frozenset({WatchStanding.DOWN, WatchStanding.STARTING, WatchStanding.STOPPED})

WHOLE_EVERY = 20  # rounds: how often the model's name and the port's owner are asked for too
FASTEST = 0.1  # real seconds between rounds, however fast a practice clock runs


@dataclass(slots=True)
class Entry:
    """One service, or the host itself, where `service` is None."""

    machine: Watch | HostWatch
    service: ServiceName | None
    links: dict[Member, Link] = field(default_factory=dict)
    every: float = 0.0  # real seconds
    pace: float = 0.0  # from one look to the next while nothing is in doubt
    due: float = 0.0
    began: float | None = None  # the newest round
    busy: bool = False
    rounds: int = 0
    proved: tuple[Any, ...] = ()  # the runs of which all was asked and found right
    smoke_due: datetime | None = None
    smoking: bool = False
    inside: Probe | None = None
    queue: QueueLooks = field(default_factory=QueueLooks)
    owed: list[Owed] = field(default_factory=list)
    beside: dict[str, asyncio.Task[bool]] = field(default_factory=dict)  # of what is owed, by its id
    heard: list[str] = field(default_factory=list)
    unsaved: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def watch(self) -> Watch:
        assert isinstance(self.machine, Watch)  # noqa: S101 - for the type checker: it has a service
        return self.machine

    @property
    def host_watch(self) -> HostWatch:
        assert isinstance(self.machine, HostWatch)  # noqa: S101 - for the type checker: it has none
        return self.machine

    def describe(self) -> Watched:
        state = self.machine.state
        adapter: TypeAdapter[Any] = WATCH_STATE if isinstance(state, WatchState) else HOST_STATE
        return Watched(state=adapter.dump_json(state).decode(), owed=tuple(self.owed))

    def is_stale(self, asked: datetime) -> bool:
        """What was asked before a new run was seen, or before it was lost, proves nothing about it."""
        state = self.watch.state
        if state.since is not None and state.since > asked and state.standing in _PROVEN:
            return True
        return any(member.since is not None and member.since > asked for member in state.members.values())


async def open_entry(ground: Ground, watches: Watches, host: HostName, service: ServiceName) -> Entry:
    """As the watch remembers it. Raises StoreUnavailable."""
    plan = await make_watch_plan(ground, service)
    found = await watches.read(host, service)
    state = _read(found, WATCH_STATE, WatchState)
    bring_back(state, ground.clock.now())  # or nothing that is seen would count until our clock is there
    entry = Entry(Watch(plan, ground.engines[service], state), service, ground.links(service))
    entry.every = max(ground.clock.real(plan.every), FASTEST)
    entry.pace = max(pace_of(entry.every, failures=plan.failures, doubt=False), FASTEST / 2)
    entry.rounds = random.randrange(WHOLE_EVERY)  # noqa: S311 - a jitter
    entry.owed = list(found.owed) if found else []
    entry.inside = probe_inside(ground, service)
    return entry


async def open_host_entry(
    ground: Ground, watches: Watches, host: HostName, services: Sequence[ServiceName]
) -> Entry:
    """Of the host itself. Raises StoreUnavailable."""
    found = await watches.read(host, None)
    plan = make_host_plan(ground, host, services)
    entry = Entry(HostWatch(plan, _read(found, HOST_STATE, HostState)), None)
    entry.owed = list(found.owed) if found else []
    return entry


def _read(found: Watched | None, adapter: TypeAdapter[Any], kind: type[Any]) -> Any:
    """A state of another shape is begun anew: nothing is told until it was seen serving."""
    if found is None:
        return kind()
    try:
        return adapter.validate_json(found.state)
    except ValueError as error:
        log.error("watch_state_unreadable", error=str(error))  # noqa: TRY400 - begun anew
        return kind()

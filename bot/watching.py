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
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from bot.clients.leases import Lease
from bot.clients.probe import Probe
from bot.clients.store_watches import Owed, Watched, Watches
from bot.core.actions import Verdict
from bot.core.events import HostName, Member, ProbeAnswer, ServiceName, Ticked
from bot.core.monitor import Watch
from bot.core.monitor_events import (
    Checked,
    CheckSmoke,
    HostChecked,
    IncidentClosed,
    IncidentFound,
    OperationEnded,
    OperationUnderWay,
    SmokeChecked,
    UnitLine,
)
from bot.core.monitor_host import HostWatch
from bot.core.monitor_state import HostState, Sight, WatchStanding, WatchState
from bot.errors import OwnershipLost, StoreEmptied, StoreUnavailable
from bot.ground import Ground
from bot.queues import QueueLooks
from bot.rounds import Seen, ask, pace_of, patience_of, see
from bot.sources import Link, smoke_masked
from bot.watch_orders import Order, pack_order, read_order, read_word
from bot.watch_plans import (
    HOST_STATE,
    WATCH_STATE,
    account_of,
    make_host_plan,
    make_watch_plan,
    probe_inside,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import TypeAdapter

    from bot.core.events import InvocationId, OperationId
    from bot.core.monitor_events import HostAction, HostEvent, WatchAction, WatchEvent

log = structlog.get_logger()

Carry = Callable[[Order, str], Awaitable[None]]

_FASTEST = 0.1  # real seconds between rounds, however fast a practice clock runs
_WHOLE_EVERY = 20  # rounds: how often the model's name and the port's owner are asked for too
_SPREAD, _SPREAD_MOST = 0.05, 1.0  # of `every`, in real seconds: engines of a host are not asked all at once
_RETRY = 1.0


@dataclass(slots=True)
class Entry:
    """One service, or the host itself, where `service` is None."""

    machine: Watch | HostWatch
    service: ServiceName | None
    links: dict[Member, Link] = field(default_factory=dict)
    every: float = 0.0  # real seconds
    due: float = 0.0
    began: float = 0.0  # the newest round
    busy: bool = False
    rounds: int = 0
    proved: tuple[Any, ...] = ()  # the runs of which all was asked and found right
    smoke_due: datetime | None = None
    smoking: bool = False
    inside: Probe | None = None
    queue: QueueLooks = field(default_factory=QueueLooks)
    owed: list[Owed] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    unsaved: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def watch(self) -> Watch:
        assert isinstance(self.machine, Watch)  # noqa: S101 - for the type checker: it has a service
        return self.machine

    def describe(self) -> Watched:
        state = self.machine.state
        adapter: TypeAdapter[Any] = WATCH_STATE if isinstance(state, WatchState) else HOST_STATE
        return Watched(state=adapter.dump_json(state).decode(), owed=tuple(self.owed))


@dataclass(slots=True)
class Watching:
    """`carry`: carries out one order, once for each name; raises StoreUnavailable to be asked again."""

    ground: Ground
    watches: Watches
    host: HostName
    lease: Lease
    carry: Carry
    entries: dict[ServiceName, Entry] = field(default_factory=dict)
    is_lost: bool = False
    rounds: int = 0
    _own: Entry = field(init=False)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _said: set[str] = field(default_factory=set)
    _poked: asyncio.Event = field(default_factory=asyncio.Event)

    # Its life in this process.

    async def open(self, services: Sequence[ServiceName]) -> None:
        """Take up what the watch remembers. Raises StoreUnavailable."""
        for service in services:
            plan = await make_watch_plan(self.ground, service)
            found = await self.watches.read(self.host, service)
            state = _read(found, WATCH_STATE, WatchState)
            entry = Entry(
                Watch(plan, self.ground.engines[service], state), service, self.ground.links(service)
            )
            entry.every = max(self.ground.clock.real(plan.every), _FASTEST)
            entry.due = time.monotonic() + random.uniform(0, min(entry.every, 2.0))  # noqa: S311 - a jitter
            entry.owed = list(found.owed) if found else []
            entry.inside = probe_inside(self.ground, service)
            self.entries[service] = entry
        found = await self.watches.read(self.host, None)
        plan_of_host = make_host_plan(self.ground, self.host, services)
        self._own = Entry(HostWatch(plan_of_host, _read(found, HOST_STATE, HostState)), None)
        self._own.owed = list(found.owed) if found else []

    def start(self) -> None:
        self.spawn("rounds", self._run)

    def spawn(self, name: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[Any]:
        task = self.ground.tasks.spawn(f"monitor {self.host} {name}", self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guard(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except OwnershipLost:
            self.lose()

    def lose(self) -> None:
        """Another process has the host: nothing more is written or ordered."""
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
            await asyncio.wait(tasks, timeout=2.0)

    def poke(self) -> None:
        """Something was said to it."""
        self._poked.set()

    @property
    def sight(self) -> Sight:
        machine = self._own.machine
        return machine.sight if isinstance(machine, HostWatch) else Sight.SEEN

    # Rounds.

    async def _run(self) -> None:
        while True:
            await self._listen()
            now = time.monotonic()
            ready = [each for each in self.entries.values() if each.due <= now and not each.busy]
            for entry in ready:
                pause = self._pause(entry)
                entry.busy, entry.began = True, now
                entry.due = (entry.due if now - entry.due < pause / 2 else now) + pause
            if ready:
                self.spawn("round", partial(self._round, ready))
            waits = (entry.due for entry in self.entries.values() if not entry.busy)
            soonest = min(waits, default=now + 60)
            self._poked.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(soonest - time.monotonic(), 0.01)):
                    await self._poked.wait()

    def _pause(self, entry: Entry) -> float:
        doubt = entry.watch.state.standing is WatchStanding.SUSPECT or self.sight is Sight.DOUBTFUL
        pace = pace_of(entry.every, failures=entry.watch.plan.failures, doubt=doubt)
        return max(pace, _FASTEST / 2)

    async def _round(self, entries: list[Entry]) -> None:
        """Never begun for a service whose last one is not over."""
        try:
            asked = self.ground.clock.now()
            within = patience_of(min(entry.every for entry in entries))
            end = time.monotonic() + within
            seen = await see((link for each in entries for link in each.links.values()), within=within)
            error = seen.errors.get(self.host)
            if error is None:
                await self._tell_host(HostChecked(None))
                told = (
                    self._ask_and_tell(entry, seen, asked, end, alone=len(entries) == 1) for entry in entries
                )
                await asyncio.gather(*told)
            else:
                await self._tell_unseen(entries, seen, asked, end, error)
            self.rounds += 1
        except StoreUnavailable as error:
            log.warning("round_not_told", host=self.host, error=str(error))
        finally:
            for entry in entries:
                entry.busy = False
                # Doubt that this round brought makes the next one come sooner.
                entry.due = min(entry.due, entry.began + self._pause(entry))
            self.poke()

    async def _ask_and_tell(
        self, entry: Entry, seen: Seen, asked: datetime, end: float, *, alone: bool
    ) -> None:
        if not alone:
            await asyncio.sleep(random.uniform(0, min(entry.every * _SPREAD, _SPREAD_MOST)))  # noqa: S311
        answer = await self._ask(entry, seen, end)
        await self._tell_round(entry, seen, asked, answer, end)

    async def _tell_unseen(
        self, entries: list[Entry], seen: Seen, asked: datetime, end: float, error: str
    ) -> None:
        """SSH is gone: what still answers past it tells whether the host is."""
        answers = await asyncio.gather(*(self._ask(entry, seen, end) for entry in entries))
        pairs = list(zip(entries, answers, strict=True))
        answering = tuple(
            entry.watch.service for entry, answer in pairs if answer is not None and answer.health is not None
        )
        await self._tell_host(HostChecked(error, answering))
        for entry, answer in pairs:
            await self._tell_round(entry, seen, asked, answer, end)

    async def _ask(self, entry: Entry, seen: Seen, end: float) -> ProbeAnswer | None:
        section = self.ground.section(entry.watch.service)
        if section.reach == "ssh" and seen.errors.get(self.host) is not None:
            return None
        runs = tuple(getattr(unit, "invocation", None) for unit in seen.units.values())
        whole = entry.proved != runs or entry.rounds % _WHOLE_EVERY == 0
        entry.rounds += 1
        probe = self.ground.probes[entry.watch.service]
        answer = await ask(probe, whole=whole, within=_left(end), redactor=self.ground.make_redactor())
        if whole:
            good = answer.health == 200 and answer.error is None  # noqa: PLR2004 - HTTP's own number
            entry.proved = runs if good else ()
        return answer

    async def _tell_round(
        self, entry: Entry, seen: Seen, asked: datetime, answer: ProbeAnswer | None, end: float
    ) -> None:
        inside = None
        failed = answer is not None and answer.health != 200  # noqa: PLR2004 - HTTP's own number
        if failed and entry.inside is not None and seen.errors.get(self.host) is None:
            redactor = self.ground.make_redactor()
            inside = await ask(entry.inside, whole=False, within=_left(end), redactor=redactor)
        if self._is_stale(entry, asked):
            return
        event = Checked(
            probe=answer,
            units={member: seen.units[member] for member in entry.links},
            inside=inside,
            boots={member: boot for member, boot in seen.boots.items() if member in entry.links},
            sight=self.sight,
        )
        await self.tell(entry, event)
        self._check_smoke(entry)
        self._check_queue(entry)

    def _is_stale(self, entry: Entry, asked: datetime) -> bool:
        """What was asked before a new run was seen proves nothing about it."""
        members = entry.watch.state.members.values()
        return any(member.since is not None and member.since > asked for member in members)

    # Completions.

    def _check_smoke(self, entry: Entry) -> None:
        every = self.ground.section(entry.watch.service).monitor.completion_every
        if every is None or entry.smoking:
            return
        now, state = self.ground.clock.now(), entry.watch.state
        if entry.smoke_due is None:
            entry.smoke_due = now + every * random.uniform(0.5, 1.0)  # noqa: S311 - a jitter
        serves = state.standing is WatchStanding.SERVING and state.operation is None
        if serves and now >= entry.smoke_due:
            entry.smoke_due = now + every
            self._smoke(entry)

    def _smoke(self, entry: Entry) -> None:
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
        if not self._is_stale(entry, asked):
            await self.tell_surely(entry, SmokeChecked(result))

    # Queues.

    def _check_queue(self, entry: Entry) -> None:
        state, now = entry.watch.state, self.ground.clock.now()
        serves = state.standing is WatchStanding.SERVING and state.operation is None
        runs = tuple(member.invocation for member in state.members.values())
        if serves and entry.queue.is_due(now, runs=runs):
            self.spawn(f"queue {entry.service}", partial(self._look_at_queue, entry))

    async def _look_at_queue(self, entry: Entry) -> None:
        asked = self.ground.clock.now()
        load = await entry.queue.look(self.ground.probes[entry.watch.service])
        serves = entry.watch.state.standing is WatchStanding.SERVING
        if load is not None and serves and not self._is_stale(entry, asked):
            with contextlib.suppress(StoreUnavailable):  # the next look tells the same
                await self.tell(entry, load)

    # What the machines are told, and what becomes of what they order.

    async def tell_surely(self, entry: Entry, event: WatchEvent) -> None:
        """Of what comes once: Redis is waited for."""
        while True:
            try:
                return await self.tell(entry, event)
            except StoreUnavailable:
                await asyncio.sleep(_RETRY)

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

    async def tell(self, entry: Entry, event: WatchEvent) -> None:
        """Raises StoreUnavailable, and nothing was told, where Redis does not say what is under way."""
        actions: list[WatchAction] = []
        dirty = False
        async with entry.lock:
            found, facts = await self._look_at_operation(entry)
            if isinstance(event, Checked):
                event = replace(event, operation=found)
            now = self.ground.clock.now()
            for each in (*facts, event):
                actions += entry.watch.handle(each, now)
                dirty = dirty or entry.watch.dirty
            await self._settle(entry, actions, dirty=dirty)

    async def _tell_host(self, event: HostEvent) -> None:
        own = self._own
        if not isinstance(own.machine, HostWatch):
            return
        async with own.lock:
            actions = own.machine.handle(event, self.ground.clock.now())
            await self._settle(own, actions, dirty=own.machine.dirty)

    async def _look_at_operation(self, entry: Entry) -> tuple[OperationId | None, list[WatchEvent]]:
        """Which operation of ours has the service, and what of that the watch has not heard."""
        service, under = entry.watch.service, entry.watch.state.operation
        holder = await self.ground.store.holder(service)
        facts: list[WatchEvent] = []
        if under is not None and (holder is None or holder.operation != under.operation):
            ended = await self._ended(under.operation)
            facts += [ended] if ended is not None else []
        if holder is None:
            return None, facts
        if under is None or holder.operation != under.operation:
            address = await self.ground.store.address(holder.operation)
            link = address.permalink if address is not None else None
            facts.append(OperationUnderWay(holder.operation, holder.verb, holder.by, link))
        return holder.operation, facts

    async def _ended(self, operation: OperationId) -> OperationEnded | None:
        record = await self.ground.store.operation(operation)
        if record is None or record.closed is None or record.verdict is None:
            return None
        account = account_of(record)
        took = record.closed - record.began if account.took is None else timedelta(seconds=account.took)
        cause = account.failure.cause if account.failure is not None else None
        return OperationEnded(operation, record.verb, Verdict(record.verdict), took, record.by or None, cause)

    async def _settle(
        self, entry: Entry, actions: Sequence[WatchAction | HostAction], *, dirty: bool
    ) -> None:
        for action in actions:
            if isinstance(action, CheckSmoke):
                self._smoke(entry)
            else:
                entry.owed.append(pack_order(action))
                dirty = True
        entry.unsaved = entry.unsaved or dirty or bool(entry.heard)
        if entry.unsaved:
            await self._save(entry)
        if entry.owed and not entry.unsaved:
            await self._carry_out(entry)

    async def _save(self, entry: Entry) -> None:
        """What Redis does not take now is written with the next round."""
        heard = tuple(entry.heard)
        try:
            try:
                await self.watches.write(self.lease, entry.service, entry.describe(), heard=heard)
            except StoreEmptied:
                await self._claim_anew()
                await self.watches.write(self.lease, entry.service, entry.describe(), heard=heard)
        except StoreUnavailable as error:
            log.warning("watch_not_saved", host=self.host, service=entry.service, error=str(error))
            return
        del entry.heard[: len(heard)]
        entry.unsaved = False

    async def _claim_anew(self) -> None:
        """Redis came back empty: whoever is first goes on, with what it still knows."""
        lease = await self.ground.store.leases.claim(self.lease.name)
        if lease is None:
            raise OwnershipLost(f"another process watches {self.host}")
        self.lease = lease
        for entry in (*self.entries.values(), self._own):
            entry.unsaved = True

    async def _carry_out(self, entry: Entry) -> None:
        """In order; what is done leaves the record with its next write."""
        while entry.owed:
            owed = entry.owed[0]
            try:
                await self.carry(read_order(owed), owed.id)
            except StoreUnavailable as error:
                log.warning("order_not_carried_out", kind=owed.kind, error=str(error))
                return
            except (ValueError, LookupError) as error:
                log.error("order_unknown", kind=owed.kind, error=str(error))  # noqa: TRY400 - told
            del entry.owed[0]

    # What people say.

    async def _listen(self) -> None:
        with contextlib.suppress(StoreUnavailable):
            for word in await self.watches.words(self.host):
                if word.id in self._said:
                    continue
                self._said.add(word.id)
                await self._take_word(word.id, word.service, partial(read_word, word))

    async def _take_word(self, name: str, service: str, read: Callable[[], Any]) -> None:
        try:
            event = read()
        except ValueError as error:
            log.error("word_unknown", word=name, error=str(error))  # noqa: TRY400 - told
            return
        entry = self.entries.get(ServiceName(service))
        if entry is not None:
            entry.heard.append(name)
            await self.tell_surely(entry, event)
        elif not service and isinstance(event, IncidentClosed | IncidentFound):
            self._own.heard.append(name)
            await self._tell_host(event)

    async def tick(self) -> None:
        """What waits for time, apart from rounds."""
        for entry in self.entries.values():
            with contextlib.suppress(StoreUnavailable):
                await self.tell(entry, Ticked())


def _left(end: float) -> float:
    """Real seconds until then, and one in any case: nothing is judged unasked."""
    return max(end - time.monotonic(), 1.0)


def _read(found: Watched | None, adapter: TypeAdapter[Any], kind: type[Any]) -> Any:
    """A state of another shape is begun anew: nothing is told until it was seen serving."""
    if found is None:
        return kind()
    try:
        return adapter.validate_json(found.state)
    except ValueError as error:
        log.error("watch_state_unreadable", error=str(error))  # noqa: TRY400 - begun anew
        return kind()

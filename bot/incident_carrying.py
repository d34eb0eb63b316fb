"""The incidents this process carries: taken up where others left them, given up when another has them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from bot.clients.slack_history import Archive
from bot.clients.store_incidents import IncidentStore
from bot.clients.store_watches import Watches
from bot.clients.webhook import Webhook
from bot.core.incident import Incident
from bot.core.incident_events import WatchEnded
from bot.core.incident_state import IncidentId
from bot.deliveries import Deliveries
from bot.errors import OwnershipLost, SlackError, StoreUnavailable
from bot.ground import Ground
from bot.incident_found import Remains
from bot.incident_ledger import PLAN, STATE, IncidentLedger
from bot.incident_running import IncidentRunning
from bot.incident_unwatched import Unwatched
from bot.put_off import PutOff
from bot.tasks import end_within
from bot.watch_orders import pack_fact, pack_word
from config.engine_file import AUTO, EngineFile, load_engine

if TYPE_CHECKING:
    from bot.clients.leases import Lease
    from bot.clients.slack_history import FoundRoot
    from bot.clients.store_incidents import IncidentRecord
    from bot.core.events import ServiceName
    from bot.core.incident_state import IncidentPlan
    from bot.watch_orders import Said

log = structlog.get_logger()

_LEAVE_WITHIN = 2.0  # real seconds a clean stop gives each to come to a point where it can be left
_AGAIN = 3.0  # real seconds between looks at Slack while another process takes something up


@dataclass(slots=True)
class IncidentCarrying:
    """Every method that speaks to Redis raises StoreUnavailable.

    `archive`: Slack, where a Redis that came back empty is filled from; without it, it is not.
    """

    ground: Ground
    webhook: Webhook | None = None
    archive: Archive | None = None
    store: IncidentStore = field(init=False)
    running: dict[IncidentId, IncidentRunning] = field(default_factory=dict)
    unwatched: Unwatched = field(init=False)
    _owned: set[IncidentId] = field(default_factory=set)
    _carriers: set[asyncio.Task[None]] = field(default_factory=set)
    _put_off: PutOff = field(default_factory=PutOff)
    _adopting: asyncio.Task[Any] | None = None
    _leaving: bool = False

    def __post_init__(self) -> None:
        self.store = IncidentStore(self.ground.store.link)
        store = self.ground.store
        self.unwatched = Unwatched(self.ground.configuration, Watches(store.link), store.leases)
        self.store.subscribe(self._wake)
        self.ground.store.leases.subscribe_lost(self._lose)
        self.ground.store.leases.subscribe_emptied(self._strand)

    def _running(
        self, record: IncidentRecord, incident: Incident, lease: Lease, **more: Any
    ) -> IncidentRunning:
        ledger = IncidentLedger(self.ground, self.store, record, lease, archive=self.archive)
        running = IncidentRunning(self.ground, incident, ledger, self._tell_watch, **more)
        if self.webhook is not None:
            ledger.deliveries = Deliveries(
                self.webhook.send,
                self.ground.tallies.webhooks,
                running.arrived.set,
                is_ours=lambda: self.ground.store.leases.holds(ledger.lease),
            )
        return running

    def _engine(self, service: ServiceName | None) -> EngineFile:
        engine = self.ground.engines.get(service) if service is not None else None
        return engine or load_engine(AUTO)

    def _carry(self, running: IncidentRunning) -> None:
        self.running[running.plan.incident] = running
        task = self.ground.tasks.spawn(f"incident {running.plan.subject}", self._run(running))
        self._carriers.add(task)
        task.add_done_callback(self._carriers.discard)

    async def _run(self, running: IncidentRunning) -> None:
        identity = running.plan.incident
        try:
            await running.run()
            with contextlib.suppress(StoreUnavailable):
                await self.ground.store.leases.let_go(running.ledger.lease)
            self._put_off.forget(identity)
        except Exception as error:  # noqa: BLE001 - logged there
            self._defer(identity, error)
        finally:
            self.running.pop(identity, None)
            self._owned.discard(identity)
            self.store.let_go(identity)

    def _defer(self, name: IncidentId, error: Exception) -> None:
        """A fault of ours: it stays ours, and is taken up again later and later; the others do not wait."""
        seconds, news = self._put_off.defer(name), self._put_off.news(name, error)
        self.ground.tallies.put_off["incident"] += 1
        log.error("incident_put_off", incident=name, seconds=seconds, error=repr(error), exc_info=news)

    async def _tell_watch(self, plan: IncidentPlan, said: Said, name: str) -> None:
        word = pack_word(said, service=plan.service, name=name)
        await Watches(self.ground.store.link).say(plan.host, word)

    # What others left, and what is left to others.

    def adopt_soon(self) -> None:
        """What the schedule calls: `adopt`, unless the last one still looks."""
        if self._adopting is None or self._adopting.done():
            self._adopting = self.ground.tasks.spawn("adopt incidents", self._adopt_or_wait())

    async def _adopt_or_wait(self) -> None:
        with contextlib.suppress(StoreUnavailable):
            await self.adopt()
            await self.end_unwatched()
            await self.take_up_lost()

    async def adopt(self) -> int:
        """Take up every open incident that no living process has; their number."""
        count, names = 0, await self.store.open_names()
        self._put_off.keep({*names, *self._owned})
        for name in names:
            if name not in self._owned and not self._leaving and not self._put_off.waits(name):
                count += await self._adopt(name)
        return count

    async def end_unwatched(self) -> None:
        """Those of ours that are about what nobody watches any more."""
        carried = [running.incident for running in self.running.values()]
        times = {each.plan.incident: each.state.times for each in carried if each.state.ending is None}
        opened = [each.plan for each in carried if each.plan.incident in times]
        for plan, why in await self.unwatched.find(opened):
            log.info("incident_unwatched", incident=plan.incident, subject=plan.subject, why=why)
            name = f"unwatched:{plan.incident}:{times[plan.incident]}"
            await self.store.tell(plan.incident, pack_fact(WatchEnded(why), name=name))

    async def _adopt(self, name: IncidentId, root: FoundRoot | None = None) -> bool:
        """`root`: where Slack alone still knew it."""
        self._owned.add(name)
        running: IncidentRunning | None = None
        try:
            lease = await self.ground.store.leases.claim(name)
            if lease is None:
                return False
            if root is not None and self.archive is not None and await self.store.read(name) is None:
                await Remains(self.ground, self.store, self.archive).write_anew(root, lease)
            running = await self._restore(name, lease)
            if running is None or self._leaving:
                running = None
                await self.ground.store.leases.let_go(lease)
                return False
        except OwnershipLost:
            running = None
            return False
        except (StoreUnavailable, SlackError):
            raise
        except Exception as error:  # noqa: BLE001 - logged there
            self._defer(name, error)
            return False
        else:
            log.info("incident_adopted", incident=name)
            self._carry(running)
            return True
        finally:
            if running is None:
                self._owned.discard(name)

    async def _restore(self, name: IncidentId, lease: Lease) -> IncidentRunning | None:
        record = await self.store.read(name)
        if record is None:
            if await self.store.is_stale(name):
                await self.store.forget_open(name)
            return None
        if record.closed is not None:
            await self.store.settle(record)
            return None
        try:
            plan, state = PLAN.validate_json(record.plan), STATE.validate_json(record.state)
        except ValueError as error:
            # Another version may know it.
            seconds = self._put_off.defer(name)
            log.error("incident_not_restored", incident=name, seconds=seconds, error=str(error))  # noqa: TRY400
            return None
        running = self._running(record, Incident(plan, self._engine(plan.service), state), lease)
        running.ledger.sent.note(await self.ground.store.waiting(name), {})
        return running

    async def take_up_lost(self) -> int:
        """Those of which Slack alone still knows, once in each Redis that came back empty; their number."""
        if self.archive is None or await self.store.is_rebuilt() or not (epoch := await self.store.epoch()):
            return 0
        count, remains = 0, Remains(self.ground, self.store, self.archive)
        try:
            lost, pause = await self._lost(remains), self.ground.store.leases.seconds
            while lost and not self._leaving:
                await asyncio.sleep(pause)  # whoever lives and has them writes them down again by then
                for root in await self._lost(remains):
                    count += await self._take_up(root)
                lost, pause = await self._lost(remains), _AGAIN
            if not self._leaving:
                await self.store.settle_rebuilt(epoch)
        except SlackError as error:
            log.warning("incidents_not_searched", error=str(error))
            await asyncio.sleep(_AGAIN)
        return count

    async def _lost(self, remains: Remains) -> list[FoundRoot]:
        """Without those of which we cannot make sense: all others would wait for them."""
        return [root for root in await remains.lost() if not self._put_off.waits(root.operation)]

    async def _take_up(self, root: FoundRoot) -> bool:
        name = IncidentId(root.operation)
        if (running := self.running.get(name)) is not None:
            running.strand()
        return name not in self._owned and await self._adopt(name, root)

    def _strand(self) -> None:
        """Redis came back empty: all are written down again."""
        for running in self.running.values():
            running.strand()

    async def hand_over(self) -> None:
        """Leave all to the next process, in bounded time."""
        self._leaving = True
        for running in self.running.values():
            running.leave()
        for task in await end_within(_LEAVE_WITHIN, self._carriers):
            log.warning("incident_not_left_in_order", task=task.get_name())

    def _wake(self, incident: IncidentId) -> None:
        if (running := self.running.get(incident)) is not None:
            running.arrived.set()

    def _lose(self, lease: Lease) -> None:
        running = self.running.get(IncidentId(lease.name))
        if running is not None and running.ledger.lease.number == lease.number:
            running.lose()

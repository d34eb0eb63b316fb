"""The operations of this process: begins them, adopts those that nobody carries out, answers for all."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import structlog

from bot.adoption import NOT_BEGUN, abandon, adopt, view_of
from bot.clients.records import Mail
from bot.core.events import OperationId
from bot.core.request import (
    Busy,
    Declined,
    Held,
    NeedsConfirmation,
    Request,
    RequestAnswer,
    Started,
    StatusView,
    operation_of,
)
from bot.errors import CommandRefused, HostError, Leaving, OwnershipLost, StoreUnavailable
from bot.ground import Ground
from bot.logs import Place, send_logs
from bot.messages import root_message
from bot.planning import costs, holder_of, make_plan, observe, prepare
from bot.running import Running
from bot.standing import describe, look

if TYPE_CHECKING:
    from datetime import timedelta

    from bot.clients.leases import Lease
    from bot.core.actions import StartupView
    from bot.core.events import ChannelId, Member, MessageTs, ServiceName, UnitState, UserId
    from bot.sources import Link

log = structlog.get_logger()

_HANDOVER = 30.0  # real seconds the superseded operation has to end
_HANDOVER_POLL = 0.1
_UNDO_RETRY = 1.0  # real seconds
_LEAVE_WITHIN = 3.5  # real seconds a clean stop gives each operation to come to a point where it can be left
_OWN_POLL = 0.5
_OWN_WITHIN = 15.0  # real seconds until a process that died amid the same request no longer owns it


@dataclass(slots=True)
class Startups:
    """`running`: what this process carries out, by operation. `owned`: with it, what begins and what ends."""

    ground: Ground
    running: dict[OperationId, Running] = field(default_factory=dict)
    owned: set[OperationId] = field(default_factory=set)
    _strange: set[str] = field(default_factory=set)  # services that are told of in the log already
    _carriers: set[asyncio.Task[None]] = field(default_factory=set)
    _adopting: asyncio.Task[int] | None = None
    _leaving: bool = False

    def __post_init__(self) -> None:
        self.ground.store.leases.subscribe_lost(self._lose)
        self.ground.store.subscribe_mail(self._hear)

    async def request(self, request: Request) -> RequestAnswer:
        """Begin what a person asked for, or say why not. StoreUnavailable, Leaving: nothing was done."""
        identity = operation_of(request.token) if request.token else OperationId(uuid.uuid4().hex)
        if request.token and await self.ground.store.operation(identity) is not None:
            return Started(identity)
        held = await self.held(request.service)
        if held is not None and held.operation == identity:
            held = None  # a process that died amid this very request took the lock
        if held is not None and request.over != held.operation:
            return Busy(held)
        return await self._look_and_begin(request, identity, held)

    async def _look_and_begin(
        self, request: Request, identity: OperationId, held: Held | None
    ) -> RequestAnswer:
        links = self.ground.links(request.service)
        try:
            units = await observe(links, request)
        except (HostError, CommandRefused) as error:
            return Declined(str(error))
        if await costs(self.ground, request):
            return NeedsConfirmation(f"{request.service} answers requests at present.")
        if held is None:
            return await self._begin(request, identity, links=links, units=units)
        if not await self._supersede(held, request):
            return Busy(held)
        # What was superseded may have changed the units meanwhile: they are looked at anew.
        return await self.request(replace(request, over=None))

    async def held(self, service: ServiceName) -> Held | None:
        """Who has the service now, since when, and what for."""
        holder = await self.ground.store.holder(service)
        return None if holder is None else await describe(self.ground, holder)

    async def _supersede(self, held: Held, request: Request) -> bool:
        """Ask it to end, whichever process carries it out, and wait until its record is closed."""
        store, name = self.ground.store, request.token or uuid.uuid4().hex
        mail = Mail(
            id=f"superseded:{name}",
            kind="superseded",
            by=request.by,
            verb=request.verb,
            at=self.ground.clock.now(),
        )
        await store.mail(held.operation, mail)  # False: it is closed already
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HANDOVER):
                while not await self._is_closed(held.operation):  # noqa: ASYNC110 - Redis alone knows
                    await asyncio.sleep(_HANDOVER_POLL)
                return True
        return False

    async def _is_closed(self, operation: OperationId) -> bool:
        try:
            record = await self.ground.store.operation(operation)
        except StoreUnavailable:
            return False
        return record is None or record.closed is not None

    # What begins.

    async def _begin(
        self,
        request: Request,
        identity: OperationId,
        *,
        links: dict[Member, Link],
        units: dict[Member, UnitState],
    ) -> RequestAnswer:
        if self._leaving:
            raise Leaving("kimi is being stopped; what was asked goes on in the next process")
        if identity in self.owned:  # the same request, heard twice
            return Started(identity)
        self.owned.add(identity)  # or this very process would adopt it
        try:
            return await self._try_to_begin(request, identity, links=links, units=units)
        except asyncio.CancelledError:
            self.owned.discard(identity)  # whoever goes on with the request finds what there is of it
            raise
        except OwnershipLost:
            # It slept meanwhile, and another process goes on with this very request, or has done so.
            self.owned.discard(identity)
            await self._free_if_over(request.service, identity)
            return Started(identity)
        except Exception:
            self.ground.tasks.spawn(f"undo {request.service}", self._undo(request.service, identity))
            raise

    async def _try_to_begin(
        self,
        request: Request,
        identity: OperationId,
        *,
        links: dict[Member, Link],
        units: dict[Member, UnitState],
    ) -> RequestAnswer:
        lease = await self._claim(identity)
        if lease is None:
            self.owned.discard(identity)
            return Started(identity)
        other = await self.ground.store.take(holder_of(request, identity, now=self.ground.clock.now()))
        if other is not None:
            await self._let_go(lease)
            return Busy(await describe(self.ground, other))
        plan = await make_plan(self.ground, request, identity=identity, units=units)
        running = prepare(self.ground, plan, links=links, lease=lease)
        root = root_message(running.startup.view(plan.began), channel=running.operation.channel)
        created = await self.ground.store.create(running.operation, [root], lease=lease)
        self.ground.outbox.wake()
        if created and not self._leaving:
            self._carry(running)
            return Started(identity)
        if not created:
            await self._free_if_over(request.service, identity)
        await self._let_go(lease)  # it is adopted with the next look
        return Started(identity)

    async def _free_if_over(self, service: ServiceName, identity: OperationId) -> None:
        """The lock that was taken too late is nobody's."""
        saved = await self.ground.store.operation(identity)
        if saved is not None and saved.closed is not None:
            await self.ground.store.release(service, identity)

    async def _claim(self, identity: OperationId) -> Lease | None:
        """None: another process began the same request."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_OWN_WITHIN):
                while True:
                    lease = await self.ground.store.leases.claim(identity)
                    if lease is not None or await self.ground.store.operation(identity) is not None:
                        return lease
                    await asyncio.sleep(_OWN_POLL)
        raise StoreUnavailable("another process of kimi has this request and does not go on with it")

    async def _undo(self, service: ServiceName, identity: OperationId) -> None:
        """Nothing was begun: neither the lock stays, nor a record that Redis took without saying so."""
        try:
            while True:
                try:
                    return await self._take_back(service, identity)
                except StoreUnavailable as error:
                    log.warning("undo_delayed", operation=identity, error=str(error))
                    await asyncio.sleep(_UNDO_RETRY)
        except OwnershipLost:
            log.warning("undo_left_to_another", operation=identity)
        finally:
            self.owned.discard(identity)

    async def _take_back(self, service: ServiceName, identity: OperationId) -> None:
        store = self.ground.store
        lease = await store.leases.claim(identity)
        if lease is None:
            return
        saved = await store.operation(identity)
        if saved is not None and saved.closed is None:
            await abandon(self.ground, saved, NOT_BEGUN, lease=lease)
        await store.release(service, identity)
        await store.leases.let_go(lease)

    # What is carried out.

    def _carry(self, running: Running) -> None:
        identity = running.operation.operation
        self.running[identity] = running
        name = f"startup {running.operation.service}"
        task = self.ground.tasks.spawn(name, self._run(running))
        self._carriers.add(task)
        task.add_done_callback(self._carriers.discard)

    async def _run(self, running: Running) -> None:
        identity = running.operation.operation
        try:
            try:
                await running.run()
            except Exception:
                # A fault of ours must neither hold the service for ever nor let the thread fall silent.
                log.exception("startup_broke", operation=identity)
                await running.give_up()
            finally:
                self.running.pop(identity, None)
            await running.settle()
            running.stop()
            await self._let_go(running.ledger.lease)
        finally:
            running.stop()
            self.owned.discard(identity)

    async def _let_go(self, lease: Lease) -> None:
        with contextlib.suppress(StoreUnavailable):  # else it runs out by itself
            await self.ground.store.leases.let_go(lease)
        self.owned.discard(OperationId(lease.name))

    def _lose(self, lease: Lease) -> None:
        running = self.running.get(OperationId(lease.name))
        if running is not None and running.ledger.lease.number == lease.number:
            running.lose()

    # What others left, and what is left to others.

    def adopt_soon(self) -> None:
        """What the schedule calls: `adopt`, unless the last one still looks."""
        if self._adopting is None or self._adopting.done():
            self._adopting = self.ground.tasks.spawn("adopt", self._adopt_or_wait())

    async def _adopt_or_wait(self) -> int:
        try:
            return await self.adopt()
        except StoreUnavailable:
            return 0  # the next look comes soon

    async def adopt(self) -> int:
        """Take up every open operation that no living process has, where it stood; their number.

        Raises StoreUnavailable.
        """
        count = 0
        for name in await self.ground.store.open_names():
            if name not in self.owned and not self._leaving:
                count += await self._adopt(name)
        return count

    async def _adopt(self, name: OperationId) -> bool:
        self.owned.add(name)
        running: Running | None = None
        try:
            lease = await self.ground.store.leases.claim(name)
            if lease is None:
                return False
            try:
                running = await adopt(self.ground, name, lease)
            except LookupError as error:
                if str(error) not in self._strange:
                    self._strange.add(str(error))
                    log.error("service_not_configured", service=str(error), operation=name)  # noqa: TRY400
            except OwnershipLost:
                return False
            if running is None or self._leaving:
                running = None
                await self._let_go(lease)
                return False
            log.info("operation_adopted", operation=name, away=str(lease.away), clean=lease.clean)
            self._carry(running)
            return True
        finally:
            if running is None:
                self.owned.discard(name)

    async def hand_over(self) -> None:
        """Leave all that runs to the next process, in bounded time; nothing is begun or adopted any more."""
        self._leaving = True
        for running in self.running.values():
            running.leave()
        if self._carriers:
            _, late = await asyncio.wait(tuple(self._carriers), timeout=_LEAVE_WITHIN)
            for task in late:
                log.warning("operation_not_left_in_order", task=task.get_name())
                task.cancel()

    # What the schedule does to all.

    def tick(self) -> None:
        for running in self.running.values():
            running.looks.tick()

    def observe(self) -> None:
        for running in self.running.values():
            running.looks.observe()

    def probe(self) -> None:
        for running in self.running.values():
            running.looks.probe()

    def sample(self) -> None:
        for running in self.running.values():
            running.looks.sample()

    # What people ask of what runs, wherever it does.

    def of(self, service: ServiceName) -> Running | None:
        ours = (run for run in self.running.values() if run.operation.service == service)
        return next((run for run in ours if not run.closed.is_set()), None)

    async def status(self, service: ServiceName) -> StatusView:
        held = await self.held(service)
        startup = await self._present(service, held)
        return await look(self.ground, service, startup=startup, held=held)

    async def _present(self, service: ServiceName, held: Held | None) -> StartupView | None:
        """Of what is carried out here; else of what another process does, as of its last save."""
        running = self.of(service)
        if running is not None:
            return running.startup.view(self.ground.clock.now())
        record = None if held is None else await self.ground.store.operation(held.operation)
        return None if record is None else view_of(self.ground, record)

    async def unwatch(self, service: ServiceName, by: UserId, *, token: str = "") -> bool:
        """Stop following; the service is left alone. False: nothing was followed."""
        holder = await self.ground.store.holder(service)
        if holder is None:
            return False
        name = f"unwatch:{token or uuid.uuid4().hex}"
        mail = Mail(id=name, kind="unwatch", by=by, at=self.ground.clock.now())
        return await self.ground.store.mail(holder.operation, mail)

    async def keep_waiting(
        self, operation: OperationId, by: UserId, longer: timedelta, *, token: str = ""
    ) -> bool:
        """False: it is over."""
        now = self.ground.clock.now()
        mail = Mail(id=f"wait:{token or uuid.uuid4().hex}", kind="wait", by=by, until=now + longer, at=now)
        return await self.ground.store.mail(operation, mail)

    def _hear(self, operation: OperationId) -> None:
        if (running := self.running.get(operation)) is not None:
            running.mail.arrived.set()

    async def logs(
        self,
        service: ServiceName,
        *,
        by: UserId,
        channel: ChannelId,
        thread_ts: MessageTs | None,
        lines: int | None = None,
        since: timedelta | None = None,
        token: str = "",
    ) -> str | None:
        """The decoded, masked tail of each member as a file; a sentence where a host refuses."""
        place = Place(channel, thread_ts)
        return await send_logs(
            self.ground, service, by=by, place=place, lines=lines, since=since, token=token
        )

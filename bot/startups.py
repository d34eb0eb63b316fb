"""All operations of this process: begins them, takes them up after a crash, answers for them."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from bot.baselines import read_last, read_usual
from bot.clients.records import Holder, Operation
from bot.core.actions import Verdict
from bot.core.events import (
    Member,
    OperationId,
    PatienceExtended,
    PhaseId,
    ServiceName,
    Superseded,
    UnitState,
    UnwatchAsked,
    UserId,
    Verb,
)
from bot.core.journal import Position
from bot.core.marker import Marker
from bot.core.request import (
    Busy,
    Declined,
    Held,
    NeedsConfirmation,
    Request,
    RequestAnswer,
    Started,
    StatusView,
    refusal_of,
)
from bot.core.startup import Startup
from bot.core.startup_state import Plan
from bot.errors import CommandRefused, HostError, StoreUnavailable
from bot.ground import Ground
from bot.logs import Place, send_logs
from bot.messages import notice_message, root_message
from bot.places import places_of, restore_places
from bot.running import PLAN, STATE, Running
from bot.standing import look

if TYPE_CHECKING:
    from bot.core.events import ChannelId, MessageTs
    from bot.sources import Link

log = structlog.get_logger()

_HEALTH_WITHIN = 4.0  # real seconds: a service that answers slower is restarted without a question
_HANDOVER = 30.0  # real seconds the superseded operation has to end
_ROOT_WITHIN = 5.0  # real seconds the verb waits for its thread to stand in Slack
_UNDO_RETRY = 1.0  # real seconds
_WANTED_FOR = timedelta(minutes=5)  # nobody expects a restart long after it was asked for
NOT_BEGUN = "kimi went down before it began, and nothing was done. Ask again if it is still wanted."
NOT_RESTORED = (
    "kimi cannot go on from its own record of this operation: it no longer watches, and the service is left "
    "as it is. `watch` takes it up again."
)


@dataclass(slots=True)
class Startups:
    """What runs here, by operation."""

    ground: Ground
    running: dict[OperationId, Running] = field(default_factory=dict)

    async def request(self, request: Request) -> RequestAnswer:
        """Begin what a person asked for, or say why not. Raises StoreUnavailable; nothing was done then."""
        held = await self.held(request.service)
        if held is not None and request.over != held.operation:
            return Busy(held)
        links = self.ground.links(request.service)
        try:
            units = await self._observe(links, request)
        except (HostError, CommandRefused) as error:
            return Declined(str(error))
        if await self._costs(request):
            return NeedsConfirmation(f"{request.service} answers requests at present.")
        if held is None:
            return await self._begin(request, links=links, units=units)
        if not await self._supersede(held, request):
            return Busy(held)
        # What was superseded may have changed the units meanwhile: they are looked at anew.
        return await self.request(replace(request, over=None))

    async def held(self, service: ServiceName) -> Held | None:
        """Who has the service now, since when, and what for."""
        holder = await self.ground.store.holder(service)
        return None if holder is None else await self._describe(holder)

    async def _describe(self, holder: Holder) -> Held:
        address = await self.ground.store.address(holder.operation)
        return Held(
            operation=holder.operation,
            service=holder.service,
            verb=holder.verb,
            by=holder.by,
            age=self.ground.clock.now() - holder.since,
            headline=holder.headline,
            link=address.permalink if address else None,
        )

    async def _observe(self, links: dict[Member, Link], request: Request) -> dict[Member, UnitState]:
        """Look before touching. Raises HostError, and CommandRefused for what makes no sense at present."""

        async def observe(link: Link) -> UnitState:
            unit = await link.host.show(link.unit, scope=link.scope)
            cursor = await link.host.journal_end(scope=link.scope)
            link.position = Position(cursor) if cursor else None
            link.invocation, link.kernel = unit.invocation, link.position
            if link.log_file is not None:
                link.log = link.log_start = await link.host.log_end(link.log_file)
            if request.verb is not Verb.WATCH:
                await link.host.check_sudo(link.unit, request.verb, scope=link.scope)
            return unit

        seen = await asyncio.gather(*(observe(link) for link in links.values()))
        units = dict(zip(links, seen, strict=True))
        if refusal := refusal_of(request, units):
            raise CommandRefused(refusal)
        return units

    async def _costs(self, request: Request) -> bool:
        """Whether the verb would take away a service that answers, and nobody said yes to that yet."""
        if request.confirmed or request.verb not in {Verb.RESTART, Verb.STOP}:
            return False
        try:
            async with asyncio.timeout(_HEALTH_WITHIN):
                answer = await self.ground.probes[request.service].check()
        except TimeoutError:
            return False
        return answer.health == 200  # noqa: PLR2004 - HTTP's own number

    async def _supersede(self, held: Held, request: Request) -> bool:
        running = self.running.get(held.operation)
        if running is None:
            return False
        running.tell(Superseded(request.by, request.verb))
        try:
            async with asyncio.timeout(_HANDOVER):
                await running.closed.wait()
        except TimeoutError:
            return False
        return True

    async def _begin(
        self, request: Request, *, links: dict[Member, Link], units: dict[Member, UnitState]
    ) -> RequestAnswer:
        store, now = self.ground.store, self.ground.clock.now()
        identity = OperationId(uuid.uuid4().hex)
        holder = Holder(
            operation=identity, service=request.service, verb=request.verb, by=request.by, since=now
        )
        try:
            other = await store.take(holder)
            if other is not None:
                return Busy(await self._describe(other))
            plan = await self._plan(request, identity=identity, units=units)
            running = self._prepare(plan, links=links)
            view = running.startup.view(now)
            await store.save(running.operation, [root_message(view, channel=running.operation.channel)])
        except Exception:
            self.ground.tasks.spawn(f"undo {request.service}", self._undo(request.service, identity))
            raise
        self.ground.outbox.wake()
        self._spawn(running)
        return Started(identity)

    async def _undo(self, service: ServiceName, identity: OperationId) -> None:
        """Nothing was begun: neither the lock stays, nor a record that Redis took without saying so."""
        store = self.ground.store
        while True:
            try:
                saved = await store.operation(identity)
                if saved is not None:
                    await self._abandon(saved, NOT_BEGUN)
                return await store.release(service, identity)
            except StoreUnavailable as error:
                log.warning("undo_delayed", operation=identity, error=str(error))
                await asyncio.sleep(_UNDO_RETRY)

    async def _abandon(self, operation: Operation, sentence: str) -> None:
        """Close what this process does not go on with, and say so in its thread."""
        notice = notice_message(sentence, operation=operation.operation, channel=operation.channel)
        update = {"closed": self.ground.clock.now(), "verdict": Verdict.UNWATCHED}
        await self.ground.store.finish(operation.model_copy(update=update), [notice])
        self.ground.outbox.wake()

    async def _plan(self, request: Request, *, identity: OperationId, units: dict[Member, UnitState]) -> Plan:
        section = self.ground.section(request.service)
        watching = request.verb is Verb.WATCH
        return Plan(
            operation=identity,
            service=request.service,
            verb=request.verb,
            members=tuple(units),
            by=request.by,
            reason=request.reason,
            began=self.ground.clock.now(),
            model=section.model,
            ranks=section.ranks,
            stable_for=section.stable_for,
            give_up_after=section.give_up_after,
            patience={PhaseId(phase): patience for phase, patience in section.patience.items()},
            usual=await read_usual(self.ground.store, request.service),
            last=await read_last(self.ground.store, request.service),
            markers=tuple(Marker(each.name, each.pattern) for each in section.markers),
            before={member: None if watching else unit.invocation for member, unit in units.items()},
        )

    def _prepare(self, plan: Plan, *, links: dict[Member, Link]) -> Running:
        for link in links.values():
            if plan.verb is Verb.WATCH:
                # From the beginning of the start that is under way.
                link.position = link.kernel = link.log = link.log_start = None
            else:
                link.invocation = None  # from here on, whatever start it is
        startup = Startup(plan, self.ground.engines[plan.service])
        operation = Operation(
            operation=plan.operation,
            service=plan.service,
            verb=plan.verb,
            channel=self.ground.channel(plan.service),
            by=plan.by,
            reason=plan.reason,
            began=plan.began,
            plan=PLAN.dump_json(plan).decode(),
            state=STATE.dump_json(startup.state).decode(),
            positions={place: json for link in links.values() for place, json in places_of(link)},
        )
        return Running(self.ground, operation, startup, links)

    def _spawn(self, running: Running) -> None:
        identity = running.operation.operation
        self.running[identity] = running
        task = self.ground.tasks.spawn(f"startup {running.operation.service}", self._run(running))
        task.add_done_callback(lambda _: self.running.pop(identity, None))

    async def _run(self, running: Running) -> None:
        try:
            if not running.begun:
                await self._await_root(running.operation.operation)
            await running.run()
        except Exception:
            # A fault of ours must neither hold the service for ever nor let the thread fall silent.
            log.exception("startup_broke", operation=running.operation.operation)
            await running.give_up()

    async def _await_root(self, operation: OperationId) -> None:
        """The thread stands before the unit is touched; a Slack that does not answer delays it, no more."""
        try:
            async with asyncio.timeout(_ROOT_WITHIN):
                while not await self._root_stands(operation):  # noqa: ASYNC110 - Redis alone knows
                    await asyncio.sleep(0.05)  # any process may be the one that posts it
        except TimeoutError:
            log.warning("root_not_posted_yet", operation=operation)

    async def _root_stands(self, operation: OperationId) -> bool:
        try:
            return await self.ground.store.address(operation) is not None
        except StoreUnavailable:
            return False

    # After a crash.

    async def resume(self) -> int:
        """Take up every open operation of Redis where it stood, and free what nobody holds; their number."""
        before = len(self.running)
        for operation in await self.ground.store.open_operations():
            if operation.operation not in self.running:
                await self._take_up(operation)
        await self._free_orphans()
        return len(self.running) - before

    async def _take_up(self, operation: Operation) -> None:
        identity = operation.operation
        if operation.service not in self.ground.configuration.services:
            log.error("service_not_configured", service=operation.service, operation=identity)
            return
        try:
            running = self._restore(operation)
        except ValueError as error:  # pydantic's too: a plan or a state of another shape
            log.error("operation_not_restored", operation=identity, error=str(error))  # noqa: TRY400 - told
            await self._abandon(operation, NOT_RESTORED)
            return
        if running.begun or await self._still_wanted(operation):
            self._spawn(running)
        else:
            log.warning("operation_not_begun", operation=identity)
            await self._abandon(operation, NOT_BEGUN)

    async def _still_wanted(self, operation: Operation) -> bool:
        """Whether a verb never ordered may be now: just asked for, and the service is held for it."""
        holder = await self.ground.store.holder(operation.service)
        held = holder is not None and holder.operation == operation.operation
        return held and self.ground.clock.now() - operation.began < _WANTED_FOR

    def _restore(self, operation: Operation) -> Running:
        plan = PLAN.validate_json(operation.plan)
        state = STATE.validate_json(operation.state)
        links = self.ground.links(operation.service)
        if set(links) != set(plan.members):
            raise ValueError(f"its members were {', '.join(plan.members)}; they are configured no more")
        for member, link in links.items():
            restore_places(link, operation.positions)
            known = state.members[member]
            link.invocation = known.invocation if link.position is None else None
            link.lost = known.lost is not None  # else nobody would tell that it can be seen again
        startup = Startup(plan, self.ground.engines[operation.service], state)
        return Running(self.ground, operation, startup, links)

    async def _free_orphans(self) -> None:
        """A process that died between taking a service and writing down why left it held for nothing."""
        store = self.ground.store
        for name in map(ServiceName, self.ground.configuration.services):
            holder = await store.holder(name)
            if holder is None or holder.operation in self.running:
                continue
            operation = await store.operation(holder.operation)
            if operation is None or operation.closed is not None:
                log.warning("orphaned_lock_released", service=name, operation=holder.operation)
                await store.release(name, holder.operation)

    # What the schedule does to all.

    def tick(self) -> None:
        for running in self.running.values():
            running.tick()

    def observe(self) -> None:
        for running in self.running.values():
            running.observe()

    def probe(self) -> None:
        for running in self.running.values():
            running.probe()

    def sample(self) -> None:
        for running in self.running.values():
            running.sample()

    # What people ask of what runs.

    def of(self, service: ServiceName) -> Running | None:
        ours = (run for run in self.running.values() if run.operation.service == service)
        return next((run for run in ours if not run.closed.is_set()), None)

    async def status(self, service: ServiceName) -> StatusView:
        running = self.of(service)
        startup = running.startup.view(self.ground.clock.now()) if running else None
        return await look(self.ground, service, startup=startup, held=await self.held(service))

    async def unwatch(self, service: ServiceName, by: UserId) -> bool:
        """Stop following; the service is left alone. False: nothing was followed here."""
        running = self.of(service)
        if running is not None:
            running.tell(UnwatchAsked(by))
        return running is not None

    async def keep_waiting(self, operation: OperationId, by: UserId, longer: timedelta) -> bool:
        running = self.running.get(operation)
        if running is not None:
            running.tell(PatienceExtended(by, self.ground.clock.now() + longer))
        return running is not None

    async def logs(
        self,
        service: ServiceName,
        *,
        by: UserId,
        channel: ChannelId,
        thread_ts: MessageTs | None,
        lines: int | None = None,
        since: timedelta | None = None,
    ) -> str | None:
        """The decoded, masked tail of each member as a file; a sentence where a host refuses."""
        place = Place(channel, thread_ts)
        return await send_logs(self.ground, service, by=by, place=place, lines=lines, since=since)

"""What people ask of startups: begun here, told wherever they are carried out."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from bot.adoption import NOT_BEGUN, abandon, view_of
from bot.carrying import Carrying
from bot.clients.records import Mail
from bot.core.events import OperationId, UserId, Verb
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
from bot.logs import Place, send_logs
from bot.messages import root_message
from bot.planning import costs, holder_of, make_plan, nothing_to_watch, observe, prepare
from bot.standing import describe, look

if TYPE_CHECKING:
    from datetime import timedelta

    from bot.asking import Slow
    from bot.clients.leases import Lease
    from bot.core.actions import StartupView
    from bot.core.events import ChannelId, InvocationId, Member, MessageTs, ServiceName, UnitState
    from bot.sources import Link

log = structlog.get_logger()

_HANDOVER = 30.0  # real seconds the superseded operation has to end
_HANDOVER_POLL = 0.1
_UNDO_RETRY = 1.0  # real seconds
_OWN_POLL = 0.5
_OWN_WITHIN = 15.0  # real seconds until a process that died amid the same request no longer owns it


@dataclass(slots=True)
class Startups(Carrying):
    """What people ask for, and what they are told."""

    async def request(self, request: Request, *, slow: Slow | None = None) -> RequestAnswer:
        """Begin what a person asked for, or say why not. StoreUnavailable, Leaving: nothing was done."""
        try:
            return await self._begin_or_refuse(request, slow)
        except HostError as error:
            return Declined(f"No {request.verb} of {request.service} was begun. {error}")
        except CommandRefused as error:
            return Declined(str(error))

    async def _begin_or_refuse(self, request: Request, slow: Slow | None = None) -> RequestAnswer:
        """Raises HostError for a host that cannot be looked at, CommandRefused for what makes no sense."""
        identity = operation_of(request.token) if request.token else OperationId(uuid.uuid4().hex)
        if request.token and await self.ground.store.operation(identity) is not None:
            return Started(identity)
        held = await self.held(request.service)
        if held is not None and held.operation == identity:
            held = None  # a process that died amid this very request took the lock
        if held is not None and request.over != held.operation:
            return Busy(held)
        if refusal := await self.refusal():
            return Declined(refusal)
        return await self._look_and_begin(request, identity, held, slow=slow)

    async def follow(
        self, service: ServiceName, invocation: InvocationId, *, reason: str = ""
    ) -> OperationId | None:
        """A startup that nobody in chat asked for, once for each `invocation`.

        None: there is nothing to follow, or an operation follows the service already. HostError, where nobody
        can say so; StoreUnavailable also while nothing may be begun because Redis came back empty. Then
        whoever noticed the start asks again.
        """
        if refusal := await self.refusal():
            raise StoreUnavailable(refusal)
        token = f"follow {service} {invocation}"
        request = Request(service, Verb.WATCH, UserId(""), reason=reason, token=token)
        try:
            answer = await self._begin_or_refuse(request)
        except CommandRefused:
            return None
        if isinstance(answer, Declined):  # the looks took their time, and nothing may be begun any more
            raise StoreUnavailable(answer.sentence)
        return answer.operation if isinstance(answer, Started) else None

    async def _look_and_begin(
        self, request: Request, identity: OperationId, held: Held | None, *, slow: Slow | None
    ) -> RequestAnswer:
        links = self.ground.links(request.service)
        units = await observe(links, request, slow=slow)
        if await costs(self.ground, request):
            return NeedsConfirmation("It answers requests at present.")
        if settled := await nothing_to_watch(self.ground, request, units):
            return Declined(settled)
        if held is None:
            return await self._begin(request, identity, links=links, units=units)
        if not await self._supersede(held, request):
            return Busy(held)
        # What was superseded may have changed the units meanwhile: they are looked at anew.
        return await self._begin_or_refuse(replace(request, over=None), slow)

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
        if refusal := await self.refusal():  # the looks took their time
            return Declined(refusal)
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
        running.ledger.known[root.id] = root
        created = await self.ground.store.create(running.operation, [root], lease=lease)
        self.ground.outbox.wake()
        if created and not self._leaving:
            self.carry(running)
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

    # What people ask of what runs, wherever it does.

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
        slow: Slow | None = None,
    ) -> str | None:
        """The decoded, masked tail of each member as a file; a sentence where a host refuses."""
        place = Place(channel, thread_ts)
        return await send_logs(
            self.ground, service, by=by, place=place, lines=lines, since=since, token=token, slow=slow
        )

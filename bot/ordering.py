"""Gives a startup's orders to systemd: each once, first on record, and never by a former owner.

Theory: the host carries an order out only until a deadline, a few seconds after the record that announces it
was begun to be written. Whoever takes the operation over has read that record, so the deadline is over for
him when as many seconds have passed on the host. Until then he looks whether the order arrived; what left no
trace by then never will, and may be given as if for the first time.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from bot.core.arrival import shows_arrival, tells_arrival
from bot.core.events import Member, VerbMissed, VerbRefused, VerbSent, VerbUnanswered
from bot.core.journal import Decoder, Position
from bot.core.startup import Startup
from bot.errors import HostError, OrderLate, OwnershipLost
from bot.ground import Ground
from bot.saving import Ledger
from bot.sources import Link

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.actions import SendVerb
    from bot.core.events import Event

log = structlog.get_logger()

_UNSURE = 0.1  # real seconds between looks whether the lease was confirmed
_MOST_LATE = 5  # times in a row that a host finds an order late
_LOOK_EVERY = 0.5  # real seconds
_WENT_AWAY = "kimi itself went away before the answer came"


@dataclass(frozen=True, slots=True)
class Orders:
    """`since`: where each member's journal was read up to when this process took the operation."""

    ground: Ground
    ledger: Ledger
    startup: Startup
    links: dict[Member, Link]
    since: dict[Member, Position | None]

    @property
    def good_for(self) -> float:
        """Real seconds: as long as a lease, which is what a process may sleep and still own it."""
        return self.ground.store.leases.seconds

    async def give(self, order: SendVerb) -> Event | None:
        """Once it is on record; what came of it, None where it was not given.

        Whether a command that was not answered arrived is for the core to find out.
        """
        try:
            if not await self._change(order):
                return None
        except HostError as error:
            failed = VerbUnanswered if error.sent else VerbRefused
            return failed(order.member, str(error))
        return VerbSent(order.member)

    async def _change(self, order: SendVerb) -> bool:
        """False: the startup was over before the order could be given."""
        late = 0
        while self.startup.verdict is None:
            try:
                return await self._try(order)
            except OwnershipLost as error:
                # Nothing was sent. Either the lease is confirmed again soon, or this task is ended.
                log.info("order_waits_for_lease", member=order.member, error=str(error))
                await asyncio.sleep(_UNSURE)
            except OrderLate as error:
                # Nothing was done, and it is still ours to give if the record can be written once more.
                late += 1
                log.warning("order_late", member=order.member, times=late, error=str(error))
                if late == _MOST_LATE:
                    raise
        return False

    async def _try(self, order: SendVerb) -> bool:
        link = self.links[order.member]
        await self.ledger.saved()  # however long Redis is away: what is promised next is soon over
        promise = await link.host.promise(self.good_for)
        # Whoever takes the operation over does so after this, or it fails: so the deadline binds him too.
        await self.ledger.saved(self.ledger.note())
        if self.startup.verdict is not None:
            return False
        if promise.deadline is None:
            log.warning("order_without_deadline", member=order.member)
        log.info("verb_leaves", member=order.member, verb=order.verb, deadline=str(promise))
        await link.host.change(link.unit, order.verb, scope=link.scope, promise=promise, check=self._check)
        return True

    def _check(self) -> None:
        """The last thing before an order leaves: a process that slept may have been given up meanwhile."""
        lease = self.ledger.lease
        if not self.ground.store.leases.holds(lease):
            raise OwnershipLost(f"the lease of {lease.name} was not confirmed in time")

    # What a process before had under way.

    async def settle(self, member: Member, *, asked: datetime) -> Event | None:
        """What became of it; None where the startup is over before that is known."""
        try:
            arrived = await self._find_out(self.links[member])
        except HostError as error:
            log.warning("order_unsettled", member=member, error=str(error))
            arrived = None
        log.info("order_settled", member=member, arrived=arrived)
        if self.startup.verdict is not None:
            return None
        match arrived:
            case True:
                return VerbSent(member)
            case False:
                return VerbMissed(member, asked)
            case None:
                return VerbUnanswered(member, _WENT_AWAY)

    async def _find_out(self, link: Link) -> bool | None:
        """None: nobody can say. Raises HostError."""
        began = await link.host.uptime()
        # Half as long again: what was let through at the last moment takes its time to reach systemd.
        over = None if began is None else began + self.good_for * 1.5
        while self.startup.verdict is None:
            uptime = await link.host.uptime()  # first: what is seen then is no older
            unit = await link.host.show(link.unit, scope=link.scope)
            if shows_arrival(self.startup.plan, self.startup.state, link.member, unit):
                return True
            if await self._has_rebooted(link):
                return None
            if over is None or uptime is None:
                return None
            if uptime > over:
                return await self._reads_arrival(link)
            await asyncio.sleep(min(_LOOK_EVERY, over - uptime + 0.01))
        return None

    async def _has_rebooted(self, link: Link) -> bool:
        known = self.startup.state.members[link.member].boot
        return known is not None and known != await link.host.boot_id()

    async def _reads_arrival(self, link: Link) -> bool | None:
        """Whether the journal tells of what the unit shows no more."""
        since = self.since[link.member]
        if since is None or since.cursor is None:
            return None
        decoder = Decoder(self.ground.make_redactor(), position=since)
        rest = link.host.read_rest(link.unit, scope=link.scope, cursor=since.cursor)
        async with aclosing(rest):
            async for data in rest:
                if tells_arrival(decoder.feed(data)):
                    return True
        return tells_arrival(decoder.close())

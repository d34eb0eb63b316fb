"""Gives a startup's orders to systemd: each once, first on record, and never by a former owner."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from bot.core.events import Member, VerbRefused, VerbSent, VerbUnanswered
from bot.core.startup import Startup
from bot.errors import HostError, OwnershipLost
from bot.ground import Ground
from bot.saving import Ledger
from bot.sources import Link

if TYPE_CHECKING:
    from bot.core.actions import SendVerb
    from bot.core.events import Event

log = structlog.get_logger()

_UNSURE = 0.1  # real seconds between looks whether the lease was confirmed


@dataclass(frozen=True, slots=True)
class Orders:
    ground: Ground
    ledger: Ledger
    startup: Startup
    links: dict[Member, Link]

    async def give(self, order: SendVerb, mark: int) -> Event | None:
        """Once what the ledger noted as `mark` is saved; what came of it, None where it was not given.

        Whether a command that was not answered arrived is for the core to find out.
        """
        await self.ledger.saved(mark)
        try:
            if not await self._change(order):
                return None
        except HostError as error:
            failed = VerbUnanswered if error.sent else VerbRefused
            return failed(order.member, str(error))
        return VerbSent(order.member)

    async def _change(self, order: SendVerb) -> bool:
        """False: the startup was over before the order could be given."""
        link = self.links[order.member]
        while self.startup.verdict is None:
            try:
                await link.host.change(link.unit, order.verb, scope=link.scope, check=self._check)
            except OwnershipLost as error:
                # Nothing was sent. Either the lease is confirmed again soon, or this task is ended.
                log.info("order_waits_for_lease", member=order.member, error=str(error))
                await asyncio.sleep(_UNSURE)
            else:
                return True
        return False

    def _check(self) -> None:
        """The last thing before an order leaves: a process that slept may have been given up meanwhile."""
        lease = self.ledger.lease
        if not self.ground.store.leases.holds(lease):
            raise OwnershipLost(f"the lease of {lease.name} was not confirmed in time")

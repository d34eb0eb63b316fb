"""The record of one incident: written with what is told of it, under its owner's lease, and never before.

Theory. State, messages and what other tools are owed change in one transaction. While Redis is away it is
tried again and nothing is told. A Redis that came back empty gets it all anew from whoever is first: the
lease, where the thread is, what of it Slack has not got, and then the record.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog
from pydantic import TypeAdapter

from bot.clients.leases import Lease
from bot.clients.records import Address, Outgoing
from bot.clients.slack_history import Archive
from bot.clients.store_incidents import IncidentRecord, IncidentStore
from bot.core.incident_actions import IncidentAction, PostIncidentReply
from bot.core.incident_state import IncidentPlan, IncidentState
from bot.core.incident_words import tell_plain
from bot.deliveries import Deliveries, owed_of, still_owed, within_bounds
from bot.errors import OwnershipLost, StoreEmptied, StoreUnavailable
from bot.ground import Ground
from bot.incident_sent import Sent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

log = structlog.get_logger()

PLAN = TypeAdapter(IncidentPlan)
STATE = TypeAdapter(IncidentState)

_RETRY = 1.0  # real seconds


@dataclass(slots=True)
class IncidentLedger:
    """`record`: as Redis has it. `deliveries` None: nobody listens. `address`: the thread's, once known."""

    ground: Ground
    store: IncidentStore
    record: IncidentRecord
    lease: Lease
    deliveries: Deliveries | None = None
    archive: Archive | None = None
    address: Address | None = None
    sent: Sent = field(init=False)
    _said: str = ""
    _unsaved: bool = False

    def __post_init__(self) -> None:
        self.sent = Sent(self.ground, self.archive, self.record.incident)

    def is_behind(self, *, closed: bool) -> bool:
        """Whether it must be written though nothing happened. `closed`: the incident itself is."""
        owed = still_owed(self.deliveries, self.record.owed)
        over = closed and self.record.closed is None and not owed
        return self._unsaved or len(owed) < len(self.record.owed) or over

    def strand(self) -> None:
        """Redis came back empty: it is written down again."""
        self._unsaved = True

    async def find_address(self) -> None:
        """Raises StoreUnavailable."""
        if self.address is None:
            self.address = await self.ground.store.address(self.record.incident)

    async def save(
        self,
        state: IncidentState,
        actions: Sequence[IncidentAction],
        messages: Sequence[Outgoing],
        files: Mapping[str, bytes],
        heard: Sequence[str],
    ) -> None:
        """For as long as Redis is away it is tried again. Raises OwnershipLost."""
        record = self._describe(state, actions)
        while True:
            try:
                await self.store.save(record, messages, files, lease=self.lease, heard=heard)
                break
            except StoreEmptied:
                again, more = await self._write_anew(record)
                messages = list({each.id: each for each in (*again, *messages)}.values())
                files = {**more, **files}
            except StoreUnavailable as error:
                log.warning("incident_not_saved", incident=record.incident, error=str(error))
                await asyncio.sleep(_RETRY)
        self.record, self._unsaved = record, False
        self.sent.note(messages, files)
        if messages:
            self.ground.outbox.wake()
        if self.deliveries is not None:
            self.deliveries.take(record.owed)

    def _describe(self, state: IncidentState, actions: Sequence[IncidentAction]) -> IncidentRecord:
        now = self.ground.clock.now()
        for action in actions:
            if isinstance(action, PostIncidentReply):
                self._said = tell_plain(action.reply)
        over = self.record.over or now if state.ending is not None else None
        more = owed_of(actions) if self.deliveries is not None else ()
        owed = (*still_owed(self.deliveries, self.record.owed), *more)
        update = {
            "state": STATE.dump_json(state).decode(),
            "severity": str(state.severity),
            "headline": self._said or self.record.headline,
            "over": over,
            "closed": now if state.closed and not owed else None,
            "owed": within_bounds(owed),
        }
        return self.record.model_copy(update=update)

    async def _write_anew(self, record: IncidentRecord) -> tuple[list[Outgoing], dict[str, bytes]]:
        """What Slack has not got of what was told; all of it is done before the record stands again.

        Once there is a lease, nothing else would say that the rest is missing.
        """
        while True:
            try:
                lease = await self.ground.store.leases.claim(record.incident)
                if lease is None:
                    raise OwnershipLost(f"another process has {record.incident}")
                self.lease = lease
                self.address, lost, files = await self.sent.lost(self.address)
                await self.store.place(record, self.address)
            except StoreUnavailable as error:
                log.warning("incident_not_written_anew", incident=record.incident, error=str(error))
                await asyncio.sleep(_RETRY)
            else:
                return lost, files

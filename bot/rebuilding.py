"""Writes an operation down again that this process remembers, where Redis came back empty.

Theory. Whoever lives has every message it ever queued; which of them were told, their threads in Slack say,
by the ids in their metadata. Each operation is written down under a new lease, and its lock is taken, before
anything is begun anew. What was queued and does not stand in Slack is queued again, in order.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from bot.clients.records import Holder, Mail
from bot.clients.slack_history import Archive, Standing
from bot.core import emptied
from bot.core.events import OperationId, UserId
from bot.errors import OwnershipLost, SlackError, SlackRefused, StoreEmptied, StoreUnavailable, TokenRefused
from bot.found import find_address
from bot.ground import Ground
from bot.messages import notice_message
from bot.startups import Startups

if TYPE_CHECKING:
    from bot.clients.leases import Lease
    from bot.clients.records import Address, Outgoing
    from bot.running import Running
    from bot.saving import Ledger

log = structlog.get_logger()

_LONGEST_PAUSE = 10.0


@dataclass(slots=True)
class Rebuilding:
    """Of what one process carries."""

    ground: Ground
    startups: Startups
    archive: Archive
    _written: set[tuple[str, OperationId]] = field(default_factory=set)  # in which Redis, and what

    async def rebuild(self, running: Running) -> None:
        """Until it is done, or another process has it; it stays stranded when Redis is emptied once more."""
        pause, name = 0.5, running.operation.operation
        running.ledger.strand()
        while not running.is_lost and running.ledger.is_stranded:
            try:
                async with running.ledger.at_rest():  # a save under way still has the old lease
                    lease = await self._reclaim(running)
                if lease is not None:
                    await self._catch_up(running, lease)
                    return
            except StoreEmptied:
                return
            except OwnershipLost as error:
                log.warning("rebuilt_elsewhere", operation=name, error=str(error))
                self._lose(running)
            except (StoreUnavailable, SlackError) as error:
                log.warning("rebuild_delayed", operation=name, error=str(error), again_in=pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _reclaim(self, running: Running) -> Lease | None:
        """Lease, record and lock; None while another process has it."""
        store, ledger, name = self.ground.store, running.ledger, running.operation.operation
        lease = await store.leases.claim(name)
        record = await store.operation(name)
        ours = (store.epoch, name) in self._written
        if record is not None and not ours and (lease is None or lease.number != ledger.lease.number):
            # Another process has taken it up from Slack and tells it.
            if lease is not None:
                await store.leases.let_go(lease)
            self._lose(running)
        if lease is None or running.is_lost:
            return None
        record = ledger.record
        holder = Holder(
            operation=name,
            service=record.service,
            verb=record.verb,
            by=record.by,
            since=record.began,
            headline=record.headline,
        )
        other = await store.rebuild(record, lease=lease, address=ledger.address, known=(), holder=holder)
        ledger.lease = lease
        self._written.add((store.epoch, name))
        if other is not None:
            await self._yield_to(other, name)
        return lease

    def _lose(self, running: Running) -> None:
        self.startups.recent.pop(running.operation.operation, None)
        running.lose()

    async def _yield_to(self, other: Holder, name: OperationId) -> None:
        """Somebody began another operation in between: that one goes on, as if it had been asked to."""
        log.warning("service_taken_meanwhile", operation=name, by=other.operation)
        mail = Mail(
            id=f"superseded:{other.operation}",
            kind="superseded",
            by=other.by or UserId("kimi"),
            verb=other.verb,
            at=self.ground.clock.now(),
        )
        await self.ground.store.mail(name, mail)

    async def _catch_up(self, running: Running, lease: Lease) -> None:
        """What Slack has is known again; what it has not is queued again."""
        store, ledger, record = self.ground.store, running.ledger, running.ledger.record
        await self.ground.outbox.until_quiet(record.operation)
        address, standing = await self._read(running)
        pushed = [message for message in ledger.known.values() if message.kind != "edit"]
        edits = [message for message in ledger.known.values() if message.kind == "edit"]
        lost = _missing(pushed, address, standing)
        files = await self._fetch(running, lost)
        told = [message.id for message in pushed if message not in lost]
        known = list(dict.fromkeys([*(standing.ids if standing else ()), *told]))
        async with ledger.at_rest():
            await store.rebuild(record, lease=lease, address=address, known=known, holder=None)
            if lost:
                await store.queue.suspect(lost[0])
            ledger.address = address
            ledger.go_on([*lost, *self._notices(running), *edits], files)
        log.info("operation_rebuilt", operation=record.operation, told=len(told), lost=len(lost))
        if not running.is_saved:
            await self._save_rest(ledger)
            await store.leases.let_go(lease)
        self.ground.outbox.wake()

    async def _save_rest(self, ledger: Ledger) -> None:
        """Of an operation that is over: nobody else does."""
        try:
            await ledger.save(dict)
        except StoreUnavailable:
            ledger.strand()
            raise

    def _notices(self, running: Running) -> list[Outgoing]:
        record = running.ledger.record
        if record.closed is not None:
            return []
        identity = f"emptied-{self.ground.store.epoch}"
        name, channel = record.operation, record.channel
        return [notice_message(emptied.KEPT, operation=name, channel=channel, identity=identity)]

    async def _fetch(self, running: Running, lost: list[Outgoing]) -> dict[str, bytes]:
        """The files among them; one that cannot be had once more is told in words by who sends it."""
        uploads = [message for message in lost if message.kind == "upload"]
        fetched = {message.id: await running.uploads.anew(message) for message in uploads}
        return {name: content for name, content in fetched.items() if content is not None}

    async def _read(self, running: Running) -> tuple[Address | None, Standing | None]:
        """Where its thread is, and what stands there; nothing where Slack does not let us read."""
        record = running.ledger.record
        address = running.ledger.address
        try:
            if address is None:
                address = await find_address(self.archive, record)
            if address is None:
                return None, Standing((), frozenset(), ())
            standing = await self.archive.read(address)
        except TokenRefused:
            raise
        except SlackRefused as error:
            log.error("thread_not_readable", operation=record.operation, error=str(error))  # noqa: TRY400
            return address, None
        return address.model_copy(update={"present": address.present or standing.present}), standing


def _missing(pushed: list[Outgoing], address: Address | None, standing: Standing | None) -> list[Outgoing]:
    """What is to be queued again; nothing where nobody can say."""
    if standing is None:
        return []
    told = standing.among(pushed)
    here = {"root", "present"} if address is not None else set()
    return [message for message in pushed if message.id not in told and message.kind not in here]

"""What this process queued for the thread of one incident: queued again where an emptied Redis lost it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import structlog

from bot.clients.records import Address, Outgoing
from bot.clients.slack_history import Archive
from bot.errors import SlackError
from bot.ground import Ground

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

log = structlog.get_logger()

_MOST = 200  # messages that are remembered; an outage that says more has had time to send the first
_ROOT_WITHIN = timedelta(hours=1)  # that a root may have stood in Slack without anybody noting where


@dataclass(slots=True)
class Sent:
    """`archive` None: nobody can say what stands in Slack, so only what has no root there is queued again."""

    ground: Ground
    archive: Archive | None
    thread: str
    _queued: dict[str, Outgoing] = field(default_factory=dict)
    _files: dict[str, bytes] = field(default_factory=dict)

    def note(self, messages: Sequence[Outgoing], files: Mapping[str, bytes]) -> None:
        """They are queued. An edit is shown anew anyway."""
        self._queued |= {message.id: message for message in messages if message.kind != "edit"}
        self._files |= files
        for name in list(self._queued)[1 : len(self._queued) - _MOST]:
            del self._queued[name]
            self._files.pop(name, None)

    async def lost(self, address: Address | None) -> tuple[Address | None, list[Outgoing], dict[str, bytes]]:
        """Where the thread is, and what of it does not stand there, oldest first, with its files.

        For a Redis that has nothing of the thread. Raises StoreUnavailable.
        """
        await self.ground.outbox.until_quiet(self.thread)
        try:
            address = address or await self._find()
            missing = await self._missing(address)
        except SlackError as error:
            log.warning("thread_not_readable", thread=self.thread, error=str(error))
            missing = list(self._queued.values()) if address is None else []
        if missing:
            log.info("incident_messages_lost", thread=self.thread, count=len(missing))
            await self.ground.store.queue.suspect(missing[0])
        return address, missing, {each.id: self._files[each.id] for each in missing if each.id in self._files}

    async def _find(self) -> Address | None:
        root = next(iter(self._queued.values()), None)
        if self.archive is None or root is None:
            return None
        oldest = datetime.now(UTC) - _ROOT_WITHIN
        for found in await self.archive.roots(root.channel, oldest=oldest):
            if found.operation == self.thread and found.id == f"{self.thread}:root":
                return Address(channel=found.channel, ts=found.ts)
        return None

    async def _missing(self, address: Address | None) -> list[Outgoing]:
        queued = list(self._queued.values())
        if address is None:
            return queued
        if self.archive is None:
            return []
        told = (await self.archive.read(address)).among(queued)
        return [message for message in queued if message.id not in told and message.kind != "root"]

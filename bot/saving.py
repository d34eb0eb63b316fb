"""Keeps the record of one operation: state and messages in one transaction, under its owner's lease."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from bot.clients.leases import Lease
from bot.clients.records import Address, Operation, Outgoing
from bot.clients.slack import Outbox
from bot.clients.store import Store
from bot.errors import OwnershipLost, StoreEmptied, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

log = structlog.get_logger()

_RETRY = 1.0  # real seconds between attempts to save while Redis is away
_ADDRESS_SOON = 0.05
_ADDRESS_EVERY = 10.0  # the thread's link comes later, and the place of its present may change


@dataclass(slots=True)
class Ledger:
    """What is noted here is saved soon, all of it in one go; while Redis is away it waits, in order.

    `known`: whatever was queued, without the bytes of files, for a Redis that came back empty.
    """

    store: Store
    outbox: Outbox
    operation: Operation
    lease: Lease
    record: Operation = field(init=False)  # as Redis had it last
    address: Address | None = None  # where the root is, once that is known
    known: dict[str, Outgoing] = field(default_factory=dict)
    _waiting: dict[str, Outgoing] = field(default_factory=dict)
    _files: dict[str, bytes] = field(default_factory=dict)
    _heard: int = 0  # entries of the inbox that are in the state, and not known to have left Redis
    _noted: int = 0
    _saved: int = 0
    _work: asyncio.Event = field(default_factory=asyncio.Event)
    _progress: asyncio.Event = field(default_factory=asyncio.Event)
    _behind: bool = False
    broken: Exception | None = None  # what made an end of `run`
    _sound: asyncio.Event = field(default_factory=asyncio.Event)
    _saving: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._sound.set()
        self.record = self.operation.model_copy(deep=True)

    def note(
        self,
        messages: Iterable[Outgoing] = (),
        files: Mapping[str, bytes] | None = None,
        *,
        heard: int = 0,
    ) -> int:
        """Something changed, and this is to be told of it; a number that `saved` takes.

        `heard`: how many more entries of the inbox, from the oldest, are in the state.
        """
        for message in messages:
            # An edit has one name: the newest takes the place of one that was not saved yet, behind all else.
            self._waiting.pop(message.id, None)
            self._waiting[message.id] = message
        self._files |= files or {}
        self._heard += heard
        self._noted += 1
        self._work.set()
        return self._noted

    async def saved(self, mark: int | None = None) -> None:
        """Wait until all that was noted, up to `mark`, is in Redis; raises what made an end of `run`."""
        mark = self._noted if mark is None else mark
        while self._saved < mark:
            if self.broken is not None:
                raise self.broken
            await self._progress.wait()

    def drop_words(self) -> None:
        """What waits to be told cannot be written down."""
        self._waiting.clear()
        self._files.clear()

    async def find_address(self) -> bool:
        """Whether the thread stands in Slack; any process may be the one that posts its root."""
        with contextlib.suppress(StoreUnavailable):
            found = await self.store.address(self.operation.operation)
            self.address = found or self.address
        return self.address is not None

    async def await_address(self, within: float, *, unless: Callable[[], bool]) -> None:
        """At most `within` real seconds, and no longer when `unless` says so."""
        try:
            async with asyncio.timeout(within):
                while not unless() and not await self.find_address():  # noqa: ASYNC110 - Redis alone knows
                    await asyncio.sleep(_ADDRESS_SOON)
        except TimeoutError:
            log.warning("root_not_posted_yet", operation=self.operation.operation)

    async def keep_address(self) -> None:
        """For ever: remember where the thread is, should Redis lose it."""
        while True:
            await self.find_address()
            await asyncio.sleep(_ADDRESS_EVERY)

    # A Redis that came back empty.

    @property
    def is_stranded(self) -> bool:
        """Redis knows nothing of the operation: nothing is saved until it does again."""
        return not self._sound.is_set()

    def strand(self) -> None:
        """Save nothing more under the lease as it is."""
        self._sound.clear()

    @contextlib.asynccontextmanager
    async def at_rest(self) -> AsyncIterator[None]:
        """Meanwhile nothing is saved."""
        async with self._saving:
            yield

    def go_on(self, lost: Iterable[Outgoing], files: Mapping[str, bytes]) -> None:
        """Redis knows the operation again; `lost` never came to Slack, and goes out before what waits."""
        waiting, self._waiting = self._waiting, {}
        self._waiting = {message.id: message for message in lost}
        for message in waiting.values():
            self._waiting.pop(message.id, None)
            self._waiting[message.id] = message
        self._files |= files
        self._noted += 1
        self._sound.set()
        self._work.set()

    async def run(self, describe: Callable[[], dict[str, Any]]) -> None:
        """Save what is noted, for ever. `describe`: what of the record follows from the state as it is.

        Raises OwnershipLost once another process has the operation; nothing was written then.
        """
        try:
            await self._run(describe)
        except OwnershipLost:
            raise
        except Exception as error:
            self.broken = error
            self._tell_progress()
            raise

    async def _run(self, describe: Callable[[], dict[str, Any]]) -> None:
        while True:
            await self._work.wait()
            await self._sound.wait()
            try:
                async with self._saving:
                    if self.is_stranded:
                        continue
                    self._work.clear()
                    await self.save(describe)
            except StoreEmptied as error:
                log.warning("record_lost", operation=self.operation.operation, error=str(error))
                self._work.set()
                self.strand()
            except StoreUnavailable as error:
                self._work.set()
                if not self._behind:
                    log.warning("save_delayed", operation=self.operation.operation, error=str(error))
                self._behind = True
                await asyncio.sleep(_RETRY)

    async def save(self, describe: Callable[[], dict[str, Any]]) -> None:
        """What is noted, now; raises as the store does."""
        # State, messages and mail of one moment: nothing may be awaited before all are taken.
        mark, heard, files = self._noted, self._heard, dict(self._files)
        messages = sorted(self._waiting.values(), key=lambda message: message.kind == "edit")
        changes = describe() | {"positions": dict(self.operation.positions)}
        record = self.operation.model_copy(update=changes)
        save = self.store.save if record.closed is None else self.store.finish
        await save(record, messages, files, lease=self.lease, read=heard)
        self.record = record
        self._heard -= heard
        self.operation = self.operation.model_copy(
            update={name: changes[name] for name in changes if name != "positions"}
        )
        self._forget(messages, files)
        self._saved, self._behind = mark, False
        self._tell_progress()
        if messages:
            self.outbox.wake()

    def _tell_progress(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()

    def _forget(self, messages: Iterable[Outgoing], files: Iterable[str]) -> None:
        """What is queued waits here no longer; an edit that came meanwhile does."""
        for message in messages:
            if self._waiting.get(message.id) is message:
                del self._waiting[message.id]
            self.known[message.id] = message
        for name in files:
            self._files.pop(name, None)

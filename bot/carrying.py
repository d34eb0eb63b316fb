"""The operations that this process carries out: adopted when nobody has them, given up when another has."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from bot.adoption import adopt
from bot.core.emptied import BARRED
from bot.core.events import OperationId
from bot.errors import OwnershipLost, StoreUnavailable
from bot.ground import Ground
from bot.put_off import PutOff
from bot.running import Running
from bot.tasks import end_within

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.clients.leases import Lease
    from bot.core.events import ServiceName
    from bot.looking import Looks

log = structlog.get_logger()

_BARRED_WITHIN = 2.0  # real seconds a request waits for what stands in its way
# Real seconds between two of the schedule's looks of a kind: all at once would hold up an acknowledgement.
_TICKS_APART, _UNITS_APART, _PROBES_APART, _SAMPLES_APART = 0.005, 0.02, 0.05, 0.05
_ADOPTED_AT_ONCE, _ADOPTED_APART = 16, 0.01
_LEAVE_WITHIN = 3.5  # real seconds a clean stop gives each operation to come to a point where it can be left


@dataclass(slots=True)
class Carrying:
    """`running`: what is carried out, by operation. `owned`: with it, what begins and what ends."""

    ground: Ground
    running: dict[OperationId, Running] = field(default_factory=dict)
    owned: set[OperationId] = field(default_factory=set)
    recent: dict[OperationId, Running] = field(default_factory=dict)  # and what may have words on the way
    barred: str = ""  # why nothing is begun at present
    _strange: set[str] = field(default_factory=set)  # services that are told of in the log already
    _put_off: PutOff = field(default_factory=PutOff)  # what could not even be given up
    _carriers: set[asyncio.Task[None]] = field(default_factory=set)
    _adopting: asyncio.Task[int] | None = None
    _leaving: bool = False
    _free: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.ground.store.leases.subscribe_lost(self._lose)
        self.ground.store.subscribe_mail(self._hear)
        self._free.set()

    def bar(self, sentence: str) -> None:
        """Begin nothing: people are told `sentence`."""
        self.barred = sentence
        self._free.clear()

    def unbar(self) -> None:
        self.barred = ""
        self._free.set()

    async def refusal(self) -> str:
        """Why nothing may be begun; empty where nothing is in the way. Raises StoreUnavailable."""
        if self.barred:
            with contextlib.suppress(TimeoutError):  # it may be over in a moment
                async with asyncio.timeout(_BARRED_WITHIN):
                    await self._free.wait()
        if not self.barred and await self.ground.store.check_epoch():
            return ""
        return self.barred or BARRED

    def carry(self, running: Running) -> None:
        """What is on record under its lease is carried out from here on."""
        identity = running.operation.operation
        self.owned.add(identity)
        self.running[identity] = self.recent[identity] = running
        self.ground.tallies.running = len(self.running)
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
                self.ground.tallies.running = len(self.running)
            await running.settle()
            running.stop()
            await self._let_go(running.ledger.lease)
            self._put_off.forget(identity)
        except Exception as error:  # noqa: BLE001 - logged there
            self._defer(identity, error)
        finally:
            running.stop()
            self.owned.discard(identity)

    def _defer(self, name: OperationId, error: Exception) -> None:
        """What broke, and could not be given up, stays ours, and is taken up again later and later."""
        seconds, news = self._put_off.defer(name), self._put_off.news(name, error)
        self.ground.tallies.put_off["startup"] += 1
        log.error("operation_put_off", operation=name, seconds=seconds, error=repr(error), exc_info=news)

    async def _let_go(self, lease: Lease, *, untouched: bool = False) -> None:
        with contextlib.suppress(StoreUnavailable):  # else it runs out by itself
            await self.ground.store.leases.let_go(lease, untouched=untouched)
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
        names = await self.ground.store.open_names()
        self._put_off.keep({*names, *self.owned})
        free = [name for name in names if name not in self.owned and not self._put_off.waits(name)]
        # Side by side: those that run already leave each step of the next one little room.
        room, taken = asyncio.Semaphore(_ADOPTED_AT_ONCE), 0

        async def one(name: OperationId) -> None:
            nonlocal taken
            async with room:
                if name not in self.owned and not self._leaving and await self._adopt(name, after=taken):
                    taken += 1

        answers = await asyncio.gather(*(one(name) for name in free), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return taken

    async def _adopt(self, name: OperationId, *, after: int) -> bool:
        """`after`: how many were taken just now; each looks at its engine a little later than they do."""
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
            except StoreUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - logged there; the others wait for this one
                self._defer(name, error)
                return False
            if running is None or self._leaving:
                running = None
                await self._let_go(lease, untouched=True)  # whoever goes on with it tells how long nobody did
                return False
            log.info("operation_adopted", operation=name, away=str(lease.away), clean=lease.clean)
            running.delay = after * _ADOPTED_APART
            self.carry(running)
            return True
        finally:
            if running is None:
                self.owned.discard(name)

    async def hand_over(self) -> None:
        """Leave all that runs to the next process, in bounded time; nothing is begun or adopted any more."""
        self._leaving = True
        for running in self.running.values():
            running.leave()
        for task in await end_within(_LEAVE_WITHIN, self._carriers):
            log.warning("operation_not_left_in_order", task=task.get_name())

    # What the schedule does to all.

    def tick(self) -> None:
        self._each(lambda looks: looks.tick(), _TICKS_APART)

    def observe(self) -> None:
        self._each(lambda looks: looks.observe(), _UNITS_APART)

    def probe(self) -> None:
        self._each(lambda looks: looks.probe(), _PROBES_APART)

    def sample(self) -> None:
        self._each(lambda looks: looks.sample(), _SAMPLES_APART)

    def _each(self, look: Callable[[Looks], None], apart: float) -> None:
        loop = asyncio.get_running_loop()
        for number, running in enumerate(self.running.values()):
            if number == 0:
                look(running.looks)
            else:
                loop.call_later(number * apart, look, running.looks)  # which does nothing once it is over

    def of(self, service: ServiceName) -> Running | None:
        ours = (run for run in self.running.values() if run.operation.service == service)
        return next((run for run in ours if not run.closed.is_set()), None)

    def _hear(self, operation: OperationId) -> None:
        if (running := self.running.get(operation)) is not None:
            running.mail.arrived.set()

"""Carries out one startup: sources → queue → core → actions; state and messages are saved as one."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

import structlog
from pydantic import TypeAdapter

from bot import sources
from bot.baselines import ACCOUNT, remember
from bot.clients.slack_history import TELLS
from bot.core.actions import (
    Action,
    Close,
    EditRoot,
    LookAtSetup,
    PostReply,
    ProbeNow,
    RunSmoke,
    SendVerb,
    SettleVerb,
    UploadPicture,
    UploadStacks,
    UploadTail,
    Verdict,
)
from bot.core.changes import LastHealthy
from bot.core.events import Member, Verb
from bot.core.startup import Startup
from bot.core.startup_state import Plan, Sent, StartupState
from bot.crew import Crew
from bot.errors import StoreUnavailable
from bot.ground import Ground
from bot.looking import Looks
from bot.mailing import Mailbox, event_of
from bot.messages import describe_present, edit_message, messages_of, notice_message
from bot.ordering import Orders
from bot.places import write_place
from bot.saving import Ledger
from bot.uploads import OWED, Fetched, Uploads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.clients.leases import Lease
    from bot.clients.records import Operation, Outgoing
    from bot.core.events import Event
    from bot.sources import Inbox, Link, Piece

log = structlog.get_logger()

PLAN = TypeAdapter(Plan)
STATE = TypeAdapter(StartupState)

_BATCH = 64
_SAVE_EVERY = 5.0  # real seconds, where nothing but the journal's position changed
_SHOW_EVERY = 2.0  # where nothing but the present did: Slack takes an edit of a root every three
_SHOW_APART = 0.1  # and no oftener than this for each that runs: Slack takes few edits, over all threads
OWN_FAULT = (
    "Something broke inside kimi: it no longer watches this start, and the service is left as it is. "
    "kimi's own log says what; `watch` takes it up again."
)
_ORDER = "order to "  # begins the names of the tasks that give one
_SETTLE = "settle "
_UPLOAD = "upload "  # and of those that fetch a log and post it
_ORDER_WITHIN = 60.0  # real seconds; the host's own time-outs end one sooner
_ORDER_AT_LEAVE = 2.0  # real seconds that a clean stop waits for its answer
_ROOT_WITHIN = 5.0  # real seconds the verb waits for its thread to stand in Slack
_MAIL_RETRY = 1.0


@dataclass(slots=True)
class Running:
    """One operation under way in this process, which owns it: its ledger has the lease."""

    ground: Ground
    startup: Startup
    ledger: Ledger
    crew: Crew
    looks: Looks
    orders: Orders
    uploads: Uploads
    mail: Mailbox
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    is_lost: bool = False  # another process owns it now
    beat: float = field(default_factory=time.monotonic)  # when the consumer last took something in
    delay: float = 0.0  # real seconds from its journal's first line to its looks: others are followed first
    _leaving: bool = False
    _heard: int = 0  # mail in the state that is not noted yet
    _noted_at: float = 0.0
    _shown_at: float = 0.0
    _task: asyncio.Task[Any] | None = None
    _saver: asyncio.Task[None] | None = None

    @classmethod
    def make(
        cls,
        ground: Ground,
        operation: Operation,
        startup: Startup,
        *,
        links: dict[Member, Link],
        lease: Lease,
    ) -> Running:
        """Raises ValueError where what the record says is owed cannot be read."""
        ledger = Ledger(ground.store, ground.outbox, operation, lease)
        owed = OWED.validate_json(operation.owed) if operation.owed else ()

        def lose() -> None:
            running.lose()

        crew = Crew(ground.tasks, operation.service, lose)
        running = cls(
            ground=ground,
            startup=startup,
            ledger=ledger,
            crew=crew,
            looks=Looks(ground, operation.service, startup, links, crew),
            orders=Orders(ground, ledger, startup, links, {name: links[name].position for name in links}),
            uploads=Uploads(ground, ledger, startup, links, {order.sequence: order for order in owed}),
            mail=Mailbox(ground.store, operation.operation),
        )
        return running

    @property
    def operation(self) -> Operation:
        return self.ledger.operation

    @property
    def is_saved(self) -> bool:
        """Whether what its ledger notes is saved by itself; else it is over."""
        return self._saver is not None and not self._saver.done()

    @property
    def inbox(self) -> Inbox:
        return self.crew.inbox

    @property
    def begun(self) -> bool:
        """Whether no verb may be ordered any more; a watch has none to order."""
        if self.startup.plan.verb is Verb.WATCH or self.startup.verdict is not None:
            return True
        return any(state.sent is not Sent.NOT for state in self.startup.state.members.values())

    # Its life in this process.

    async def run(self) -> None:
        """Until the operation is closed, or left to the next process; begun, or taken up where it stood."""
        self._task = asyncio.current_task()
        self._start_saver()
        if self.operation.closed is not None:  # all that is left of it are files that its thread waits for
            self._fetch_owed()
            self._end()
            return
        beside = [
            self.crew.spawn("mail", partial(self.mail.run, self.crew.wake)),
            self.crew.spawn("address", self.ledger.keep_address),
            *self.looks.follow(),
        ]
        try:
            await self._set_out()
            while self.startup.verdict is None and not self._leaving:
                await self._perform(self._handle(await self._take()))
            if not self.closed.is_set():
                await self._depart()
        finally:
            self._end()
            for task in beside:
                task.cancel()
            # A stall's log that is still being fetched comes into its thread all the same.
            self.crew.cancel(but=_UPLOAD)

    async def settle(self) -> None:
        """After `run`: until its files have come, and all is in Redis."""
        await self.crew.wait()
        if self.uploads.owed and not self._leaving:  # they broke, and would break again
            self.uploads.owed.clear()
            self.ledger.note()
        try:
            await self.ledger.saved()
        except Exception:  # its record is closed, or left as it was
            log.exception("last_words_not_saved", operation=self.operation.operation)

    def stop(self) -> None:
        """Nothing of it goes on here."""
        self._end()
        self.crew.cancel()
        if self._saver is not None:
            self._saver.cancel()

    def lose(self) -> None:
        """Another process has it: from here on nothing is written, ordered or said, nor is anybody told."""
        if not self.is_lost:
            self.is_lost = True
            log.warning("operation_lost", operation=self.operation.operation)
            self.stop()
            if self._task is not None:
                self._task.cancel()

    def leave(self) -> None:
        """Go no further than what is under way: the next process goes on, and fetches what is missing."""
        self._leaving = True
        self.crew.cancel(_UPLOAD)
        self.crew.wake()

    async def give_up(self) -> None:
        """After a fault of our own: say so, let the service go; the unit is left alone."""
        state, now = self.startup.state, self.ground.clock.now()
        state.verdict = state.verdict or Verdict.UNWATCHED  # one that was told already stands
        state.ended = state.ended or now
        update = {"closed": now, "verdict": state.verdict}
        self.ledger.operation = self.operation.model_copy(update=update)
        operation, channel = self.operation.operation, self.operation.channel
        notice = notice_message(OWN_FAULT, operation=operation, channel=channel)
        try:
            self._start_saver()
            await self.ledger.saved(self.ledger.note([notice, *self._last_present()]))
        except Exception:  # what broke is what was to be said
            log.exception("words_dropped", operation=operation)
            self.ledger.drop_words()
            self._start_saver()
            await self.ledger.saved(self.ledger.note([notice]))

    def _last_present(self) -> list[Outgoing]:
        """The root shows the end too, unless that is what broke."""
        try:
            view = self.startup.view(self.ground.clock.now())
            return [edit_message(view, channel=self.operation.channel)]
        except Exception as error:  # noqa: BLE001 - the fault itself is told already
            log.warning("present_not_shown", operation=self.operation.operation, error=repr(error))
            return []

    def _end(self) -> None:
        self.crew.is_over = True
        self.closed.set()

    # What runs beside the consumer.

    def _start_saver(self) -> None:
        if self._saver is None or self._saver.done():
            self.ledger.broken = None
            self._saver = self.crew.spawn("record", partial(self.ledger.run, self._describe))

    def _describe(self) -> dict[str, Any]:
        """What of the record follows from the state; nothing new where that is what broke."""
        try:
            view = self.startup.view(self.ground.clock.now())
            state = STATE.dump_json(self.startup.state).decode()
            return {"state": state, "headline": describe_present(view), "owed": self.uploads.record}
        except Exception as error:  # noqa: BLE001 - raised again where the operation ends
            self.crew.break_off(error)
            return {}

    # The consumer.

    async def _set_out(self) -> None:
        """Begin, or go on. An end that was asked for before the verb went out comes before it."""
        if not self.begun:
            # The thread stands before the unit is touched; a Slack that does not answer delays it, no more.
            await self.ledger.await_address(_ROOT_WITHIN, unless=lambda: self._leaving)
            await self._look_at_mail()
            if self._leaving:
                return
            await self._perform(self._handle(self._take_waiting()))
        if not self.closed.is_set():
            now, lease = self.ground.clock.now(), self.ledger.lease
            if self.begun:
                await asyncio.sleep(self.delay)
                await self._perform(self.startup.resume(now, away=lease.away, clean=lease.clean))
            else:
                await self._perform(self.startup.begin(now))
        if not self.closed.is_set():
            self._fetch_owed()

    async def _look_at_mail(self) -> None:
        """Without it nobody knows whether the verb still is wanted."""
        while not self._leaving:
            with contextlib.suppress(StoreUnavailable):
                await self.mail.look()
                return
            await asyncio.sleep(_MAIL_RETRY)

    async def _take(self) -> list[Piece]:
        first = await self.inbox.get()
        self.beat = time.monotonic()
        return [first, *self._take_waiting()]

    def _take_waiting(self) -> list[Piece]:
        return [self.inbox.get_nowait() for _ in range(min(_BATCH, self.inbox.qsize()))]

    def _handle(self, pieces: Sequence[Piece]) -> list[Action]:
        if self.crew.broken is not None:
            raise self.crew.broken
        actions: list[Action] = []
        for piece in pieces:
            now = self.ground.clock.now()
            for event in piece.events:
                actions.extend(self.startup.handle(event, now))
            if piece.member is not None and piece.position is not None:
                place, written = write_place(piece.member, piece.stream, piece.position)
                self.operation.positions[place] = written
        for mail in self.mail.take():
            actions.extend(self.startup.handle(event_of(mail), self.ground.clock.now()))
            self._heard += 1
        return actions

    async def _depart(self) -> None:
        """Take what has come already, the answer to an order above all; the rest is for the next process."""
        await self.crew.wait(_ORDER, within=_ORDER_AT_LEAVE)
        self._noted_at = self._shown_at = float("-inf")  # to the last position
        self._note(self._handle(self._take_waiting()))

    # What the core orders.

    async def _perform(self, actions: Sequence[Action]) -> None:
        """Note state and messages, then touch the world; an order to systemd waits until they are saved."""
        self._note(actions)
        closing = any(isinstance(action, Close) for action in actions)
        for action in actions:
            match action:
                case EditRoot() | PostReply():
                    pass  # noted with the state: the outbox gets it
                case SendVerb():
                    self.crew.once(f"{_ORDER}{action.member}", partial(self._send, action))
                case SettleVerb():
                    self.crew.once(f"{_SETTLE}{action.member}", partial(self._settle_order, action))
                case ProbeNow():
                    self.looks.probe()
                case LookAtSetup():
                    self.looks.setup(action.member)
                case RunSmoke():
                    self.looks.smoke()
                case UploadTail() | UploadStacks() | UploadPicture():
                    await self._upload(action, closing=closing)
                case Close():
                    await self._close(action)
                case _:
                    assert_never(action)

    def _note(self, actions: Sequence[Action]) -> int:
        """The number under which it will be saved."""
        now = asyncio.get_running_loop().time()
        shows = any(isinstance(action, EditRoot) for action in actions)
        # What shows nothing, as an order to probe each second, must not put the present off for ever.
        since = self._shown_at if shows else self._noted_at
        if not self._heard and now - since < _wait_of(actions, self.ground.tallies.running):
            return 0  # the next tick shows a newer present
        self._noted_at = now
        if shows:
            self._shown_at = now
        for action in actions:
            self.ground.tallies.note(action)
            if isinstance(action, UploadTail | UploadStacks):
                self.uploads.owe(action)
        heard, self._heard = self._heard, 0
        view = self.startup.view(self.ground.clock.now())
        messages = messages_of(actions, view, channel=self.operation.channel, run=self._run_name)
        return self.ledger.note(self.untold(messages), heard=heard)

    def untold(self, messages: Sequence[Outgoing]) -> list[Outgoing]:
        """Without what the thread was told before its record was lost."""
        return [message for message in messages if message.tags.get(TELLS) not in self.operation.told]

    @property
    def _run_name(self) -> str:
        """Which start is told: the first member's."""
        first = self.startup.state.members[self.startup.plan.members[0]]
        return (first.invocation or "")[:8]

    def _fetch_owed(self) -> None:
        """What is fetched already is not fetched twice."""
        for order in tuple(self.uploads.owed.values()):
            self._fetch(order)

    async def _upload(self, action: Fetched | UploadPicture, *, closing: bool) -> None:
        if isinstance(action, UploadPicture):
            await self.uploads.draw()
        elif closing:
            await self.uploads.fetch(action)  # nothing is left to be followed meanwhile
        else:
            self._fetch(action)

    def _fetch(self, order: Fetched) -> None:
        if not self._leaving:
            self.crew.once(f"{_UPLOAD}{order.sequence}", partial(self.uploads.fetch, order))

    async def _send(self, order: SendVerb) -> None:
        event = await self.orders.give(order)
        log.info("verb_sent", member=order.member, verb=order.verb, outcome=type(event).__name__)
        await self._tell(event)

    async def _settle_order(self, order: SettleVerb) -> None:
        await self._tell(await self.orders.settle(order.member, asked=self.ground.clock.now()))

    async def _tell(self, event: Event | None) -> None:
        if event is not None and self.startup.verdict is None:  # else nobody takes anything off the queue
            await self.inbox.put(sources.Piece((event,)))

    async def _close(self, order: Close) -> None:
        await self.crew.wait(_ORDER, within=_ORDER_WITHIN)
        closed = self.ground.clock.now()
        account = ACCOUNT.dump_json(self.startup.account(closed)).decode()
        update = {"closed": closed, "verdict": order.verdict, "account": account}
        self.ledger.operation = self.operation.model_copy(update=update)
        await self.ledger.saved(self.ledger.note())
        log.info("operation_closed", operation=self.operation.operation, verdict=order.verdict)
        self._end()
        if order.verdict is Verdict.HEALTHY:
            # Last: a crash before it costs one sample, and none counts twice.
            last = LastHealthy(closed, self.startup.setups())
            await remember(self.ground.store, self.operation.service, order, last=last)


def _wait_of(actions: Sequence[Action], running: int) -> float:
    """Real seconds since the last note within which these are not worth one, among so many that run."""
    if not actions:
        return max(_SAVE_EVERY, _SHOW_APART * running)
    if all(isinstance(action, EditRoot) for action in actions):
        return max(_SHOW_EVERY, _SHOW_APART * running)
    return 0.0

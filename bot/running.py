"""Carries out one startup: sources → queue → core → actions; state and messages are saved as one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

import structlog
from pydantic import TypeAdapter

from bot import sources
from bot.clients.records import Operation
from bot.core.actions import (
    Action,
    Close,
    EditRoot,
    PostReply,
    ProbeNow,
    RunSmoke,
    SendVerb,
    UploadTail,
    Verdict,
)
from bot.core.baseline import Usual, learn
from bot.core.events import Event, Member, Ticked, Verb, VerbRefused, VerbSent, VerbUnanswered
from bot.core.journal import Position
from bot.core.startup import Startup
from bot.core.startup_state import Plan, Sent, StartupState
from bot.errors import CommandTimedOut, HostError, HostUnreachable, StoreUnavailable
from bot.ground import Ground
from bot.messages import (
    Letter,
    describe_present,
    edit_message,
    name_file,
    notice_message,
    reply_message,
    tail_letter,
)
from bot.sources import Inbox, Link
from bot.tails import read_start

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from bot.clients.records import Outgoing
    from bot.sources import Piece

log = structlog.get_logger()

PLAN = TypeAdapter(Plan)
STATE = TypeAdapter(StartupState)
POSITION = TypeAdapter(Position)
USUAL = TypeAdapter(Usual)

_QUEUE = 256  # pieces; a host that talks faster than we think waits in its own journal
_BATCH = 64
_SAVE_EVERY = 5.0  # real seconds, where nothing but the journal's position changed
OWN_FAULT = (
    "Something broke inside kimi: it no longer watches this start, and the service is left as it is. "
    "kimi's own log says what; `watch` takes it up again."
)
_STORE_RETRY = 1.0  # real seconds between attempts to save while Redis is away


@dataclass(slots=True)
class Running:
    """One operation under way in this process."""

    ground: Ground
    operation: Operation
    startup: Startup
    links: dict[Member, Link]
    inbox: Inbox = field(default_factory=lambda: asyncio.Queue(_QUEUE))
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    _busy: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _saved_at: float = 0.0

    @property
    def begun(self) -> bool:
        """Whether the verb was ordered, so that it must not be ordered again."""
        states = self.startup.state.members.values()
        return self.startup.plan.verb is not Verb.WATCH and any(
            state.sent is not Sent.NOT for state in states
        )

    async def run(self) -> None:
        """Until the operation is closed; begun where it was not yet, else taken up where it stood."""
        followers = [self._follow(link) for link in self.links.values()]
        try:
            now = self.ground.clock.now()
            await self._perform(self.startup.resume(now) if self.begun else self.startup.begin(now))
            while self.startup.verdict is None:
                await self._perform(self._handle(await self._take()))
            if not self.closed.is_set():
                await self._close_late(self.startup.verdict)
        finally:
            self.closed.set()
            for task in (*followers, *self._busy.values()):
                task.cancel()

    async def _close_late(self, verdict: Verdict) -> None:
        """The process died between the verdict and its last steps: they are done now, none twice."""
        if verdict is Verdict.FAILED:
            await self._upload(UploadTail(self.startup.state.sequence, "Whole log of this start:"))
        await self._close(Close(verdict))

    async def give_up(self) -> None:
        """After a fault of our own: say so, let the service go; the unit is left alone."""
        operation = self.operation.operation
        notice = notice_message(OWN_FAULT, operation=operation, channel=self.operation.channel)
        update = {"closed": self.ground.clock.now(), "verdict": Verdict.UNWATCHED}
        self.operation = self.operation.model_copy(update=update)
        await self._until_stored(lambda: self.ground.store.finish(self.operation, [notice]))
        self.ground.outbox.wake()

    def _follow(self, link: Link) -> asyncio.Task[None]:
        return self.ground.tasks.spawn(f"{self.operation.service} journal {link.member}", self._hear(link))

    async def _hear(self, link: Link) -> None:
        """A reader that breaks must break the whole: a thread that falls silent looks like a stall."""
        try:
            await sources.follow_journal(link, self.inbox, redactor=self.ground.make_redactor())
        except Exception as error:  # noqa: BLE001 - raised again where the operation ends
            await self.inbox.put(sources.Piece((), fault=error))

    async def _take(self) -> list[Piece]:
        pieces = [await self.inbox.get()]
        while len(pieces) < _BATCH and not self.inbox.empty():
            pieces.append(self.inbox.get_nowait())
        return pieces

    def _handle(self, pieces: Sequence[Piece]) -> list[Action]:
        actions: list[Action] = []
        for piece in pieces:
            if piece.fault is not None:
                raise piece.fault
            now = self.ground.clock.now()
            for event in piece.events:
                actions.extend(self.startup.handle(event, now))
            if piece.member is not None and piece.position is not None:
                self.operation.positions[piece.member] = POSITION.dump_json(piece.position).decode()
        return actions

    # What the schedule and people ask for; none of these waits.

    def tell(self, event: Event) -> None:
        """Put the event of a person on the queue."""
        self.ground.tasks.spawn(f"{self.operation.service} told", self.inbox.put(sources.Piece((event,))))

    def tick(self) -> None:
        self._once("tick", self.inbox.put(sources.Piece((Ticked(),))))

    def observe(self) -> None:
        for link in self.links.values():
            self._once(f"unit {link.member}", sources.observe_unit(link, self.inbox))

    def probe(self) -> None:
        self._once("probe", sources.ask_engine(self.ground.probes[self.operation.service], self.inbox))

    def _once(self, name: str, work: Coroutine[object, object, None]) -> None:
        """Start `work` unless the last of that name still runs: nothing ever piles up."""
        if self.closed.is_set() or name in self._busy:
            work.close()
            return
        task = self.ground.tasks.spawn(f"{self.operation.service} {name}", work)
        self._busy[name] = task
        task.add_done_callback(lambda _: self._busy.pop(name, None))

    # What the core orders.

    async def _perform(self, actions: Sequence[Action]) -> None:
        """Save state and messages first, then touch the world: what was done is always on record."""
        await self._save(actions)
        closing = any(isinstance(action, Close) for action in actions)
        for action in actions:
            match action:
                case EditRoot() | PostReply():
                    pass  # saved with the state: the outbox has it
                case SendVerb():
                    self._once(f"verb {action.member}", self._send(action))
                case ProbeNow():
                    self.probe()
                case RunSmoke():
                    probe = self.ground.probes[self.operation.service]
                    self._once("smoke", sources.run_smoke(probe, self.inbox))
                case UploadTail() if closing:
                    await self._upload(action)  # nothing is left to be followed meanwhile
                case UploadTail():
                    self._once(f"upload {action.sequence}", self._upload(action))
                case Close():
                    await self._close(action)
                case _:
                    assert_never(action)

    async def _save(self, actions: Sequence[Action]) -> None:
        now = asyncio.get_running_loop().time()
        if not actions and now - self._saved_at < _SAVE_EVERY:
            return
        self._saved_at = now
        view = self.startup.view(self.ground.clock.now())
        state = STATE.dump_json(self.startup.state).decode()
        self.operation = self.operation.model_copy(
            update={"state": state, "headline": describe_present(view)}
        )
        messages = self._messages(actions)
        await self._until_stored(lambda: self.ground.store.save(self.operation, messages))
        if messages:
            self.ground.outbox.wake()

    def _messages(self, actions: Sequence[Action]) -> list[Outgoing]:
        """Replies in their order, then the newest edit alone."""
        channel = self.operation.channel
        view = self.startup.view(self.ground.clock.now())
        replies = [
            reply_message(order, view, channel=channel) for order in actions if isinstance(order, PostReply)
        ]
        edits = [order.view for order in actions if isinstance(order, EditRoot)]
        return [*replies, *(edit_message(edit, channel=channel) for edit in edits[-1:])]

    async def _until_stored(self, save: Callable[[], Awaitable[None]]) -> None:
        """Redis away is no reason to lose a state: what happens meanwhile waits in the journal."""
        while True:
            try:
                return await save()
            except StoreUnavailable as error:
                log.warning("save_delayed", operation=self.operation.operation, error=str(error))
                await asyncio.sleep(_STORE_RETRY)

    async def _send(self, order: SendVerb) -> None:
        """Tell systemd, once. Whether a command that was not answered arrived is for the core to find out."""
        link = self.links[order.member]
        event: Event
        try:
            await link.host.change(link.unit, order.verb, scope=link.scope)
            event = VerbSent(order.member)
        except CommandTimedOut as error:
            event = VerbUnanswered(order.member, str(error))
        except HostUnreachable as error:
            unsure = VerbUnanswered if error.sent else VerbRefused
            event = unsure(order.member, str(error))
        except HostError as error:
            event = VerbRefused(order.member, str(error))
        log.info("verb_sent", member=order.member, verb=order.verb, outcome=type(event).__name__)
        await self.inbox.put(sources.Piece((event,)))

    async def _upload(self, order: UploadTail) -> None:
        invocations = {member: state.invocation for member, state in self.startup.state.members.items()}
        tail = await read_start(self.links, invocations, make_redactor=self.ground.make_redactor)
        letter: Letter = tail_letter(
            tail,
            identity=f"{self.operation.operation}:{order.sequence}",
            thread=self.operation.operation,
            channel=self.operation.channel,
            name=name_file(self.operation.service, self.operation.began),
            comment=order.why,
        )
        files = {letter.outgoing.id: letter.content}
        await self._until_stored(lambda: self.ground.store.enqueue([letter.outgoing], files))
        self.ground.outbox.wake()

    async def _close(self, order: Close) -> None:
        closed = self.ground.clock.now()
        self.operation = self.operation.model_copy(update={"closed": closed, "verdict": order.verdict})
        if order.verdict is Verdict.HEALTHY:
            await self._learn(order)
        await self._until_stored(lambda: self.ground.store.finish(self.operation))
        log.info("operation_closed", operation=self.operation.operation, verdict=order.verdict)
        self.closed.set()

    async def _learn(self, order: Close) -> None:
        service, store = self.operation.service, self.ground.store
        try:
            known = await store.baseline(service)
            usual = USUAL.validate_json(known) if known else Usual()
            await store.save_baseline(service, USUAL.dump_json(learn(usual, order.durations)).decode())
        except StoreUnavailable as error:
            log.warning("baseline_not_learned", service=service, error=str(error))

"""Carries out one startup: sources → queue → core → actions; state and messages are saved as one."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, assert_never

import structlog
from pydantic import TypeAdapter

from bot import log_sources, samples, sources
from bot.baselines import remember
from bot.clients.records import Operation
from bot.core.account import Account
from bot.core.actions import (
    Action,
    Close,
    EditRoot,
    LookAtSetup,
    PostReply,
    ProbeNow,
    RunSmoke,
    SendVerb,
    UploadPicture,
    UploadStacks,
    UploadTail,
    Verdict,
)
from bot.core.changes import LastHealthy
from bot.core.events import Event, Member, Ticked, Verb, VerbRefused, VerbSent, VerbUnanswered
from bot.core.startup import Startup
from bot.core.startup_state import Plan, Sent, StartupState
from bot.errors import HostError, StoreUnavailable
from bot.ground import Ground
from bot.messages import (
    Letter,
    describe_present,
    edit_message,
    name_file,
    notice_message,
    reply_message,
    stacks_letter,
    tail_letter,
)
from bot.pictures import waterfall_letter
from bot.places import write_place
from bot.sources import Inbox, Link
from bot.tails import read_start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.clients.records import Outgoing
    from bot.sources import Piece

log = structlog.get_logger()

PLAN = TypeAdapter(Plan)
STATE = TypeAdapter(StartupState)
ACCOUNT = TypeAdapter(Account)

Work: TypeAlias = Callable[[], Awaitable[None]]

_QUEUE = 256  # pieces; a host that talks faster than we think waits in its own journal
_BATCH = 64
_SAVE_EVERY = 5.0  # real seconds, where nothing but the journal's position changed
OWN_FAULT = (
    "Something broke inside kimi: it no longer watches this start, and the service is left as it is. "
    "kimi's own log says what; `watch` takes it up again."
)
_STORE_RETRY = 1.0  # real seconds between attempts to save while Redis is away
_ORDER = "order to "  # begins the names of the tasks that give one
_UPLOAD = "upload "  # and of those that fetch a log and post it
_SMOKE = "smoke"
_ORDER_WITHIN = 60.0  # real seconds; the host's own time-outs end one sooner


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
        """Whether no verb may be ordered any more; a watch has none to order."""
        if self.startup.plan.verb is Verb.WATCH or self.startup.verdict is not None:
            return True
        return any(state.sent is not Sent.NOT for state in self.startup.state.members.values())

    @property
    def is_smoking(self) -> bool:
        """Its smoke test runs."""
        return _SMOKE in self._busy

    async def run(self) -> None:
        """Until the operation is closed; begun where it was not yet, else taken up where it stood."""
        followers = [task for link in self.links.values() for task in self._follow(link)]
        try:
            await self._set_out()
            while self.startup.verdict is None:
                await self._perform(self._handle(await self._take()))
        finally:
            self.closed.set()
            # A stall's log that is still being fetched comes into its thread all the same.
            over = (task for name, task in self._busy.items() if not name.startswith(_UPLOAD))
            for task in (*followers, *over):
                task.cancel()

    async def _set_out(self) -> None:
        """Begin, or go on. An end that was asked for before the verb went out comes before it."""
        if not self.begun and (pieces := self._take_waiting()):
            await self._perform(self._handle(pieces))
        if not self.closed.is_set():
            now = self.ground.clock.now()
            await self._perform(self.startup.resume(now) if self.begun else self.startup.begin(now))

    async def give_up(self) -> None:
        """After a fault of our own: say so, let the service go; the unit is left alone."""
        operation = self.operation.operation
        notice = notice_message(OWN_FAULT, operation=operation, channel=self.operation.channel)
        verdict = self.startup.verdict or Verdict.UNWATCHED  # one that was told already stands
        update = {"closed": self.ground.clock.now(), "verdict": verdict}
        self.operation = self.operation.model_copy(update=update)
        await self._until_stored(lambda: self.ground.store.finish(self.operation, [notice]))
        self.ground.outbox.wake()

    def _follow(self, link: Link) -> list[asyncio.Task[None]]:
        """The streams of one member, each with a redactor of its own: it remembers an open key."""
        followers = {"journal": sources.follow_journal, "kernel": log_sources.follow_kernel}
        if link.log_file is not None:
            followers["log file"] = log_sources.follow_log_file
        return [
            self.ground.tasks.spawn(
                f"{self.operation.service} {name} {link.member}",
                self._guard(partial(follow, link, self.inbox, redactor=self.ground.make_redactor())),
            )
            for name, follow in followers.items()
        ]

    async def _guard(self, work: Work) -> None:
        """What breaks must break the whole: a thread that falls silent looks like a stall."""
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - raised again where the operation ends
            await self.inbox.put(sources.Piece((), fault=error))

    async def _take(self) -> list[Piece]:
        return [await self.inbox.get(), *self._take_waiting()]

    def _take_waiting(self) -> list[Piece]:
        return [self.inbox.get_nowait() for _ in range(min(_BATCH, self.inbox.qsize()))]

    def _handle(self, pieces: Sequence[Piece]) -> list[Action]:
        actions: list[Action] = []
        for piece in pieces:
            if piece.fault is not None:
                raise piece.fault
            now = self.ground.clock.now()
            for event in piece.events:
                actions.extend(self.startup.handle(event, now))
            if piece.member is not None and piece.position is not None:
                place, written = write_place(piece.member, piece.stream, piece.position)
                self.operation.positions[place] = written
        return actions

    # What the schedule and people ask for; none of these waits.

    def tell(self, event: Event) -> None:
        """Put the event of a person on the queue; under a name of its own, so that none is left out."""
        self._once(f"told {uuid.uuid4().hex}", partial(self.inbox.put, sources.Piece((event,))))

    def tick(self) -> None:
        self._once("tick", partial(self.inbox.put, sources.Piece((Ticked(),))))

    def observe(self) -> None:
        for link in self.links.values():
            self._once(f"unit {link.member}", partial(sources.observe_unit, link, self.inbox))

    def probe(self) -> None:
        probe = self.ground.probes[self.operation.service]
        self._once("probe", partial(sources.ask_engine, probe, self.inbox))

    def sample(self) -> None:
        at, model = self.ground.clock.now(), self.startup.state.weights
        for link in self.links.values():
            work = partial(samples.sample_unit, link, self.inbox, at=at, model=model)
            self._once(f"sample {link.member}", work)

    def _once(self, name: str, work: Work) -> None:
        """Start `work` unless the last of that name still runs: nothing ever piles up."""
        if self.closed.is_set() or name in self._busy:
            return
        task = self.ground.tasks.spawn(f"{self.operation.service} {name}", self._guard(work))
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
                    self._once(f"{_ORDER}{action.member}", partial(self._send, action))
                case ProbeNow():
                    self.probe()
                case LookAtSetup() | RunSmoke():
                    self._order_look(action)
                case UploadTail() | UploadStacks() | UploadPicture():
                    await self._order_upload(action, closing=closing)
                case Close():
                    await self._close(action)
                case _:
                    assert_never(action)

    def _order_look(self, action: LookAtSetup | RunSmoke) -> None:
        redactor = self.ground.make_redactor()
        if isinstance(action, LookAtSetup):
            link = self.links[action.member]
            work = partial(sources.look_at_setup, link, self.inbox, redactor=redactor)
            self._once(f"setup {action.member}", work)
        else:
            probe = self.ground.probes[self.operation.service]
            self._once(_SMOKE, partial(sources.run_smoke, probe, self.inbox, redactor=redactor))

    async def _order_upload(
        self, action: UploadTail | UploadStacks | UploadPicture, *, closing: bool
    ) -> None:
        match action:
            case UploadTail() if closing:
                await self._upload(action)  # nothing is left to be followed meanwhile
            case UploadTail():
                self._once(f"{_UPLOAD}{action.sequence}", partial(self._upload, action))
            case UploadStacks():
                self._once(f"{_UPLOAD}{action.sequence}", partial(self._upload_stacks, action))
            case UploadPicture():
                await self._upload_picture()
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
        event: Event = VerbSent(order.member)
        try:
            await link.host.change(link.unit, order.verb, scope=link.scope)
        except HostError as error:
            failed = VerbUnanswered if error.sent else VerbRefused
            event = failed(order.member, str(error))
        log.info("verb_sent", member=order.member, verb=order.verb, outcome=type(event).__name__)
        if self.startup.verdict is None:  # else nobody takes anything off the queue any more
            await self.inbox.put(sources.Piece((event,)))

    async def _upload(self, order: UploadTail) -> None:
        invocations = {member: state.invocation for member, state in self.startup.state.members.items()}
        begun = {member: state.begun for member, state in self.startup.state.members.items()}
        tail = await read_start(self.links, invocations, make_redactor=self.ground.make_redactor, begun=begun)
        letter: Letter = tail_letter(
            tail,
            identity=f"{self.operation.operation}:{order.sequence}",
            thread=self.operation.operation,
            channel=self.operation.channel,
            name=name_file(self.operation.service, self.operation.began),
            comment=order.why,
        )
        await self._post(letter)

    async def _upload_stacks(self, order: UploadStacks) -> None:
        redactor = self.ground.make_redactor()
        stacks = await samples.read_stacks(self.links, order.processes, redactor=redactor)
        if stacks is not None:
            identity = f"{self.operation.operation}:{order.sequence}"
            await self._post(stacks_letter(*stacks, identity=identity, operation=self.operation))

    async def _upload_picture(self) -> None:
        """An extra: a start that cannot be drawn has its verdict all the same."""
        waterfall = self.startup.waterfall(self.ground.clock.now())
        if waterfall is None:
            return
        letter = await waterfall_letter(
            waterfall,
            operation=self.operation.operation,
            channel=self.operation.channel,
            name=name_file(self.operation.service, self.operation.began, kind="png"),
        )
        if letter is not None:
            await self._post(letter)

    async def _post(self, letter: Letter) -> None:
        files = {letter.outgoing.id: letter.content}
        await self._until_stored(lambda: self.ground.store.enqueue([letter.outgoing], files))
        self.ground.outbox.wake()

    async def _close(self, order: Close) -> None:
        await self._await_orders()
        closed = self.ground.clock.now()
        account = ACCOUNT.dump_json(self.startup.account(closed)).decode()
        update = {"closed": closed, "verdict": order.verdict, "account": account}
        self.operation = self.operation.model_copy(update=update)
        await self._until_stored(lambda: self.ground.store.finish(self.operation))
        log.info("operation_closed", operation=self.operation.operation, verdict=order.verdict)
        self.closed.set()
        if order.verdict is Verdict.HEALTHY:
            # Last: a crash before it costs one sample, and none counts twice.
            last = LastHealthy(closed, self.startup.setups())
            await remember(self.ground.store, self.operation.service, order, last=last)

    async def _await_orders(self) -> None:
        """An order that is on its way arrives, or not, before anybody else may give the next one."""
        orders = [task for name, task in self._busy.items() if name.startswith(_ORDER)]
        if orders:
            await asyncio.wait(orders, timeout=_ORDER_WITHIN)

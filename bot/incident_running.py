"""One incident under way in the process that owns it: facts in, its thread and its record out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

import structlog
from pydantic import TypeAdapter

from bot.clients.leases import Lease
from bot.clients.records import Address, Outgoing
from bot.clients.slack_history import Archive
from bot.clients.store_incidents import IncidentRecord, IncidentStore
from bot.core.events import Ticked
from bot.core.incident import Incident
from bot.core.incident_actions import (
    CloseIncident,
    EditIncident,
    IncidentAction,
    IncidentEnded,
    PostIncidentReply,
    ReadRunLog,
    SendWebhook,
    UploadTimeline,
)
from bot.core.incident_events import IncidentEvent
from bot.core.incident_export import People
from bot.core.incident_state import IncidentPlan, IncidentState
from bot.core.incident_words import tell_plain
from bot.core.monitor_events import IncidentClosed, IncidentFound
from bot.deliveries import Deliveries, Send, owed_of, still_owed, within_bounds
from bot.errors import OwnershipLost, StoreEmptied, StoreUnavailable
from bot.ground import Ground
from bot.incident_looks import Looks
from bot.incident_messages import incident_reply, incident_root, timeline_letter
from bot.incident_people import read_people
from bot.incident_sent import Sent
from bot.watch_orders import Said

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

log = structlog.get_logger()

PLAN = TypeAdapter(IncidentPlan)
STATE = TypeAdapter(IncidentState)
TellWatch: TypeAlias = Callable[[IncidentPlan, Said, str], Awaitable[None]]

_LOOK_EVERY = 1.0  # real seconds between looks for facts, where nobody of this process tells of one
_TICK = timedelta(seconds=5)
_FASTEST_TICK = 0.2  # real seconds
_RETRY = 1.0


@dataclass(slots=True)
class IncidentRunning:
    """`send` tells other tools; `tell_watch`: a word to the watch it came from. It owns `lease`."""

    ground: Ground
    store: IncidentStore
    record: IncidentRecord
    incident: Incident
    lease: Lease
    send: Send | None
    tell_watch: TellWatch
    begun: list[IncidentAction] | None = None  # what its beginning ordered, once that is on record
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    address: Address | None = None
    is_leaving: bool = False
    archive: Archive | None = None
    sent: Sent = field(init=False)
    _local: list[IncidentEvent] = field(default_factory=list)  # what hosts have answered
    _shown: tuple[Any, ...] = ()
    _task: asyncio.Task[Any] | None = None
    _beside: set[asyncio.Task[Any]] = field(default_factory=set)
    _said: str = ""
    _unsaved: bool = False
    _deliveries: Deliveries | None = None
    _looks: Looks = field(init=False)

    def __post_init__(self) -> None:
        self._looks = Looks(self.ground, self.plan, self._hear)
        self.sent = Sent(self.ground, self.archive, self.plan.incident)
        if self.send is not None:
            self._deliveries = Deliveries(self.send, self.ground.tallies.webhooks, self.arrived.set)

    @property
    def plan(self) -> IncidentPlan:
        return self.incident.plan

    async def run(self) -> None:
        """Until it is closed, or left to the next process."""
        self._task = asyncio.current_task()
        try:
            if self._deliveries is not None:
                self._deliveries.take(self.record.owed)
                self._beside_it("webhook", self._deliveries.run)
            if self.begun is not None:
                await self._perform(self.begun)
            else:
                await self._resume(self.ground.clock.now())
            ticked = asyncio.get_running_loop().time()
            while self.record.closed is None and not self.is_leaving:
                await self._wait()
                loop_now = asyncio.get_running_loop().time()
                due = loop_now - ticked >= max(self.ground.clock.real(_TICK), _FASTEST_TICK)
                ticked = loop_now if due else ticked
                await self._turn(ticked=due)
        except OwnershipLost:
            log.info("incident_lost", incident=self.plan.incident)
        finally:
            for task in tuple(self._beside):
                task.cancel()

    def _is_behind(self) -> bool:
        """Whether the record must be written though nothing happened."""
        owed = still_owed(self._deliveries, self.record.owed)
        over = self.incident.is_closed and self.record.closed is None and not owed
        return self._unsaved or len(owed) < len(self.record.owed) or over

    async def _resume(self, now: datetime) -> None:
        state = self.incident.state
        if state.lost:
            epoch = self.ground.store.epoch
            found = IncidentFound(self.plan.incident, state.severity, state.times)
            await self._tell_watch(found, f"found:{self.plan.incident}:{epoch}")
        await self._take_up(self.incident.resume(now), [])

    def strand(self) -> None:
        """Redis came back empty: it is written down again, and the present is shown anew."""
        self._unsaved, self._shown = True, ()
        self.arrived.set()

    def leave(self) -> None:
        self.is_leaving = True
        self.arrived.set()

    def lose(self) -> None:
        """Another process has it: nothing more is written or said."""
        self.is_leaving = True
        if self._task is not None:
            self._task.cancel()

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(_LOOK_EVERY, max(self.ground.clock.real(_TICK), _FASTEST_TICK))):
                await self.arrived.wait()
        self.arrived.clear()

    async def _turn(self, *, ticked: bool) -> None:
        facts = []
        with contextlib.suppress(StoreUnavailable):
            facts = await self.store.facts(self.plan.incident)
        if self.address is None:
            with contextlib.suppress(StoreUnavailable):
                self.address = await self.ground.store.address(self.plan.incident)
        local, self._local = self._local, []
        told, heard = await self._looks.read(facts)
        events = [*local, *told]
        if ticked:
            events += [*await self._looks.starts(self.incident.state), Ticked()]
        actions: list[IncidentAction] = []
        for event in events:
            actions += self.incident.handle(event, self.ground.clock.now())
        if actions or heard or self._is_behind():
            await self._take_up(actions, heard)

    async def _take_up(self, actions: Sequence[IncidentAction], heard: Sequence[str]) -> None:
        """Save what has become of it with what is told, then touch the world."""
        people = People()
        if any(isinstance(action, UploadTimeline) for action in actions):
            people = await read_people(self.ground, self.plan, self.incident.state, self.ground.clock.now())
        messages, files = self._messages(actions, people)
        # A present that shows nothing new alone is neither told nor written.
        telling = messages or heard or any(not isinstance(action, EditIncident) for action in actions)
        if telling or self._is_behind():
            await self._save(actions, messages, files, heard)
        await self._perform(actions)

    def _messages(
        self, actions: Sequence[IncidentAction], people: People
    ) -> tuple[list[Outgoing], dict[str, bytes]]:
        channel, now = self.record.channel, self.ground.clock.now()
        view = self.incident.view(now)
        replies: list[Outgoing] = []
        edits: list[Outgoing] = []
        files: dict[str, bytes] = {}
        for action in actions:
            match action:
                case PostIncidentReply():
                    replies.append(incident_reply(action, view, channel=channel))
                case UploadTimeline():
                    state = self.incident.state
                    letter, content = timeline_letter(
                        action, self.plan, state, now, channel=channel, people=people
                    )
                    replies.append(letter)
                    files[letter.id] = content
                case EditIncident():
                    edits = [incident_root(action.view, channel=channel, edit=True)]
                case _:
                    pass
        for edit in edits:
            shown = (edit.text, edit.blocks)
            if shown == self._shown:
                return replies, files
            self._shown = shown
        return [*replies, *edits], files

    async def _save(
        self,
        actions: Sequence[IncidentAction],
        messages: Sequence[Outgoing],
        files: dict[str, bytes],
        heard: Sequence[str],
    ) -> None:
        """For as long as Redis is away it is tried again; nothing is told before."""
        self.record = self._describe(actions)
        while True:
            try:
                await self.store.save(self.record, messages, files, lease=self.lease, heard=heard)
                self._unsaved = False
                break
            except StoreEmptied:
                again, more = await self._write_anew()
                messages = list({each.id: each for each in (*again, *messages)}.values())
                files = {**more, **files}
            except StoreUnavailable as error:
                log.warning("incident_not_saved", incident=self.plan.incident, error=str(error))
                await asyncio.sleep(_RETRY)
        self.sent.note(messages, files)
        if messages:
            self.ground.outbox.wake()
        if self._deliveries is not None:
            self._deliveries.take(self.record.owed)

    def _describe(self, actions: Sequence[IncidentAction]) -> IncidentRecord:
        now, state = self.ground.clock.now(), self.incident.state
        for action in actions:
            if isinstance(action, PostIncidentReply):
                self._said = describe(action)
        over = self.record.over or now if state.ending is not None else None
        more = owed_of(actions) if self._deliveries is not None else ()
        owed = (*still_owed(self._deliveries, self.record.owed), *more)
        update = {
            "state": STATE.dump_json(state).decode(),
            "severity": str(state.severity),
            "headline": self._said or self.record.headline,
            "over": over,
            "closed": now if state.closed and not owed else None,
            "owed": within_bounds(owed),
        }
        return self.record.model_copy(update=update)

    async def _write_anew(self) -> tuple[list[Outgoing], dict[str, bytes]]:
        """Redis came back empty: whoever is first goes on in the thread. What Slack has not got of that."""
        with contextlib.suppress(StoreUnavailable):
            lease = await self.ground.store.leases.claim(self.plan.incident)
            if lease is None:
                raise OwnershipLost(f"another process has {self.plan.incident}")
            self.lease = lease
            self.address, lost, files = await self.sent.lost(self.address)
            await self.store.place(self.record, self.address)
            return lost, files
        await asyncio.sleep(_RETRY)
        return [], {}

    # What the core orders.

    async def _perform(self, actions: Sequence[IncidentAction]) -> None:
        for action in actions:
            match action:
                case EditIncident() | PostIncidentReply() | UploadTimeline() | CloseIncident():
                    pass  # told, and written, with the state
                case SendWebhook():
                    pass  # it is owed, and on record
                case ReadRunLog():
                    self._beside_it("log", partial(self._looks.read_log, action))
                case IncidentEnded():
                    if action.by is not None:
                        name = f"closed:{self.plan.incident}:{self.incident.state.times}"
                        await self._tell_watch(IncidentClosed(self.plan.incident), name)
                case _:
                    assert_never(action)

    async def _tell_watch(self, said: Said, name: str) -> None:
        while True:
            try:
                await self.tell_watch(self.plan, said, name)
            except StoreUnavailable:
                await asyncio.sleep(_RETRY)
            else:
                return

    def _beside_it(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = self.ground.tasks.spawn(f"incident {self.plan.subject} {name}", work())
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def _hear(self, event: IncidentEvent) -> None:
        self._local.append(event)
        self.arrived.set()


def describe(order: PostIncidentReply) -> str:
    """What was said last, in one plain sentence."""
    return tell_plain(order.reply)

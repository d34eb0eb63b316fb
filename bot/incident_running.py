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
from bot.core.incident_state import Ending, IncidentPlan
from bot.core.monitor_events import IncidentClosed, IncidentFound
from bot.errors import OwnershipLost, StoreUnavailable
from bot.ground import Ground
from bot.incident_ledger import IncidentLedger
from bot.incident_looks import Looks
from bot.incident_messages import incident_reply, incident_root, timeline_letter
from bot.incident_people import read_people
from bot.watch_orders import Said

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from bot.clients.records import Outgoing
    from bot.clients.store_incidents import Fact

log = structlog.get_logger()

TellWatch: TypeAlias = Callable[[IncidentPlan, Said, str], Awaitable[None]]

_LOOK_EVERY = 1.0  # real seconds between looks for facts, where nobody of this process tells of one
_TICK = timedelta(seconds=5)
_FASTEST_TICK = 0.2  # real seconds
_RETRY = 1.0


@dataclass(slots=True)
class IncidentRunning:
    """`tell_watch`: a word to the watch it came from. Its ledger has the lease."""

    ground: Ground
    incident: Incident
    ledger: IncidentLedger
    tell_watch: TellWatch
    begun: list[IncidentAction] | None = None  # what its beginning ordered, once that is on record
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    is_leaving: bool = False
    _local: list[IncidentEvent] = field(default_factory=list)  # what hosts have answered
    _shown: tuple[Any, ...] = ()
    _is_forgotten: bool = False  # Redis came back empty, and whoever watches what it is about with it
    _task: asyncio.Task[Any] | None = None
    _beside: set[asyncio.Task[Any]] = field(default_factory=set)
    _looks: Looks = field(init=False)

    def __post_init__(self) -> None:
        self._looks = Looks(self.ground, self.plan, self._hear)

    @property
    def plan(self) -> IncidentPlan:
        return self.incident.plan

    async def run(self) -> None:
        """Until it is closed, or left to the next process."""
        self._task = asyncio.current_task()
        try:
            if (deliveries := self.ledger.deliveries) is not None:
                deliveries.take(self.ledger.record.owed)
                self._beside_it("webhook", deliveries.run)
            if self.begun is not None:
                await self._perform(self.begun)
            else:
                await self._resume(self.ground.clock.now())
            ticked = asyncio.get_running_loop().time()
            while self.ledger.record.closed is None and not self.is_leaving:
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

    async def _resume(self, now: datetime) -> None:
        if self.incident.state.lost:
            await self._tell_found()
        await self._tell_closed()  # once; whoever saved that may have died before
        await self._take_up(self.incident.resume(now), [])

    def strand(self) -> None:
        """Redis came back empty: it is written down again, and the present is shown anew."""
        self._shown, self._is_forgotten = (), True
        self.ledger.strand()
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
        facts: list[Fact] = []
        with contextlib.suppress(StoreUnavailable):
            facts = await self.ledger.store.facts(self.plan.incident)
            await self.ledger.find_address()
        local, self._local = self._local, []
        told, heard = await self._looks.read(facts)
        events = [*local, *told]
        if ticked:
            events += [*await self._looks.starts(self.incident.state), Ticked()]
        actions: list[IncidentAction] = []
        for event in events:
            actions += self._take(event)
        if actions or heard or self.ledger.is_behind(closed=self.incident.is_closed):
            await self._take_up(actions, heard)

    def _take(self, event: IncidentEvent) -> list[IncidentAction]:
        """A fact that breaks the machine is left out: whoever has the incident next would meet it again."""
        try:
            return self.incident.handle(event, self.ground.clock.now())
        except Exception:
            if isinstance(event, Ticked):  # it comes again
                raise
            log.exception("fact_broke", incident=self.plan.incident, kind=type(event).__name__)
            return []

    async def _take_up(self, actions: Sequence[IncidentAction], heard: Sequence[str]) -> None:
        """Save what has become of it with what is told, then touch the world."""
        people = People()
        if any(isinstance(action, UploadTimeline) for action in actions):
            people = await read_people(self.ground, self.plan, self.incident.state, self.ground.clock.now())
        messages, files = self._messages(actions, people)
        # A present that shows nothing new alone is neither told nor written.
        telling = messages or heard or any(not isinstance(action, EditIncident) for action in actions)
        if telling or self.ledger.is_behind(closed=self.incident.is_closed):
            await self.ledger.save(self.incident.state, actions, messages, files, heard)
            if self._is_forgotten:
                self._is_forgotten = False
                await self._tell_found()
        await self._perform(actions)

    def _messages(
        self, actions: Sequence[IncidentAction], people: People
    ) -> tuple[list[Outgoing], dict[str, bytes]]:
        channel, now = self.ledger.record.channel, self.ground.clock.now()
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
                    self.ground.tallies.endings[action.ending.value] += 1
                    await self._tell_closed()
                case _:
                    assert_never(action)

    async def _tell_found(self) -> None:
        """Its watch may have begun anew with another process, which would never say that it is over."""
        state = self.incident.state
        if state.ending is None:
            found = IncidentFound(self.plan.incident, state.severity, state.times)
            await self._tell_watch(found, f"found:{self.plan.incident}:{self.ground.store.epoch}")

    async def _tell_closed(self) -> None:
        """By hand, or as nobody watched: its watch does not know, and would tell it of the next outage."""
        state = self.incident.state
        unwatched = state.ending is Ending.UNWATCHED
        if unwatched or (state.ending is not None and state.ended_by is not None):
            name = f"closed:{self.plan.incident}:{state.times}"
            closed = IncidentClosed(self.plan.incident, state.severity, state.recovered, unwatched=unwatched)
            await self._tell_watch(closed, name)

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

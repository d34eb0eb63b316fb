"""The real handlers on a real bolt app, between the practice Slack, a real Redis, and a scripted Startups.

Several rooms on one Redis and one Slack are several processes of the bot; `open_rooms` opens them.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from redis.asyncio import Redis
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest

from bot.clients.directory import Directory
from bot.clients.records import Holder, Operation, Outgoing
from bot.clients.slack import Outbox
from bot.clients.store import Store
from bot.core.answers import render_sentence
from bot.core.blocks import Message
from bot.core.command import Outcome
from bot.core.events import ChannelId, HostName, MessageTs, OperationId, ServiceName, UserId, Verb
from bot.core.incident_state import IncidentId
from bot.core.request import Outage, Request, RequestAnswer, Standing, Started, StatusView
from bot.core.retrospect import HistoryView, WhyView
from bot.practice.slack import PracticeSlack
from bot.practice.slack_requests import read_answer, sign, write_body
from bot.practice.slack_socket import Answer, Envelope
from bot.tasks import Tasks
from handlers import register
from handlers.intents import Intents
from handlers.parts import Parts
from tests.support.configurations import ALICE, BOB, CAROL, ELSEWHERE, LAB, MALLORY, ONCALL, OPS, configure
from tests.support.cutting import Cut
from tests.support.slack_app import web_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from bot.asking import Slow
    from bot.core.monitor_state import Mute
    from bot.practice.slack_state import PostedMessage
    from config.services import Configuration

T = TypeVar("T")
PATIENCE = 60.0  # seconds, for a busy machine


@dataclass
class ScriptedStartups:
    """Remembers what it was asked; answers as told. `gate` closed: nothing is answered yet."""

    answer: RequestAnswer = field(default_factory=lambda: Started(OperationId("op-new")))
    followed: bool = True
    waits: bool = True
    refused: str | None = None
    error: Exception | None = None
    silent: tuple[HostName, ...] = ()  # hosts of which is told first that they do not answer
    requests: list[Request] = field(default_factory=list)
    begun: dict[str, Started] = field(default_factory=dict)  # by token: what the record in Redis tells
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    async def _keep_waiting(self, slow: Slow) -> None:
        if self.silent:
            await slow(self.silent, 4.0)

    async def _pass(self) -> None:
        await self.gate.wait()
        if self.error is not None:
            raise self.error

    async def request(self, request: Request, *, slow: Slow) -> RequestAnswer:
        self.requests.append(request)
        await self._keep_waiting(slow)
        await self._pass()
        if isinstance(self.answer, Started):
            return self.begun.setdefault(request.token, self.answer)
        return self.begun.get(request.token, self.answer)

    async def status(self, service: ServiceName) -> StatusView:
        await self._pass()
        return StatusView(service, (HostName("llm-two"),), Standing.SERVING, uptime=timedelta(hours=5))

    async def unwatch(self, service: ServiceName, by: UserId, *, token: str) -> bool:
        assert token
        self.calls.append(("unwatch", service, by))
        await self._pass()
        return self.followed

    async def keep_waiting(
        self, operation: OperationId, by: UserId, longer: timedelta, *, token: str
    ) -> bool:
        assert token
        self.calls.append(("keep_waiting", operation, by, longer))
        await self._pass()
        return self.waits

    async def logs(self, service: ServiceName, *, token: str, slow: Slow, **asked: Any) -> str | None:
        assert token
        self.calls.append(("logs", service, asked))
        await self._keep_waiting(slow)
        await self._pass()
        return self.refused


class ScriptedErrands:
    """Remembers what was asked, and answers at once."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.posted: list[tuple[str, str]] = []  # text and thread

    async def smoke(self, service: ServiceName, *, slow: Slow) -> Message:
        del slow
        self.asked.append(f"smoke {service}")
        return render_sentence("84 tokens/s")

    async def reload(self, service: ServiceName, *, slow: Slow) -> Message:
        del slow
        self.asked.append(f"reload {service}")
        return render_sentence("read anew")

    async def post(
        self, message: Message, *, by: UserId, channel: ChannelId, thread_ts: MessageTs, token: str
    ) -> None:
        assert by
        assert token
        assert channel
        self.posted.append((message.text, thread_ts))


@dataclass
class ScriptedAccounts:
    """A past as told; remembers the pictures it was asked for."""

    past: HistoryView = field(
        default_factory=lambda: HistoryView(ServiceName("kimi-k2.5"), (), now=datetime.now(UTC))
    )
    last: WhyView = field(
        default_factory=lambda: WhyView(ServiceName("kimi-k2.5"), None, now=datetime.now(UTC))
    )
    drawn: list[dict[str, Any]] = field(default_factory=list)

    async def history(self, service: ServiceName) -> HistoryView:
        return replace(self.past, service=service)

    async def why(self, service: ServiceName) -> WhyView:
        return replace(self.last, service=service)

    async def draw_history(self, view: HistoryView, *, token: str, **asked: Any) -> None:
        assert token
        self.drawn.append({"service": view.service, **asked})


class ScriptedIncidents:
    """One incident, whose thread is `thread`; remembers what was asked of it."""

    def __init__(self) -> None:
        self.thread: str | None = None
        self.service: ServiceName | None = ServiceName("kimi-k2.5")
        self.everywhere = False  # it may be named anywhere
        self.asked: list[tuple[Any, ...]] = []
        self.outage: Outage | None = None
        self.before: Outage | None = None
        self.muted: Mute | None = None

    async def at(self, channel: ChannelId, ts: MessageTs) -> Incident | None:
        assert channel
        return Incident(INCIDENT, self.service) if ts == self.thread else None

    async def find(self, typed: str, visible: Sequence[ServiceName]) -> FoundIncident:
        anywhere = self.everywhere or self.service is None
        known = INCIDENT.startswith(typed) and (anywhere or self.service in visible)
        if not known:
            return FoundIncident(None, render_sentence(f"There is no incident {typed} here."))
        return FoundIncident(Incident(INCIDENT, self.service), None)

    async def outage_of(self, service: ServiceName) -> Outage | None:
        assert service
        return self.outage

    async def outage_before(self, service: ServiceName) -> Outage | None:
        assert service
        return self.before

    async def mute_of(self, service: ServiceName) -> Mute | None:
        assert service
        return self.muted

    async def rows(self, services: Sequence[ServiceName], *, service: ServiceName | None) -> Message:
        self.asked.append(("rows", tuple(services), service))
        return render_sentence("No incident is open.")

    async def export(self, incident: IncidentId, **asked: Any) -> Message:
        self.asked.append(("export", incident, asked["channel"], asked["thread_ts"]))
        return render_sentence("The timeline comes here as a file.")

    async def acknowledge(
        self, service: ServiceName | None, incident: str | None, *, by: UserId, token: str
    ) -> tuple[Message, Outcome]:
        assert token
        self.asked.append(("ack", service, incident, by))
        return render_sentence("You are on it."), Outcome.DONE

    async def resolve(
        self, service: ServiceName | None, incident: str | None, *, by: UserId, token: str
    ) -> tuple[Message, Outcome]:
        assert token
        self.asked.append(("resolve", service, incident, by))
        return render_sentence("Closed."), Outcome.DONE

    async def mute(
        self, service: ServiceName, lasting: timedelta, *, by: UserId, reason: str, token: str
    ) -> Message:
        assert token
        self.asked.append(("mute", service, lasting, by, reason))
        return render_sentence("Muted.")

    async def unmute(self, service: ServiceName, *, by: UserId, token: str) -> tuple[Message, Outcome]:
        assert token
        self.asked.append(("unmute", service, by))
        return render_sentence("No longer muted."), Outcome.DONE

    async def mute_host(
        self, host: HostName, lasting: timedelta, *, by: UserId, reason: str, token: str
    ) -> tuple[Message, Outcome]:
        assert token
        self.asked.append(("mute host", host, lasting, by, reason))
        return render_sentence("The host is muted."), Outcome.DONE

    async def unmute_host(self, host: HostName, *, by: UserId, token: str) -> tuple[Message, Outcome]:
        assert token
        self.asked.append(("unmute host", host, by))
        return render_sentence("The host is no longer muted."), Outcome.DONE


HOST = HostName("llm-two")
INCIDENT = IncidentId("3f9a2c11" * 4)


@dataclass(frozen=True)
class Incident:
    incident: IncidentId
    service: ServiceName | None
    host: HostName = HOST


@dataclass(frozen=True)
class FoundIncident:
    record: Incident | None
    problem: Message | None


class Dispatch:
    """Hands envelopes to the app as Socket Mode does; with a secret, as signed requests of HTTP mode."""

    def __init__(self, app: AsyncApp, secret: str | None = None, *, cut: Cut | None = None) -> None:
        self._app = app
        self.secret = secret
        self._cut = cut or Cut()

    async def deliver(self, envelope: Envelope) -> Answer:
        """Of a process that died, no acknowledgement comes any more."""
        delivery = asyncio.ensure_future(self._deliver(envelope))
        death = asyncio.ensure_future(self._cut.reached.wait())
        try:
            await asyncio.wait({delivery, death}, return_when=asyncio.FIRST_COMPLETED)
            if not self._cut.reached.is_set():
                return await delivery
            return Answer(acknowledged=False, seconds=0, error="operation_timeout")
        finally:
            delivery.cancel()
            death.cancel()

    async def _deliver(self, envelope: Envelope) -> Answer:
        began = time.monotonic()
        if self.secret is None:
            request = AsyncBoltRequest(mode="socket_mode", body=envelope.payload)
        else:
            request = self._signed(envelope, self.secret)
        response = await self._app.async_dispatch(request)
        await self._cut.step("acknowledge")
        kind = response.first_headers_without_set_cookie().get("content-type", "").split(";")[0]
        good = response.status == 200
        payload = read_answer(response.body, kind) if good else None
        return Answer(good, time.monotonic() - began, payload)

    def _signed(self, envelope: Envelope, secret: str) -> AsyncBoltRequest:
        body, kind = write_body(envelope)
        now = int(time.time())
        headers: dict[str, str | Sequence[str]] = {
            "content-type": kind,
            "x-slack-request-timestamp": str(now),
            "x-slack-signature": sign(secret, now, body),
        }
        return AsyncBoltRequest(body=body.decode(), headers=headers)


@dataclass
class Room:
    slack: PracticeSlack
    app: AsyncApp
    store: Store
    startups: ScriptedStartups
    tasks: Tasks
    parts: Parts
    accounts: ScriptedAccounts
    errands: ScriptedErrands
    incidents: ScriptedIncidents
    intents: Intents
    redis_url: str

    async def slash(self, user: str, text: str, *, channel: str = OPS) -> Message:
        """The first answer, whether it came with the acknowledgement or after it."""
        before = len(self.slack.ephemerals(user))
        outcome = await self.slack.slash(user, channel, text)
        assert outcome.acknowledged
        answer = await self.whisper(user, before + 1)
        return Message(answer.text, answer.blocks)

    async def settled(self) -> None:
        """Until nothing that was asked for waits for an answer."""
        while await self.store.intents():  # noqa: ASYNC110 - Redis alone knows
            await asyncio.sleep(0.01)

    async def die(self) -> None:
        """As by SIGKILL: nothing is finished, nothing let go of, and the sign of life runs out."""
        await self.tasks.close(grace=5)
        async with Redis.from_url(self.redis_url) as redis:
            await redis.delete(f"kimi:process:{self.store.leases.owner}")

    async def wait_for(self, predicate: Callable[[], T | None]) -> T:
        return await self.slack.wait_for(lambda _slack: predicate(), PATIENCE)

    async def whisper(self, user: str, number: int = 1) -> PostedMessage:
        """The `number`th message that this person alone sees."""
        seen = self.slack.ephemerals
        return await self.wait_for(lambda: seen(user)[number - 1] if len(seen(user)) >= number else None)

    async def show(self, message: Message, *, thread_ts: str | None = None, channel: str = OPS) -> str:
        """Posts a message of the bot; its ts."""
        posted = await web_client(self.slack).chat_postMessage(
            channel=channel, text=message.text, blocks=list(message.blocks), thread_ts=thread_ts
        )
        return str(posted["ts"])

    async def whisper_buttons(self, user: str, message: Message) -> str:
        """Shows a question in private; its ts."""
        posted = await web_client(self.slack).chat_postEphemeral(
            channel=OPS, user=user, text=message.text, blocks=list(message.blocks)
        )
        return str(posted["message_ts"])

    async def hold(self, service: str = "kimi-k2.5", *, by: str = ALICE) -> Operation:
        """An open operation with its lock and no thread."""
        operation = make_operation(service, by=by)
        holder = Holder(
            operation=operation.operation,
            service=operation.service,
            verb=operation.verb,
            by=operation.by,
            since=operation.began,
            headline=operation.headline,
        )
        assert await self.store.take(holder) is None
        await self.store.save(operation)
        return operation

    async def post_thread(self, operation: Operation) -> str:
        """The root of its thread, brought to Slack by the real outbox; its ts."""
        root = Outgoing(
            id=f"{operation.operation}:root",
            thread=operation.operation,
            kind="root",
            channel=operation.channel,
            text="root",
        )
        await self.store.save(operation, [root])
        outbox = Outbox(web_client(self.slack), self.store)
        self.tasks.spawn("outbox", outbox.run())
        outbox.wake()
        roots = self.slack.channel_messages
        await self.wait_for(lambda: roots(operation.channel))
        assert await outbox.drain(PATIENCE)
        return roots(operation.channel)[0].ts


def make_operation(service: str = "kimi-k2.5", *, by: str = ALICE) -> Operation:
    return Operation(
        operation=OperationId("op1"),
        service=ServiceName(service),
        verb=Verb.RESTART,
        channel=ChannelId(OPS),
        by=UserId(by),
        began=datetime(2026, 5, 29, 23, 49, tzinfo=UTC),
        headline="loading weights 12/64",
    )


@asynccontextmanager
async def open_slack() -> AsyncIterator[PracticeSlack]:
    """With everybody and every channel; nothing may have been refused at the end."""
    slack = PracticeSlack()
    for user in (ALICE, BOB, CAROL, MALLORY):
        slack.add_user(user, user.removeprefix("U0").lower())
    for channel in (OPS, LAB, ELSEWHERE):
        slack.add_channel(channel, channel.removeprefix("C0").lower())
    slack.add_group(ONCALL, "oncall", [BOB])
    await slack.start()
    try:
        yield slack
        assert slack.refusals == []
        assert slack.warnings == []
    finally:
        await slack.stop()


@asynccontextmanager
async def open_process(
    slack: PracticeSlack,
    redis_url: str,
    configuration: Configuration | None = None,
    *,
    cut: Cut | None = None,
) -> AsyncIterator[Room]:
    """One process of the bot; the newest one hears what is said. `cut`: where it dies."""
    store, tasks, startups = await Store.open(redis_url), Tasks(), ScriptedStartups()
    await store.leases.renew()
    tasks.spawn("leases", store.leases.run())
    client = web_client(slack)
    app = AsyncApp(client=client, signing_secret=slack.signing_secret)
    accounts, errands, incidents = ScriptedAccounts(), ScriptedErrands(), ScriptedIncidents()
    directory = Directory(client)
    cut = cut or Cut()
    parts = Parts(
        configuration or configure(),
        cut.around(startups),
        cut.around(store),
        directory,
        tasks,
        client,
        accounts,
        errands,
        incidents,
    )
    intents = register(app, parts)
    slack.people.courier = Dispatch(app, cut=cut)
    try:
        yield Room(
            slack, app, store, startups, tasks, parts, accounts, errands, incidents, intents, redis_url
        )
    finally:
        await tasks.close(grace=5)
        await store.close()


@asynccontextmanager
async def open_rooms(redis_url: str, *cuts: Cut) -> AsyncIterator[list[Room]]:
    """Processes that share Redis, Slack and hosts; the first one hears what is said."""
    async with AsyncExitStack() as stack:
        slack = await stack.enter_async_context(open_slack())
        rooms = [
            await stack.enter_async_context(open_process(slack, redis_url, cut=cut)) for cut in reversed(cuts)
        ]
        for room in rooms[1:]:
            room.startups.begun = rooms[0].startups.begun
        yield rooms[::-1]


@asynccontextmanager
async def open_room(redis_url: str, configuration: Configuration | None = None) -> AsyncIterator[Room]:
    async with open_slack() as slack, open_process(slack, redis_url, configuration) as room:
        yield room

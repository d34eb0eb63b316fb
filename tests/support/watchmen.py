"""What watches services and keeps incidents, between a practice host, a real Redis and the practice Slack."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bot.clients.probe import Probe
from bot.clients.slack import Outbox
from bot.clients.slack_history import Archive
from bot.clients.ssh import Host
from bot.clients.store import Store
from bot.clock import Clock
from bot.core.events import ChannelId, HostName, InvocationId, Member, ServiceName, UnitName
from bot.core.incident_state import IncidentId, IncidentPlan, Severity, Sign, SignKind, incident_of
from bot.core.redact import Redactor
from bot.ground import Ground
from bot.incidents import Incidents
from bot.practice.host import PracticeHost
from bot.practice.scenarios import SCENARIOS
from bot.practice.slack import PracticeSlack
from bot.practice.workspace import CHANNEL, PracticeWorkspace
from bot.tasks import Tasks
from config.engine_file import load_engine
from tests.support.slack_app import web_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bot.practice.slack_state import PostedMessage

SERVICE, HOST = ServiceName("kimi-k2.5"), HostName("llm-two")
SPEED, LEASE = 20.0, 1.0


@dataclass
class Watchmen:
    """One process's ground; `far` is the host as it really is. `lease`: real seconds."""

    ground: Ground
    far: PracticeHost
    slack: PracticeSlack
    redis_url: str
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    lease: float = LEASE

    @property
    def member(self) -> Member:
        return Member(f"{HOST}/{self.unit}")

    @property
    def unit(self) -> UnitName:
        return UnitName(self.far.unit_name)

    @property
    def run(self) -> InvocationId:
        return InvocationId(self.far.unit.invocation or "")

    def plan(self, sentence: str = "process died by SIGSEGV", **changes: Any) -> IncidentPlan:
        now = datetime.now(UTC)
        made = IncidentPlan(
            incident=incident_of(SERVICE, now),
            subject=SERVICE,
            host=HOST,
            severity=Severity.DOWN,
            began=now,
            opened=now,
            signs=(Sign(SignKind.PROCESS, now, sentence, self.member),),
            service=SERVICE,
            members=(self.member,),
            invocations={self.member: self.run},
        )
        return replace(made, **changes)

    def roots(self) -> list[PostedMessage]:
        return [m for m in self.slack.channel_messages(CHANNEL) if m.bot and m.thread_ts is None]

    def thread(self, root: PostedMessage) -> list[str]:
        return [message.plain for message in self.slack.thread(CHANNEL, root.ts)[1:]]

    async def another(self, *, owner: str = "") -> Ground:
        """The ground of another process on the same Redis."""
        store = await Store.open(self.redis_url, owner=owner or None, lease_seconds=self.lease)
        self.stack.push_async_callback(store.close)
        await store.leases.renew()
        return replace(self.ground, store=store)

    def incidents(self, ground: Ground | None = None) -> Incidents:
        made = Incidents(ground or self.ground, archive=Archive(web_client(self.slack)))
        self.stack.push_async_callback(made.hand_over)
        return made

    async def closed(self, incident: IncidentId) -> bool:
        record = await Incidents(self.ground).store.read(incident)
        return record is not None and record.closed is not None


@asynccontextmanager
async def watchmen(
    redis_url: str,
    scenario: str = "healthy",
    *,
    speed: float = SPEED,
    service: dict[str, Any] | None = None,
    lease: float = LEASE,
) -> AsyncIterator[Watchmen]:
    workspace = PracticeWorkspace(SCENARIOS[scenario], speed=speed, service=service)
    slack, far = workspace.slack, workspace.host
    stack = AsyncExitStack()
    try:
        workspace._people()
        await slack.start(0)
        await far.start()
        configuration = workspace.configuration()
        section = configuration.services[SERVICE]
        host = Host(HOST, configuration.hosts[HOST])
        stack.push_async_callback(host.close)
        store = await Store.open(redis_url, lease_seconds=lease)
        stack.push_async_callback(store.close)
        await store.leases.renew()
        tasks = Tasks()
        stack.push_async_callback(tasks.close, grace=2.0)
        tasks.spawn("leases", store.leases.run())
        outbox = Outbox(web_client(slack), store)
        tasks.spawn("outbox", outbox.run())
        ground = Ground(
            configuration=configuration,
            clock=Clock(speed, origin=workspace.clock.origin),
            tasks=tasks,
            store=store,
            outbox=outbox,
            hosts={HOST: host},
            probes={SERVICE: Probe(section, host=host, api_key="sk-practice-4f1d20c9a7")},
            engines={SERVICE: load_engine("sglang")},
            make_redactor=lambda: Redactor(()),
        )
        assert ground.channel(SERVICE) == ChannelId(CHANNEL)
        yield Watchmen(ground, far, slack, redis_url, stack, lease)
    finally:
        await stack.aclose()
        await far.stop()
        await slack.stop()

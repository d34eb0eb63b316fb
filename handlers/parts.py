"""What the handlers are given: the parts of the bot they speak to, as far as they need them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from bot.clock import Clock
from bot.core.redact import Redactor
from config.services import Configuration

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Sequence
    from datetime import datetime, timedelta

    from bot.asking import Slow
    from bot.clients.records import AuditEntry, Intent, Past
    from bot.core.blocks import Message
    from bot.core.command import Outcome
    from bot.core.events import ChannelId, HostName, MessageTs, OperationId, ServiceName, UserId
    from bot.core.incident_state import IncidentId
    from bot.core.monitor_state import Mute
    from bot.core.request import Outage, Request, RequestAnswer, StatusView
    from bot.core.retrospect import HistoryView, WhyView


class Startups(Protocol):
    """Carries out what is asked of services. Everything here may raise a KimiError.

    `token`: of one thing asked; what was done of it already is not done twice. `slow`: is told of hosts that
    keep a person waiting, while they are asked on.
    """

    async def request(self, request: Request, /, *, slow: Slow) -> RequestAnswer:
        """Leaving: not here any more; nothing was done."""

    async def status(self, service: ServiceName, /) -> StatusView: ...

    async def unwatch(self, service: ServiceName, by: UserId, /, *, token: str) -> bool:
        """False: nothing was being followed."""

    async def keep_waiting(
        self, operation: OperationId, by: UserId, longer: timedelta, /, *, token: str
    ) -> bool:
        """False: that operation is over."""

    async def logs(
        self,
        service: ServiceName,
        *,
        lines: int | None,
        since: timedelta | None,
        by: UserId,
        channel: ChannelId,
        thread_ts: MessageTs | None,
        token: str,
        slow: Slow,
    ) -> str | None:
        """Sends the end of the log as a file into the channel or thread; a sentence where it cannot."""


class Accounts(Protocol):
    """What is known of the past. Everything here may raise a KimiError."""

    async def history(self, service: ServiceName, /) -> HistoryView:
        """The newest startups."""

    async def why(self, service: ServiceName, /) -> WhyView:
        """The last failure."""

    async def draw_history(
        self, view: HistoryView, *, by: UserId, channel: ChannelId, thread_ts: MessageTs | None, token: str
    ) -> None:
        """Sends its picture as a file into the channel or thread, where there is something to draw."""


class Errands(Protocol):
    """What is done at once and leads to no startup. Everything here may raise a KimiError."""

    async def smoke(self, service: ServiceName, /, *, slow: Slow) -> Message:
        """Runs the smoke test: its numbers, or why it did not run."""

    async def reload(self, service: ServiceName, /, *, slow: Slow) -> Message:
        """Lets systemd read its unit files anew on each host of the service."""

    async def post(
        self, message: Message, /, *, by: UserId, channel: ChannelId, thread_ts: MessageTs, token: str
    ) -> None:
        """Sends an answer into a thread, where all can read it."""


class Incident(Protocol):
    """The record of one incident. `service` None: it is a host's."""

    @property
    def incident(self) -> IncidentId: ...
    @property
    def service(self) -> ServiceName | None: ...
    @property
    def host(self) -> HostName: ...


class FoundIncident(Protocol):
    """Either is None."""

    @property
    def record(self) -> Incident | None: ...
    @property
    def problem(self) -> Message | None: ...


class Incidents(Protocol):
    """What is asked of incidents and mutes. Everything here may raise a KimiError."""

    async def at(self, channel: ChannelId, ts: MessageTs, /) -> Incident | None: ...
    async def find(self, typed: str, visible: Sequence[ServiceName], /) -> FoundIncident: ...
    async def outage_of(self, service: ServiceName, /) -> Outage | None:
        """The open one."""

    async def outage_before(self, service: ServiceName, /) -> Outage | None:
        """The last one that is over."""

    async def mute_of(self, service: ServiceName, /) -> Mute | None: ...
    async def rows(self, services: Sequence[ServiceName], /, *, service: ServiceName | None) -> Message: ...
    async def export(
        self,
        incident: IncidentId,
        *,
        by: UserId,
        channel: ChannelId,
        thread_ts: MessageTs | None,
        token: str,
    ) -> Message:
        """Sends it as a file into the channel or thread."""

    async def acknowledge(
        self, service: ServiceName | None, incident: str | None, /, *, by: UserId, token: str
    ) -> tuple[Message, Outcome]: ...
    async def resolve(
        self, service: ServiceName | None, incident: str | None, /, *, by: UserId, token: str
    ) -> tuple[Message, Outcome]: ...
    async def mute(
        self, service: ServiceName, lasting: timedelta, /, *, by: UserId, reason: str, token: str
    ) -> Message: ...
    async def unmute(self, service: ServiceName, /, *, by: UserId, token: str) -> tuple[Message, Outcome]: ...
    async def mute_host(
        self, host: HostName, lasting: timedelta, /, *, by: UserId, reason: str, token: str
    ) -> tuple[Message, Outcome]:
        """With all that runs there."""

    async def unmute_host(self, host: HostName, /, *, by: UserId, token: str) -> tuple[Message, Outcome]: ...


class Holding(Protocol):
    """Who has a service."""

    @property
    def operation(self) -> OperationId: ...
    @property
    def by(self) -> UserId | None: ...
    @property
    def headline(self) -> str: ...


class Recorded(Protocol):
    """The record of one operation."""

    @property
    def operation(self) -> OperationId: ...
    @property
    def service(self) -> ServiceName: ...
    @property
    def by(self) -> UserId | None: ...
    @property
    def began(self) -> datetime: ...
    @property
    def verdict(self) -> str | None: ...


class Placed(Protocol):
    """Where a thread is in Slack."""

    @property
    def permalink(self) -> str | None: ...


class Leases(Protocol):
    """Which processes live."""

    owner: str

    async def alive(self, owner: str, /) -> bool:
        """Raises StoreUnavailable."""


class Store(Protocol):
    """What the handlers need of Redis; each method raises StoreUnavailable."""

    @property
    def leases(self) -> Leases: ...
    async def holder(self, service: ServiceName, /) -> Holding | None: ...
    async def operation(self, operation: OperationId, /) -> Recorded | None: ...
    async def operation_at(self, channel: ChannelId, ts: MessageTs, /) -> OperationId | None: ...
    async def address(self, thread: str, /) -> Placed | None: ...
    async def past(self, service: ServiceName, limit: int, /) -> Sequence[Past]: ...
    async def intend(self, intent: Intent, ttl_seconds: int, /) -> bool: ...
    async def settle_intent(self, token: str, /) -> None: ...
    async def intents(self) -> Sequence[Intent]: ...
    async def adopt_intent(self, intent: Intent, owner: str, /) -> bool: ...
    async def audit(self, entry: AuditEntry, /) -> None: ...


class Directory(Protocol):
    async def members(self, group_id: str, /) -> frozenset[UserId]: ...


class Tasks(Protocol):
    def spawn(self, name: str, work: Coroutine[Any, Any, Any], /) -> asyncio.Task[Any]: ...


class Web(Protocol):
    """The Web API methods whose answers nobody needs to be sure of."""

    async def chat_postEphemeral(  # noqa: N802 - the SDK names it so
        self, *, channel: str, user: str, **arguments: Any
    ) -> Any: ...
    async def chat_postMessage(self, *, channel: str, **arguments: Any) -> Any: ...  # noqa: N802
    async def views_publish(self, *, user_id: str, view: Any) -> Any: ...
    async def views_open(self, *, trigger_id: str, view: Any) -> Any: ...
    async def views_update(self, *, view_id: str, view: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Parts:
    configuration: Configuration
    startups: Startups
    store: Store
    directory: Directory
    tasks: Tasks
    client: Web
    accounts: Accounts
    errands: Errands
    incidents: Incidents
    redactor: Redactor = field(default_factory=Redactor)
    clock: Clock = field(default_factory=Clock)

    def mask(self, typed: str) -> str:
        """What a person typed, without the secrets that were pasted into it: it is kept and told on."""
        return self.redactor.redact(typed)[0]

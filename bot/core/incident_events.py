"""The facts an incident is told: signs, logs, starts, and what people do about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias, get_args

from bot.core.account import Changed
from bot.core.actions import Verdict
from bot.core.events import InvocationId, LogLine, Member, OperationId, ServiceName, Ticked, UserId, Verb
from bot.core.incident_state import How, Severity, Sign


@dataclass(frozen=True, slots=True)
class SignSeen:
    """One more thing that shows it."""

    sign: Sign


@dataclass(frozen=True, slots=True)
class Worsened:
    """What was degraded is an outage now. `last_healthy`: the last good check before that."""

    severity: Severity
    sign: Sign
    last_healthy: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunLogRead:
    """The end of a run's log, oldest first, that `ReadRunLog` asked for; empty: it could not be read."""

    member: Member
    invocation: InvocationId | None
    lines: tuple[LogLine, ...]


@dataclass(frozen=True, slots=True)
class ChangesSeen:
    """What it ran with that the last good start did not."""

    changed: Changed


@dataclass(frozen=True, slots=True)
class AttemptDied:
    """A start that systemd made by itself ended. `number`: its restart counter, from 1."""

    member: Member
    invocation: InvocationId
    number: int
    lasted: timedelta | None = None


@dataclass(frozen=True, slots=True)
class StartFollowed:
    """A startup is under way in a thread of its own. `how` None: somebody in chat asked for it."""

    operation: OperationId
    verb: Verb
    by: UserId | None = None
    how: How | None = None
    link: str | None = None


@dataclass(frozen=True, slots=True)
class ServiceStart:
    """A startup, whoever began it, of a service on a host that was gone. `link`: to its thread."""

    service: ServiceName
    operation: OperationId
    link: str | None = None


@dataclass(frozen=True, slots=True)
class StartsSeen:
    """Of a host: what is started there, now that it is back or may be."""

    starts: tuple[ServiceStart, ...]


@dataclass(frozen=True, slots=True)
class StartOver:
    """It has its verdict; its thread tells the rest. `cause`: of a failure, one plain sentence."""

    operation: OperationId
    verdict: Verdict
    took: timedelta
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Acknowledged:
    by: UserId


@dataclass(frozen=True, slots=True)
class IncidentMuted:
    by: UserId
    until: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True)
class IncidentUnmuted:
    """`by` None: its time is over."""

    by: UserId | None = None


@dataclass(frozen=True, slots=True)
class ResolvedByHand:
    """A person says that it is over."""

    by: UserId


@dataclass(frozen=True, slots=True)
class Recovered:
    """It serves again, proven by enough good checks, since the first of them."""

    since: datetime


@dataclass(frozen=True, slots=True)
class DownAgain:
    """Within the time in which that is the same incident. `since`: the first sign."""

    since: datetime
    sign: Sign
    severity: Severity
    last_healthy: datetime | None = None


@dataclass(frozen=True, slots=True)
class ServiceStopped:
    """Someone stopped the service while it was down: nobody waits for it any more."""

    since: datetime
    sentence: str


@dataclass(frozen=True, slots=True)
class WatchEnded:
    """Nobody looks at it any more: the configuration has changed. `sentence`: how, plain."""

    sentence: str


@dataclass(frozen=True, slots=True)
class AffectedSeen:
    """Of a host: all services there that cannot be seen now; empty: they all can."""

    services: tuple[ServiceName, ...]


@dataclass(frozen=True, slots=True)
class PresentSeen:
    """Of a host: how it shows itself now, where that was told before: shown, and not told again."""

    sign: Sign


IncidentEvent: TypeAlias = (
    SignSeen
    | Worsened
    | RunLogRead
    | ChangesSeen
    | AttemptDied
    | StartFollowed
    | StartsSeen
    | StartOver
    | Acknowledged
    | IncidentMuted
    | IncidentUnmuted
    | ResolvedByHand
    | Recovered
    | DownAgain
    | ServiceStopped
    | WatchEnded
    | AffectedSeen
    | PresentSeen
    | Ticked
)

# By name, for a fact on its way to another process.
INCIDENT_EVENTS: dict[str, type[IncidentEvent]] = {kind.__name__: kind for kind in get_args(IncidentEvent)}

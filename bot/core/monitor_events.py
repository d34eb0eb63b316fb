"""The facts a watch over a service or a host is told, and the orders it gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

from bot.core.actions import Verdict
from bot.core.events import (
    HostName,
    InvocationId,
    LogLine,
    Member,
    OperationId,
    ProbeAnswer,
    ServiceName,
    SmokeResult,
    Ticked,
    UnitState,
    UserId,
    Verb,
)
from bot.core.incident_events import IncidentEvent
from bot.core.incident_state import How, IncidentId, IncidentPlan, Severity
from bot.core.monitor_network import Dark
from bot.core.monitor_state import Sight


@dataclass(frozen=True, slots=True)
class Checked:
    """One round of looking at a service.

    `units`: of each member what systemd says, or why its host does not tell. `probe`: None where it could
    not be asked (the way to it is SSH, and that is gone). `inside`: where `probe` goes past SSH and failed
    while the host is seen, the same asked from the host itself. `boots`: boot ids where they are known.
    `operation`: which of ours has the service at present, by Redis; `sight`: from the host's own watch,
    which is told of the round first.
    """

    probe: ProbeAnswer | None
    units: dict[Member, UnitState | str]
    inside: ProbeAnswer | None = None
    boots: dict[Member, str] = field(default_factory=dict)
    operation: OperationId | None = None
    sight: Sight = Sight.SEEN


@dataclass(frozen=True, slots=True)
class UnitLine:
    """A line of PID 1 about a unit, or of the unit or the kernel where `telling_pattern` matches."""

    member: Member
    line: LogLine


@dataclass(frozen=True, slots=True)
class SmokeChecked:
    """A real completion between startups."""

    result: SmokeResult


@dataclass(frozen=True, slots=True)
class LoadSeen:
    """What the engine tells of its queue (`/metrics`, `/v1/loads`): requests waiting and running.

    `usage`: how much of the KV cache is in use, from 0 to 1; None where it does not tell.
    """

    waiting: int
    running: int
    usage: float | None = None


@dataclass(frozen=True, slots=True)
class OperationUnderWay:
    """One of ours began; `by` None: nobody in chat asked for it, so its failure is an outage."""

    operation: OperationId
    verb: Verb
    by: UserId | None = None
    link: str | None = None


@dataclass(frozen=True, slots=True)
class OperationEnded:
    operation: OperationId
    verb: Verb
    verdict: Verdict
    took: timedelta
    by: UserId | None = None
    cause: str | None = None  # of a failure, one plain sentence


@dataclass(frozen=True, slots=True)
class Muted:
    """Of a service or a host. `host`: of a service, that all of that host is."""

    by: UserId
    until: datetime
    reason: str = ""
    host: HostName | None = None


@dataclass(frozen=True, slots=True)
class Unmuted:
    """`host`: only what was muted with that host."""

    by: UserId
    host: HostName | None = None


@dataclass(frozen=True, slots=True)
class IncidentClosed:
    """A person closed it, though what it is about may still be down. `severity`: it had then.

    `at`: when; what was told of the incident since goes on, however late this comes. `unwatched`: nobody did;
    it ended as nobody looked any more, so whoever looks again begins anew.
    """

    incident: IncidentId
    severity: Severity | None = None
    at: datetime | None = None
    unwatched: bool = False


@dataclass(frozen=True, slots=True)
class IncidentFound:
    """One that is open, of which the watch may know nothing: Redis came back empty. `times` it went down."""

    incident: IncidentId
    severity: Severity
    times: int = 1


WatchEvent: TypeAlias = (
    Checked
    | UnitLine
    | SmokeChecked
    | LoadSeen
    | OperationUnderWay
    | OperationEnded
    | Muted
    | Unmuted
    | IncidentClosed
    | IncidentFound
    | Ticked
)


@dataclass(frozen=True, slots=True)
class HostChecked:
    """One round of looking at a host. `error`: why SSH tells nothing, in whole; None: it does.

    `barred`: what SSH does instead of not answering ("SSH is refused (connection refused)"), so that the host
    is there; None: nothing answers. `answering`, `silent`, `refusing`: as in `DirectAsked`. `muted`: all its
    services are at present. `dark`: none of the hosts that are watched with it answers.
    """

    error: str | None
    answering: tuple[ServiceName, ...] = ()
    silent: tuple[ServiceName, ...] = ()
    barred: str | None = None
    refusing: tuple[ServiceName, ...] = ()
    muted: bool = False
    dark: Dark | None = None


@dataclass(frozen=True, slots=True)
class DirectAsked:
    """Services that are reached past SSH: which answered anything at all, and which nothing.

    `refusing`: those whose port refused the connection, as only a host that runs does.
    """

    answering: tuple[ServiceName, ...] = ()
    silent: tuple[ServiceName, ...] = ()
    refusing: tuple[ServiceName, ...] = ()


HostEvent: TypeAlias = HostChecked | DirectAsked | Muted | Unmuted | IncidentClosed | IncidentFound | Ticked


@dataclass(frozen=True, slots=True)
class OpenIncident:
    """Begin one; its id makes that once, however often it is ordered."""

    plan: IncidentPlan


@dataclass(frozen=True, slots=True)
class TellIncident:
    """Hand the fact over, wherever the incident runs."""

    incident: IncidentId
    event: IncidentEvent


@dataclass(frozen=True, slots=True)
class WatchStart:
    """Follow a startup nobody in chat asked for, from the beginning of that run's journal.

    `invocation` makes it once. `attempt`: the restart counter where systemd did it. `incident`: the open one.
    """

    service: ServiceName
    member: Member
    invocation: InvocationId
    how: How
    attempt: int = 0
    incident: IncidentId | None = None


@dataclass(frozen=True, slots=True)
class TellStopped:
    """Say once, in the channel, that the service was stopped outside chat. `sentence`: plain."""

    service: ServiceName
    since: datetime
    last_healthy: datetime | None
    sentence: str


@dataclass(frozen=True, slots=True)
class CheckSmoke:
    """Ask for a completion at once: the one before was not what it should be."""


WatchAction: TypeAlias = OpenIncident | TellIncident | WatchStart | TellStopped | CheckSmoke
HostAction: TypeAlias = OpenIncident | TellIncident

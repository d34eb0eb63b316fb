"""What a person asks of the services, and what can come back: the words between handlers and carriers."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, assert_never

from bot.core.account import Failure
from bot.core.actions import StartupView, Verdict
from bot.core.events import ChannelId, HostName, OperationId, ServiceName, UserId, Verb
from bot.core.incident_state import RunRead
from bot.core.words import spell_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.core.events import Member, UnitState

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://kimi-bot/operation")


@dataclass(frozen=True, slots=True)
class Request:
    """`confirmed`: the person was asked and said yes, or was shown what it costs before the press.

    `over`: the operation that the yes gives up. Another one that has the service meanwhile was not meant.
    `token`: the same for one thing asked, however often it arrives; "" for none.
    """

    service: ServiceName
    verb: Verb
    by: UserId
    reason: str = ""
    channel: ChannelId | None = None
    confirmed: bool = False
    over: OperationId | None = None
    token: str = ""


def operation_of(token: str) -> OperationId:
    """What one thing asked becomes, whichever process carries it out, and however often."""
    return OperationId(uuid.uuid5(_NAMESPACE, token).hex)


@dataclass(frozen=True, slots=True)
class Held:
    """The operation that has a service at present. `headline`: its present in one plain line."""

    operation: OperationId
    service: ServiceName
    verb: Verb
    by: UserId | None
    age: timedelta
    headline: str = ""
    link: str | None = None  # to its thread


@dataclass(frozen=True, slots=True)
class Started:
    """The operation is written down and its thread is on its way."""

    operation: OperationId
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Busy:
    """Nothing was done: somebody's operation has the service."""

    held: Held


@dataclass(frozen=True, slots=True)
class NeedsConfirmation:
    """Nothing was done yet; `why` is one plain sentence about what a yes would cost."""

    why: str


@dataclass(frozen=True, slots=True)
class Declined:
    """Nothing was done, and one plain sentence says why: nothing to watch, an unreachable host."""

    sentence: str


RequestAnswer: TypeAlias = Started | Busy | NeedsConfirmation | Declined


class Standing(StrEnum):
    """What a service is at present, as far as it can be seen."""

    SERVING = "serving"  # active, and every probe of readiness passes
    STARTING = "starting"  # an operation follows it, or systemd has not done with its start
    STOPPING = "stopping"  # systemd waits for its end
    UNPROVEN = "unproven"  # active, but it does not answer as it should
    STOPPED = "stopped"  # inactive, as someone wanted it
    BROKEN = "broken"  # systemd calls it failed, starts it over and over, or has no such unit
    UNSEEN = "unseen"  # the host does not tell


@dataclass(frozen=True, slots=True)
class LastStartup:
    """How the newest closed operation of a service ended."""

    verb: Verb
    verdict: Verdict
    took: timedelta
    age: timedelta  # since its end
    by: UserId | None = None
    link: str | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Outage:
    """An incident of a service or of its host. `sentence`: what shows it; `incident`: as people see it.

    `is_down`: it tells that the service does not serve, whatever a quick look finds. `read`: the log that
    says why, where one does.
    """

    incident: str
    sentence: str
    age: timedelta
    acked_by: UserId | None = None
    link: str | None = None  # to its thread
    is_down: bool = False
    read: RunRead | None = None
    last_healthy: datetime | None = None  # of a host that is gone
    over: timedelta | None = None  # since its end; None: it is open


@dataclass(frozen=True, slots=True)
class StatusView:
    """The present of one service."""

    service: ServiceName
    hosts: tuple[HostName, ...]
    standing: Standing
    model: str | None = None
    uptime: timedelta | None = None
    startup: StartupView | None = None  # the operation under way, where this process knows it
    held: Held | None = None  # who has it
    last: LastStartup | None = None
    problem: str | None = None  # one plain sentence: why it cannot be seen, or what does not answer
    outage: Outage | None = None  # its open incident
    muted: datetime | None = None  # until when no incident is opened for it
    muted_with: HostName | None = None  # where that was said of its whole host


def nothing_starts(service: ServiceName, since: datetime, now: datetime) -> str:
    """Of a service that was asked to be watched, and serves."""
    when = f"{since.astimezone(UTC):%Y-%m-%d %H:%M} UTC ({spell_duration(now - since)})"
    return (
        f"Nothing is starting: {service} is up since {when} and passes its checks. "
        f"`status {service}` tells more, `restart {service}` starts it anew."
    )


def refusal_of(request: Request, units: Mapping[Member, UnitState]) -> str | None:
    """What makes no sense for the units as they are."""
    service = request.service
    for member, unit in units.items():
        if unit.load == "masked":
            return f"{member} is masked: `systemctl unmask` it on the host first."
        if unit.load != "loaded":
            return f"{member}: systemd has no such unit ({unit.load}); mend `unit` in the configuration."
    down = all(unit.down and unit.job is None for unit in units.values())  # with a job: amid a restart
    match request.verb:
        case Verb.START if all(unit.active == "active" for unit in units.values()):
            return (
                f"{service} runs already: `watch {service}` follows it, `restart {service}` starts it anew."
            )
        case Verb.STOP if down:
            return f"{service} does not run: there is nothing to stop."
        case Verb.WATCH if down:
            return f"{service} does not run: `start {service}` starts it."
        case Verb.RESTART | Verb.START | Verb.STOP | Verb.WATCH:
            return None
        case _:
            assert_never(request.verb)

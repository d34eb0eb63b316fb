"""What the watch over one service, and over one host, is told and must remember: plain data for a record."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from bot.core.baseline import Usual
from bot.core.events import HostName, InvocationId, Member, OperationId, ServiceName, UserId, Verb
from bot.core.incident_state import How, IncidentId, Severity, Sign, SignKind

_COARSE = 300  # seconds; a sign that comes over and over is not written each time


@dataclass(frozen=True, slots=True)
class WatchPlan:
    """One service as it is configured. `host`: of its first member, through which it is asked."""

    service: ServiceName
    host: HostName
    members: tuple[Member, ...]
    model: str | None = None
    reach: Literal["ssh", "direct"] = "ssh"
    every: timedelta = timedelta(seconds=15)
    failures: int = 3
    successes: int = 2
    give_up_after: timedelta = timedelta(hours=2)  # that a start nobody follows may take
    usual: Usual = field(default_factory=Usual)
    escalate_after: timedelta | None = None
    group: str | None = None


class WatchStanding(StrEnum):
    """What a service is, as far as its watch has seen. Whether it is muted stands beside it."""

    UNKNOWN = "unknown"  # since the watch began it was neither seen serving nor seen to break
    SERVING = "serving"
    SUSPECT = "suspect"  # it failed some checks in a row, not enough of them
    STARTING = "starting"  # on its way up; until it serves or dies nothing is concluded
    DOWN = "down"
    STOPPED = "stopped"  # someone stopped it


@dataclass(slots=True)
class MemberWatch:
    """One unit, as it was last seen."""

    invocation: InvocationId | None = None
    old: list[InvocationId] = field(default_factory=list)  # the starts before, newest last
    idle: bool = False  # it was seen at rest before anything ran, as after a boot
    since: datetime | None = None  # our clock: when that start was first seen
    begun: datetime | None = None  # the host's clock: when it began
    restarts: int = 0
    by_itself: bool = False  # systemd made that start
    policy: str = "no"  # when systemd starts it again
    boot: str | None = None
    booted: datetime | None = None  # since when the unit is awaited after a boot
    absent: bool = False  # it did not come up with its host
    died: InvocationId | None = None  # the start whose end was noticed
    broke: InvocationId | None = None  # the start before, of whose end the next one alone tells
    fatal: InvocationId | None = None  # the start of which the log said that it cannot live
    stopping: bool = False  # systemd was asked to stop that start
    scheduled: int | None = None  # systemd has said that it starts it again: the counter then
    unseen: datetime | None = None


@dataclass(slots=True)
class Follow:
    """A startup that the watch wanted followed, until an operation answers to it."""

    invocation: InvocationId
    how: How
    asked: datetime


@dataclass(slots=True)
class Mute:
    """`host`: it was said of the whole host, and of this service with it."""

    until: datetime
    by: UserId | None = None
    reason: str = ""
    host: HostName | None = None


@dataclass(slots=True)
class Under:
    """An operation of ours on the service. `asked`: somebody in chat asked for it."""

    operation: OperationId
    verb: Verb
    asked: bool
    since: datetime
    how: How | None = None
    missed: datetime | None = None  # since when no check found it under way any more


@dataclass(slots=True)
class WatchState:
    standing: WatchStanding = WatchStanding.UNKNOWN
    since: datetime | None = None
    served: bool = False  # it was seen serving, so its loss is an outage
    last_healthy: datetime | None = None
    members: dict[Member, MemberWatch] = field(default_factory=dict)
    signs: list[Sign] = field(default_factory=list)  # of what is suspected, oldest first
    fails: int = 0  # checks in a row
    missed: list[datetime] = field(default_factory=list)  # checks that failed, in a row or not, newest last
    goods: int = 0
    good_since: datetime | None = None
    smoke_fails: int = 0
    smoke_failed: datetime | None = None  # the first of them
    smoke_asked: datetime | None = None
    cut: int = 0  # checks in a row that only the host itself could make
    slow: int = 0  # smoke tests in a row that were far too slow
    waiting: list[int] = field(default_factory=list)  # requests in the queue, newest last
    crowded: int = 0  # looks in a row at a KV cache without room, with requests waiting
    full: list[datetime] = field(default_factory=list)  # when the log said that the KV cache is full
    worst: dict[SignKind, datetime] = field(default_factory=dict)  # the last sign of each that it is degraded
    stopped: datetime | None = None  # inactive since, and not taken for a stop yet
    stopped_how: str = ""
    operation: Under | None = None
    untold: Sign | None = None  # of an end amid an operation, which tells it if it is ever heard of again
    follow: Follow | None = None
    followed: int = 0  # starts by systemd, in this outage
    longest: timedelta = timedelta()  # that such a start lived which then died
    incident: IncidentId | None = None
    severity: Severity | None = None  # of the open incident; None: none is open
    told: datetime | None = None  # when it last was told that it is down, or degraded
    waived: bool = False  # it is down and somebody knows: no incident until it serves again
    times: int = 0  # how often it went down in that incident
    recovered: datetime | None = None  # when the last incident was over
    mute: Mute | None = None  # the one that lasts longest
    beneath: list[Mute] = field(default_factory=list)  # the others that hold, longest first


def kept(state: WatchState) -> tuple[Any, ...]:
    """What must be on record before the process may die; equal means: nothing to write."""
    members = tuple(
        (
            each.invocation,
            each.died,
            each.stopping,
            each.boot,
            each.restarts,
            each.absent,
            each.fatal,
            each.idle,
        )
        for each in state.members.values()
    )
    operation = state.operation and (state.operation.operation, state.operation.missed)
    follow = state.follow and state.follow.invocation
    mutes = state.mute and (state.mute, *state.beneath)
    ails = tuple((kind, int(at.timestamp()) // _COARSE) for kind, at in state.worst.items())
    return (
        (state.standing, state.served, state.waived, state.severity, state.incident, state.recovered),
        (
            state.times,
            state.followed,
            state.longest,
            len(state.signs),
            state.untold,
            state.stopped,
            operation,
            follow,
            mutes,
        ),
        (min(state.smoke_fails, 2), min(state.slow, 2), min(state.cut, 2), ails),
        members,
    )


@dataclass(frozen=True, slots=True)
class HostPlan:
    """`services`: those whose first member is there, `others`: those with a further member there.

    `direct`: of `services` those that answer without SSH, and how often each is asked.
    """

    host: HostName
    services: tuple[ServiceName, ...]
    direct: dict[ServiceName, timedelta] = field(default_factory=dict)
    others: tuple[ServiceName, ...] = ()
    every: timedelta = timedelta(seconds=15)
    failures: int = 3
    successes: int = 2
    escalate_after: timedelta | None = None
    group: str | None = None


class Sight(StrEnum):
    """What can be seen of a host."""

    SEEN = "seen"
    DOUBTFUL = "doubtful"  # SSH fails, for how long is not decided
    HALF = "half"  # SSH tells nothing, and yet the host is there: something answers, or refuses
    GONE = "gone"


@dataclass(slots=True)
class HostState:
    sight: Sight = Sight.SEEN
    seen: bool = False  # it was, since the watch began
    last_seen: datetime | None = None
    fails: int = 0
    goods: int = 0
    good_since: datetime | None = None
    good: datetime | None = None  # the newest that was counted
    failing_since: datetime | None = None
    failed: datetime | None = None  # the newest failure that was counted
    error: str = ""
    # The newest look at each service past SSH: it was answered, its port refused it, or nothing came.
    answers: dict[ServiceName, datetime] = field(default_factory=dict)
    refused: dict[ServiceName, datetime] = field(default_factory=dict)
    silent: dict[ServiceName, datetime] = field(default_factory=dict)
    barred: str = ""  # what SSH last did instead of not answering
    barred_at: datetime | None = None
    alive_at: datetime | None = None  # the newest that showed that the host is there, though SSH told nothing
    shows: str = ""  # how that looked at the last failure that was counted,
    shows_since: datetime | None = None
    alike: int = 0  # and at how many in a row
    told: list[str] = field(default_factory=list)  # of that, what the incident was told
    headline: str = ""  # what it shows of that at present
    affected: tuple[ServiceName, ...] = ()  # as it was told
    incident: IncidentId | None = None
    severity: Severity | None = None
    told_at: datetime | None = None  # when it last was told that the host is gone, or out of sight
    recovered: datetime | None = None
    waived: bool = False  # a person closed the incident: nothing is opened until the host was seen,
    waives: Severity | None = None  # but for what is worse than that one was; None: for nothing
    mute: Mute | None = None
    leads: bool = False  # its incident tells that its process reaches no host at all
    waits: bool = False  # that of another host does

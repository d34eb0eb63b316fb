"""What an incident is told when it opens, and all it must remember: plain data for a record."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NewType

from bot.core.account import Changed
from bot.core.events import HostName, InvocationId, Member, OperationId, PhaseId, Role, ServiceName, UserId

IncidentId = NewType("IncidentId", str)  # 32 hex digits; people say the first of them

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://kimi-bot/incident")
_TRACEBACK = ": Traceback (most recent call last):"
SHORT_ID = 8  # hex digits that people see and say
FLAP_WINDOW = timedelta(minutes=30)  # down again within it: the same incident
# How long one that is over can be taken up again: what its watch told in time may have to wait for Redis.
LINGER = FLAP_WINDOW + timedelta(minutes=30)


def incident_of(subject: str, opened: datetime) -> IncidentId:
    """The same for one outage, whichever process opens it, and however often."""
    return IncidentId(uuid.uuid5(_NAMESPACE, f"{subject} {opened.isoformat()}").hex)


def short_id(incident: IncidentId) -> str:
    return incident[:SHORT_ID]


class Severity(StrEnum):
    DEGRADED = "degraded"  # it serves, but not as it should; told, nobody is called
    DOWN = "down"  # one service does not serve
    HOST = "host"  # a host is gone, or out of sight, with all that runs there


class SignKind(StrEnum):
    """What shows that something is wrong."""

    PROCESS = "process"  # the main process ended, or systemd calls the unit failed
    LOOP = "loop"  # systemd starts it over and over
    FATAL = "fatal"  # the log says something the engine does not survive
    PROBE = "probe"  # the readiness probe fails
    SMOKE = "smoke"  # a real completion fails
    START = "start"  # a startup nobody in chat asked for came to nothing
    REBOOT = "reboot"  # the host came back and the unit did not
    SIGHT = "sight"  # a host does not answer
    HIDDEN = "hidden"  # a host is there, and tells nothing of what runs on it
    NETWORK = "network"  # no host answers, so that they may all be there
    SLOW = "slow"  # completions take far longer than usual
    QUEUE = "queue"  # requests pile up
    MEMORY = "memory"  # the KV cache is full
    WATCHDOG = "watchdog"  # the engine's own watchdog speaks
    GPU = "gpu"  # the driver reports a fault (Xid)


OUT_OF_SIGHT = frozenset({SignKind.HIDDEN, SignKind.NETWORK})  # nobody can say that such a host is gone


@dataclass(frozen=True, slots=True)
class Sign:
    """One thing that shows it, seen `at` by our clock. `sentence`: plain, without a mark at its end.

    `evidence`: the lines or answers themselves, the best one first.
    """

    kind: SignKind
    at: datetime
    sentence: str
    member: Member | None = None
    evidence: tuple[str, ...] = ()

    @property
    def brief(self) -> str:
        """Without what only begins something longer: a traceback is shown, or its last line is the cause."""
        return self.sentence.removesuffix(_TRACEBACK)


class How(StrEnum):
    """How a startup began that nobody in chat asked for."""

    SYSTEMD = "systemd"  # by systemd itself, after a crash
    BOOT = "boot"  # with its host
    OUTSIDE = "outside"  # by someone or something outside chat; who is logged in cannot be known


@dataclass(frozen=True, slots=True)
class IncidentPlan:
    """One incident as it was opened; never changes.

    `began`: when the first sign was seen; `opened`: when there were enough. `signs`: in the order they were
    seen. `service` None: a host's own. `invocations`: what ran when it broke. `affected`: of a host, the
    services that cannot be seen. `group`: of Slack, called after `escalate_after` without an acknowledgement.
    """

    incident: IncidentId
    subject: str  # the service's name, or the host's
    host: HostName
    severity: Severity
    began: datetime
    opened: datetime
    signs: tuple[Sign, ...]
    service: ServiceName | None = None
    members: tuple[Member, ...] = ()
    invocations: dict[Member, InvocationId] = field(default_factory=dict)
    affected: tuple[ServiceName, ...] = ()
    last_healthy: datetime | None = None
    restarts_itself: bool | None = None  # whether systemd starts it again; None: not known
    host_answers: bool = True
    muted: datetime | None = None  # until when
    escalate_after: timedelta | None = None
    group: str | None = None


class Ending(StrEnum):
    """How an incident ended."""

    RECOVERED = "recovered"  # it serves again
    BY_HAND = "by hand"  # a person closed it
    STOPPED = "stopped"  # someone stopped the service
    UNWATCHED = "unwatched"  # nobody looks any more: how it is, nobody knows


class EntryKind(StrEnum):
    """Of what a line of the timeline tells."""

    SIGN = "sign"
    OPENED = "opened"
    LOG = "log"
    CHANGES = "changes"
    ATTEMPT = "attempt"
    START = "start"
    PERSON = "person"
    ESCALATED = "escalated"
    WORSE = "worse"
    RECOVERED = "recovered"
    AGAIN = "again"
    GAP = "gap"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the timeline. `sentence`: plain, without the person, who stands in `by`."""

    at: datetime
    kind: EntryKind
    sentence: str
    by: UserId | None = None


@dataclass(frozen=True, slots=True)
class RunRead:
    """What the log of one run tells of its end. `cause`: a title, "" where no line says why.

    `excerpt`: the lines before the end, oldest first. `lasted`: from its first line to its last.
    """

    cause: str = ""
    means: str = ""
    advice: str = ""
    evidence: tuple[str, ...] = ()
    phase: PhaseId | None = None  # None: it served
    role: Role = Role.TARGET
    rank: str | None = None
    excerpt: tuple[str, ...] = ()
    lasted: timedelta | None = None

    @property
    def is_known(self) -> bool:
        return bool(self.cause)


@dataclass(slots=True)
class Attempt:
    """One start that systemd made by itself during the outage, once it has died."""

    number: int
    member: Member
    invocation: InvocationId
    ended: datetime
    lasted: timedelta | None = None
    read: RunRead | None = None
    told: bool = False


@dataclass(slots=True)
class StartNote:
    """A startup that was followed during the outage: its own thread tells it."""

    operation: OperationId
    began: datetime
    by: UserId | None = None
    how: How | None = None
    link: str | None = None
    ended: datetime | None = None
    verdict: str | None = None
    took: timedelta | None = None


@dataclass(slots=True)
class IncidentState:
    severity: Severity
    signs: list[Sign] = field(default_factory=list)
    timeline: list[Entry] = field(default_factory=list)
    dropped: int = 0  # entries that an endless outage left out of the timeline
    read: RunRead | None = None  # of the run that broke first
    newest: RunRead | None = None  # of the run that broke this time
    read_time: int = 0  # the which time it went down a log was last told of
    asked: list[str] = field(default_factory=list)  # runs whose log was asked for
    changed: Changed | None = None
    attempts: int = 0  # starts by systemd that died
    last_attempts: list[Attempt] = field(default_factory=list)
    starts: list[StartNote] = field(default_factory=list)
    affected: tuple[ServiceName, ...] = ()  # of a host: all that could not be seen at some time
    hidden: tuple[ServiceName, ...] | None = None  # those that cannot now; None: as it was opened
    present: Sign | None = None  # what stands now: the first sign of this time; None: as it was opened
    acked_by: UserId | None = None
    acked: datetime | None = None
    acked_before: UserId | None = None  # who was on it before it last went down
    muted: datetime | None = None
    escalated: datetime | None = None
    worse: datetime | None = None  # when it became an outage, or had been one from the beginning
    times: int = 1  # how often it was told to be over and was not, and once
    falls: int = 0  # how often it went down; what is only degraded does not
    down_since: datetime | None = None  # None: it serves at present
    last_healthy: datetime | None = None  # before it last went down; None: as it was opened
    downtime: timedelta = timedelta()  # of the times before
    recovered: datetime | None = None  # when its end was told
    over: datetime | None = None  # since when it serves again, where that is known; else the same
    ending: Ending | None = None
    ended_by: UserId | None = None
    ended_why: str = ""  # of one that nobody watches any more, one plain sentence
    closed: bool = False
    lost: bool = False  # its record was, which its thread has not been told yet
    sequence: int = 0
    in_channel: int = 1  # messages in the channel itself; the root is one

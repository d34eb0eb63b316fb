"""What one startup is told at its beginning, and all it must remember: plain data for a record."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from bot.core.account import Failure
from bot.core.actions import Verdict
from bot.core.baseline import Usual
from bot.core.changes import LastHealthy
from bot.core.events import (
    InvocationId,
    LogLine,
    Member,
    OperationId,
    PhaseId,
    ProbeAnswer,
    Role,
    ServiceName,
    SmokeResult,
    UnitState,
    UserId,
    Verb,
)
from bot.core.marker import Marker, MarkerState
from bot.core.patience import Silence
from bot.core.recognition import RecognitionState
from bot.core.setup import Setup
from bot.core.suspect import SuspectsState
from bot.core.trace import Trace
from bot.core.whereabouts import TrackerState


@dataclass(frozen=True, slots=True)
class Plan:
    """One operation as it was asked for; never changes.

    `before` holds each member's InvocationID as it was before the verb: what comes from that run is old.
    A watch has no before; whatever runs is what is watched, `follows` where that was seen.
    """

    operation: OperationId
    service: ServiceName
    verb: Verb
    members: tuple[Member, ...]
    by: UserId | None
    reason: str
    began: datetime
    model: str | None = None
    ranks: int | None = None
    stable_for: timedelta = timedelta(seconds=30)
    give_up_after: timedelta = timedelta(hours=2)
    patience: dict[PhaseId, timedelta] = field(default_factory=dict)
    smoke: bool = True
    usual: Usual = field(default_factory=Usual)
    before: dict[Member, InvocationId | None] = field(default_factory=dict)
    follows: dict[Member, InvocationId] = field(default_factory=dict)
    ran: tuple[Member, ...] = ()  # those that ran when the verb was asked for
    last: LastHealthy | None = None  # what this start's setup is compared with
    markers: tuple[Marker, ...] = ()


class Sent(StrEnum):
    """What became of the verb at one member."""

    NOT = "not"  # a watch sends nothing
    UNDERWAY = "underway"  # ordered, no answer yet
    ACCEPTED = "accepted"  # systemd enqueued it
    UNANSWERED = "unanswered"  # it went out and the link was lost
    SETTLED = "settled"  # a new start, or the job itself, was seen


class Downfall(StrEnum):
    """How a startup goes wrong, weakest evidence first: a later kind takes the place of an earlier."""

    SMOKE = "smoke"  # the smoke test failed; the unit may turn out to have died of it
    VANISHED = "vanished"  # a rank's process is gone while the others live on
    FATAL = "fatal"  # the log says something the engine does not survive
    REPLACED = "replaced"  # another start of the unit took the place of the one that was watched
    DOWN = "down"  # the unit ended
    LOOPING = "looping"  # it ended and systemd starts it again by itself
    REBOOTED = "rebooted"  # its host was, and the other members wait for it in vain


@dataclass(slots=True)
class Fall:
    """A failure that was seen; the verdict waits a little for the rest of the story."""

    kind: Downfall
    member: Member | None
    since: datetime  # our clock
    sentence: str  # why, should nothing better be found
    ended: datetime | None = None  # since when both the unit's end and systemd's lines about it are known


@dataclass(slots=True)
class MemberState:
    """One unit on one host."""

    unit_name: str = ""
    sent: Sent = Sent.NOT
    sent_at: datetime | None = None  # since when we wait for the verb to show an effect
    old: list[InvocationId] = field(default_factory=list)
    invocation: InvocationId | None = None  # the start that is watched
    provisional: bool = False  # seen before the verb was accepted: it may still be the run before
    unit: UnitState | None = None
    unit_at: datetime | None = None
    restarts: int | None = None  # NRestarts when the watched start was first seen
    counter: int | None = None  # restart counter as systemd told it since
    boot: str | None = None  # which the host is in
    boots: list[str] = field(default_factory=list)  # which it was in before
    rebooted: datetime | None = None  # since when the start after a boot is waited for
    exit: str | None = None  # systemd's words: "killed, status=9/KILL"
    result: str | None = None  # "signal", "exit-code", "oom-kill", …
    limited: bool = False  # systemd starts it no more: it was started too often
    stopping: bool = False  # a stop of the watched start was asked for, and not by us
    lost: str | None = None
    lost_since: datetime | None = None
    lost_told: bool = False
    unseen: datetime | None = None  # our clock: from when on its log was not read as it was written
    missed: dict[str, datetime] = field(default_factory=dict)  # by log: up to when lines were told to be gone
    heard: datetime | None = None  # when its last line arrived
    late: bool = False  # that line was written long before
    offset: timedelta | None = None  # our clock minus the host's, latency included
    marked: UnitState | None = None  # as it was at the last progress, to tell what moved since
    marked_at: datetime | None = None
    trace: Trace = field(default_factory=Trace)  # what its host measured
    chosen: list[int] = field(default_factory=list)  # processes of the unit that the OOM killer picked
    spared: list[int] = field(default_factory=list)  # those of others
    killed: list[str] = field(default_factory=list)  # the kernel's lines about that, the best one first
    begun: datetime | None = None  # the host's clock when the watched start began
    held: list[LogLine] = field(default_factory=list)  # of a log file, before systemd's word about the start


@dataclass(slots=True)
class Proof:
    """What is known about readiness, and what was asked and not yet answered."""

    said: datetime | None = None  # the log said ready; our clock
    said_on_host: datetime | None = None
    asked: datetime | None = None  # when a probe was last ordered
    out: bool = False  # it was not answered yet
    renewed: datetime | None = None  # when the newest start was first seen; our clock
    log_first: datetime | None = None  # until then the log may still tell what led to a healthy answer
    answer: ProbeAnswer | None = None
    answered: datetime | None = None
    foreign: int = 0  # answers in a row, since the log said ready, from a socket of another process
    unlisted: datetime | None = None  # since when health is 200 and the model is not listed
    since: datetime | None = None  # unit, socket, health and model hold since
    smoke_asked: datetime | None = None
    smoke: SmokeResult | None = None


@dataclass(slots=True)
class SetupState:
    """What the watched start runs with, as far as it was asked and told."""

    asked: list[Member] = field(default_factory=list)
    answered: list[Member] = field(default_factory=list)
    since: datetime | None = None  # when the first was asked
    seen: dict[Member, Setup] = field(default_factory=dict)
    told: bool = False  # what changed was told, or there was nothing to tell


@dataclass(frozen=True, slots=True)
class Moved:
    """What ended a stall."""

    at: datetime
    phase: PhaseId
    role: Role
    silent: timedelta
    sign: str


@dataclass(slots=True)
class StartupState:
    tracker: TrackerState
    suspects: SuspectsState
    silence: Silence
    members: dict[Member, MemberState]
    recognition: RecognitionState = field(default_factory=RecognitionState)  # where no engine is named
    proof: Proof = field(default_factory=Proof)
    fall: Fall | None = None
    sequence: int = 0
    lines: int = 0  # of the watched start
    last_lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)  # keys of phases whose slowness was told
    weights: str | None = None  # their folder on the hosts, or a hub's name
    verdict: Verdict | None = None
    ended: datetime | None = None
    failed_phase: str | None = None  # key of the phase it failed in
    cause: str | None = None
    failure: Failure | None = None
    setup: SetupState = field(default_factory=SetupState)
    markers: MarkerState = field(default_factory=MarkerState)
    moved: Moved | None = None  # a stall that was told ended, which was not told yet

"""The orders the core gives, and what it wants told: views of the present and replies about the past."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

from bot.core.changes import Change
from bot.core.events import (
    HostName,
    Member,
    OperationId,
    PhaseId,
    Rank,
    Role,
    ServiceName,
    SmokeResult,
    UserId,
    Verb,
)
from bot.core.marker import Hit


class Verdict(StrEnum):
    """How an operation ended."""

    HEALTHY = "healthy"
    FAILED = "failed"
    STOPPED = "stopped"  # a stop that was asked for is done
    UNWATCHED = "unwatched"  # a person stopped following; the service is left alone
    SUPERSEDED = "superseded"  # a person began another operation


class Pace(StrEnum):
    MOVING = "moving"
    SLOW = "slow"
    QUIET = "quiet"
    STALLED = "stalled"


class Mark(StrEnum):
    """Where one phase stands."""

    DONE = "done"
    NOW = "now"
    AHEAD = "ahead"
    STALLED = "stalled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Progress:
    done: int
    total: int

    @property
    def fraction(self) -> float:
        return self.done / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class PhaseView:
    phase: PhaseId
    role: Role
    mark: Mark
    took: timedelta | None = None  # so far, or in all when done
    usual: timedelta | None = None
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class RankView:
    rank: Rank
    phase: PhaseId
    role: Role
    ended: bool = False  # this rank has ended that phase


@dataclass(frozen=True, slots=True)
class StartupView:
    """The present of one operation: all the root message needs."""

    operation: OperationId
    service: ServiceName
    verb: Verb
    hosts: tuple[HostName, ...]
    by: UserId | None  # None: nobody in chat
    reason: str
    began: datetime
    elapsed: timedelta
    phase: PhaseId
    role: Role
    in_phase: timedelta
    pace: Pace
    phases: tuple[PhaseView, ...]
    ranks: tuple[RankView, ...] = ()
    expected_ranks: int | None = None
    eta: timedelta | None = None  # to ready; None where it is not known
    eta_span: tuple[timedelta, timedelta] | None = None  # the least and the most it may be
    # Where this phase outlasts all that is known of it, there is no eta: only what usually comes after it.
    eta_after: timedelta | None = None
    eta_phase: timedelta | None = (
        None  # to the end of this phase, by its bar, where no healthy start is known
    )
    last_sign: timedelta | None = None  # age of the last sign of life
    usual: timedelta | None = None  # whole start
    usual_phase: timedelta | None = None
    lost: str | None = None  # why the host cannot be seen at present
    measured: str = ""  # what the hosts measure of this phase: "412 GB of 547 GB read, 1.9 GB/s"
    share: float | None = None  # how much of the phase that is, where the log shows no bar
    notes: tuple[str, ...] = ()  # evidence, one short plain sentence each
    verdict: Verdict | None = None
    cause: str | None = None  # of a failure, one plain sentence


@dataclass(frozen=True, slots=True)
class RankTime:
    rank: Rank
    took: timedelta


@dataclass(frozen=True, slots=True)
class PhaseFinished:
    phase: PhaseId
    role: Role
    took: timedelta
    usual: timedelta | None = None
    slowest: RankTime | None = None  # only where ranks ended apart enough to matter
    fastest: RankTime | None = None
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class StallReported:
    """Everything needed to judge a stall."""

    phase: PhaseId
    role: Role
    silent: timedelta  # since the last progress
    patience: timedelta
    in_phase: timedelta
    longest: timedelta | None = None  # silence of this phase in a healthy start
    progress: Progress | None = None
    lagging: tuple[Rank, ...] = ()  # ranks that have not ended the phase
    ranks: tuple[RankView, ...] = ()
    last_lines: tuple[str, ...] = ()  # last distinct readings, oldest first
    evidence: tuple[str, ...] = ()  # plain sentences with numbers


@dataclass(frozen=True, slots=True)
class MovedAgain:
    phase: PhaseId
    role: Role
    silent: timedelta
    sign: str  # what moved: the line, or the evidence


@dataclass(frozen=True, slots=True)
class SmokeUsual:
    """What the smoke test of this service usually measures."""

    first_token: float | None = None
    tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class SetupChanged:
    """Against the last healthy start, proven at `since`; `stale`: whose unit files systemd has not read."""

    changes: tuple[Change, ...]
    since: datetime | None = None
    stale: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkerSeen:
    hit: Hit


@dataclass(frozen=True, slots=True)
class VerdictReached:
    verdict: Verdict
    phase: PhaseId
    role: Role
    took: timedelta
    usual: timedelta | None
    phases: tuple[PhaseView, ...]  # for the table of durations
    cause: str | None = None  # plain sentence
    root_error: str | None = None  # the first root error line, quoted as the log has it
    rank: Rank | None = None
    speaker: Rank | None = None  # who wrote `root_error`, where that is not `rank`
    advice: str | None = None
    means: str | None = None  # what such a failure is
    also: str | None = None  # another failure, apart from it
    model: str | None = None
    smoke: SmokeResult | None = None
    by: UserId | None = None  # who ended it, where a person did
    smoke_usual: SmokeUsual = field(default_factory=SmokeUsual)
    setup: SetupChanged | None = None  # what a failure's start ran with that the last healthy one did not
    markers: dict[str, int] = field(default_factory=dict)  # hits that no reply told
    loops: bool = False  # systemd starts it again by itself, until someone stops it


@dataclass(frozen=True, slots=True)
class Noticed:
    """A fact that deserves a reply of its own: connection lost, command unanswered, patience extended."""

    sentence: str
    by: UserId | None = None


@dataclass(frozen=True, slots=True)
class Resumed:
    """kimi itself was away: another process follows this operation now."""

    away: timedelta


@dataclass(frozen=True, slots=True)
class LogGap:
    """What a host's log does not hold any more; `path` of a log file, None for the journal."""

    host: HostName
    since: datetime
    until: datetime | None
    path: str | None = None


Reply: TypeAlias = (
    PhaseFinished
    | StallReported
    | MovedAgain
    | SetupChanged
    | MarkerSeen
    | VerdictReached
    | Noticed
    | Resumed
    | LogGap
)


@dataclass(frozen=True, slots=True)
class EditRoot:
    """Show the present; newest wins."""

    view: StartupView


@dataclass(frozen=True, slots=True)
class PostReply:
    """Say once what happened. `sequence` counts the replies of an operation: its identity in the outbox."""

    sequence: int
    reply: Reply
    broadcast: bool = False  # shown in the channel too


@dataclass(frozen=True, slots=True)
class UploadTail:
    """Post the whole decoded log of this start as a file into the thread."""

    sequence: int
    why: str  # one short plain sentence, told with the file


@dataclass(frozen=True, slots=True)
class UploadStacks:
    """Ask the hosts where each rank's process stands in its code, and post it into the thread as a file."""

    sequence: int
    processes: dict[Member, dict[Rank, int]]


@dataclass(frozen=True, slots=True)
class UploadPicture:
    """Draw where the time of this start went, and post it into the thread."""


@dataclass(frozen=True, slots=True)
class SendVerb:
    """Tell the member's systemd, once."""

    member: Member
    verb: Verb


@dataclass(frozen=True, slots=True)
class SettleVerb:
    """Find out whether what the process before had under way reached the member's systemd.

    Answered as the order itself is, or with VerbMissed.
    """

    member: Member


@dataclass(frozen=True, slots=True)
class LookAtSetup:
    """Ask the member's host what the watched start runs with."""

    member: Member


@dataclass(frozen=True, slots=True)
class ProbeNow:
    """Ask the engine at once; nobody waits for a poll."""


@dataclass(frozen=True, slots=True)
class RunSmoke:
    pass


@dataclass(frozen=True, slots=True)
class Close:
    """The operation is over: close the record, release the lock, learn the durations when healthy."""

    verdict: Verdict
    durations: dict[str, float] = field(default_factory=dict)  # "weights" or "weights/draft" → seconds
    silences: dict[str, float] = field(default_factory=dict)  # the longest of each phase, in the same way
    speeds: dict[str, float] = field(default_factory=dict)  # of the smoke test


Action: TypeAlias = (
    EditRoot
    | PostReply
    | UploadTail
    | UploadStacks
    | UploadPicture
    | SendVerb
    | SettleVerb
    | LookAtSetup
    | ProbeNow
    | RunSmoke
    | Close
)

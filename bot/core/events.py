"""The facts the core is told: ids, log lines, unit states, probe answers, and the events that carry them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NewType, TypeAlias

from bot.core.setup import Setup

ServiceName = NewType("ServiceName", str)
HostName = NewType("HostName", str)
UnitName = NewType("UnitName", str)
Member = NewType("Member", str)  # "host/unit": one unit on one host, a part of a service
OperationId = NewType("OperationId", str)  # one startup, one stop: the id of its record, thread and outbox
InvocationId = NewType("InvocationId", str)  # 32 hex digits, new at each start of a unit
Cursor = NewType("Cursor", str)  # journald's `__CURSOR`
Rank = NewType(
    "Rank", str
)  # as the engine names it: "TP5", "DP0 TP5", "rank6"; "main" for the parent process
UserId = NewType("UserId", str)
ChannelId = NewType("ChannelId", str)
MessageTs = NewType("MessageTs", str)

MAIN_RANK = Rank("main")


class Verb(StrEnum):
    """What an operation does to the unit; WATCH and ADOPT do nothing to it."""

    RESTART = "restart"
    START = "start"
    STOP = "stop"
    WATCH = "watch"


class PhaseId(StrEnum):
    """Canonical phases, the same for every engine. Their usual order is PHASE_ORDER; none is enforced."""

    STOPPING = "stopping"
    PROCESS = "process"
    DISTRIBUTED = "distributed"
    WEIGHTS = "weights"
    MEMORY = "memory"
    COMPILE = "compile"
    GRAPHS = "graphs"
    SERVER = "server"
    WARMUP = "warmup"
    SMOKE = "smoke"
    READY = "ready"


PHASE_ORDER: tuple[PhaseId, ...] = tuple(PhaseId)  # for display only


class Role(StrEnum):
    """Which model a phase is about: the target, or the draft of speculative decoding."""

    TARGET = "target"
    DRAFT = "draft"


class Origin(StrEnum):
    """Who wrote a line."""

    SERVICE = "service"  # a process of the unit
    MANAGER = "manager"  # systemd (PID 1, or the user manager) about the unit
    JOURNALD = "journald"  # journald itself: "Suppressed N messages"
    KERNEL = "kernel"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log, decoded and redacted.

    `text` is all of it, redraws and colour kept: for files. `reading` is what a person would see at the
    end: the last state of a bar, no ANSI, no C0 controls but tab: for markers and for chat. `at` is the
    host's clock, for durations only; a stall is judged by our own clock at arrival. `partial` marks the
    beginning of a line whose rest has not come yet (`_LINE_BREAK=pid-change`); the whole comes later, so a
    partial line is read for progress but never stored in a tail.
    """

    text: str
    reading: str
    at: datetime | None = None
    cursor: Cursor | None = None
    pid: int | None = None
    origin: Origin = Origin.SERVICE
    invocation: InvocationId | None = None
    boot: str | None = None
    partial: bool = False
    masked: int = 0  # how many places redaction masked in `text`
    fields: Mapping[str, str] = field(default_factory=dict)  # MESSAGE_ID, EXIT_STATUS, N_RESTARTS, …


@dataclass(frozen=True, slots=True)
class UnitState:
    """What one `systemctl show` said. Counters are None where the host answers `[not set]`."""

    load: str  # loaded, not-found, masked, …
    active: str  # active, activating, deactivating, failed, inactive
    sub: str  # running, auto-restart, stop-sigterm, dead, …
    result: str = "success"  # exit-code, signal, oom-kill, start-limit-hit, …
    invocation: InvocationId | None = None
    job: int | None = None  # a pending job's number
    restarts: int = 0  # NRestarts: automatic ones since the last manual start
    main_pid: int = 0
    exec_code: int = 0  # 0 running, 1 exited, 2 killed, 3 dumped
    exec_status: int = 0  # exit status or signal number
    need_daemon_reload: bool = False
    restart_policy: str = "no"
    cpu: timedelta | None = None
    memory: int | None = None  # bytes
    tasks: int | None = None
    read: int | None = None  # bytes read from disk
    active_since: datetime | None = None

    @property
    def looping(self) -> bool:
        """Systemd waits to start it again after a crash; such a unit never shows as failed."""
        return self.active == "activating" and self.sub.startswith("auto-restart")

    @property
    def down(self) -> bool:
        return self.active in {"failed", "inactive"}


@dataclass(frozen=True, slots=True)
class ProcessSeen:
    """A process of the unit that goes by a title of its own; `rank` as the log names it, where it is one.

    `leads`: it is a core, which leads ranks of its own where it has any.
    """

    pid: int
    title: str
    rank: Rank | None = None
    leads: bool = False


@dataclass(frozen=True, slots=True)
class ShardMapped:
    """The furthest file of the weights that a process has mapped: the 12th of 64."""

    number: int
    total: int


@dataclass(frozen=True, slots=True)
class Gpu:
    """Bytes, and per cent of the last moments; None where the driver does not tell."""

    index: int
    used: int | None
    total: int | None
    utilisation: int | None


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a unit, begun `at`, by our clock.

    Every value may be missing; `refused` names in plain words what the host does not let us see. `processes`
    is None where they could not be listed, `read` is in bytes since the start, `model_size` in bytes on disk.
    """

    at: datetime
    invocation: InvocationId | None = None
    cpu: timedelta | None = None
    memory: int | None = None
    tasks: int | None = None
    read: int | None = None
    processes: tuple[ProcessSeen, ...] | None = None
    shard: ShardMapped | None = None
    gpus: tuple[Gpu, ...] | None = None
    model_size: int | None = None
    refused: tuple[str, ...] = ()

    @property
    def ranks(self) -> dict[Rank, int]:
        """The processes that are ranks, by their names, with their pids.

        Cores may give their workers the same names. More of a name than there are cores are one rank and what
        it forked.
        """
        named: dict[Rank, list[int]] = {}
        for each in self.processes or ():
            if each.rank is not None:
                named.setdefault(each.rank, []).append(each.pid)
        cores = sum(each.leads for each in self.processes or ())
        return {
            Rank(f"pid{pid} {rank}") if 1 < len(pids) <= cores else rank: pid
            for rank, pids in named.items()
            for pid in sorted(pids, reverse=True)
        }

    @property
    def gpu_memory(self) -> int | None:
        """Bytes used on all of them."""
        told = [gpu.used for gpu in self.gpus or () if gpu.used is not None]
        return sum(told) if told else None


PORT_REFUSED = "connection refused"


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """What the engine answered. `health` is an HTTP status; None with `error` when there was no answer."""

    health: int | None = None
    models: tuple[str, ...] | None = None  # ids of /v1/models; None: not asked or no proper answer
    models_status: int | None = None  # HTTP status of /v1/models
    listener: bool | None = None  # the port's listener belongs to the unit; None: the host does not tell
    error: str | None = None  # PORT_REFUSED, "timed out", "answered what is not HTTP"

    @property
    def is_refused(self) -> bool:
        """Nothing listens there, as only the kernel of a host that runs can say."""
        return self.health is None and self.error == PORT_REFUSED


@dataclass(frozen=True, slots=True)
class SmokeResult:
    """A real completion. `error` says in one sentence what was wrong; durations in seconds.

    `busy`: it was turned away, as there are too many requests already.
    """

    passed: bool
    error: str | None = None
    busy: bool = False
    first_token: float | None = None
    tokens_per_second: float | None = None
    answer: str = ""
    tool_call: bool | None = None  # None: not asked for
    reasoning: bool | None = None


@dataclass(frozen=True, slots=True)
class VerbSent:
    """`systemctl VERB --no-block` was accepted by the member's systemd."""

    member: Member


@dataclass(frozen=True, slots=True)
class VerbRefused:
    """It was not done, and `error` says why and the way out."""

    member: Member
    error: str


@dataclass(frozen=True, slots=True)
class VerbMissed:
    """What a process that is gone had under way never reached systemd, and cannot any more.

    `asked`: when that was asked.
    """

    member: Member
    asked: datetime


@dataclass(frozen=True, slots=True)
class VerbUnanswered:
    """It was sent and the link was lost: InvocationID and Job must tell. It is never sent again."""

    member: Member
    error: str


@dataclass(frozen=True, slots=True)
class LineRead:
    member: Member
    line: LogLine


@dataclass(frozen=True, slots=True)
class UnitObserved:
    member: Member
    unit: UnitState
    boot: str | None = None


@dataclass(frozen=True, slots=True)
class EvidenceSampled:
    """What the member's host measured."""

    member: Member
    sample: Sample


@dataclass(frozen=True, slots=True)
class SetupSeen:
    """What the member runs with, as its host told; None where it did not."""

    member: Member
    setup: Setup | None


@dataclass(frozen=True, slots=True)
class ProbeAnswered:
    """`asked`: by our clock, before the first question went out; None where nobody noted it."""

    answer: ProbeAnswer
    asked: datetime | None = None


@dataclass(frozen=True, slots=True)
class SmokeFinished:
    result: SmokeResult


@dataclass(frozen=True, slots=True)
class HostLost:
    """The connection to a member's host, or its journal, went away."""

    member: Member
    error: str


@dataclass(frozen=True, slots=True)
class HostRestored:
    member: Member


@dataclass(frozen=True, slots=True)
class LogMissed:
    """The log does not hold any more what was written between two moments of the host's clock.

    `until` None: nor anything since. `path`: of a log file; None: of the journal.
    """

    member: Member
    since: datetime
    until: datetime | None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class PatienceExtended:
    """A person said: keep waiting."""

    by: UserId
    until: datetime


@dataclass(frozen=True, slots=True)
class UnwatchAsked:
    by: UserId


@dataclass(frozen=True, slots=True)
class Superseded:
    """A person started another operation on the service while this one ran."""

    by: UserId
    verb: Verb


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time passed; everything that waits for time looks again."""


Event: TypeAlias = (
    VerbSent
    | VerbRefused
    | VerbMissed
    | VerbUnanswered
    | LineRead
    | UnitObserved
    | EvidenceSampled
    | SetupSeen
    | ProbeAnswered
    | SmokeFinished
    | HostLost
    | HostRestored
    | LogMissed
    | PatienceExtended
    | UnwatchAsked
    | Superseded
    | Ticked
)

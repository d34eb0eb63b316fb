"""The orders an incident gives, its present for the root message, and what its replies tell."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeAlias

from bot.core.account import Changed
from bot.core.actions import Verdict
from bot.core.events import HostName, InvocationId, Member, OperationId, ServiceName, UserId, Verb
from bot.core.incident_events import ServiceStart
from bot.core.incident_state import OUT_OF_SIGHT, Attempt, Ending, How, IncidentId, RunRead, Severity, Sign


@dataclass(frozen=True, slots=True)
class IncidentView:
    """The present of one incident: all the root message needs."""

    incident: IncidentId
    subject: str
    service: ServiceName | None
    host: HostName
    severity: Severity
    began: datetime
    now: datetime
    signs: tuple[Sign, ...]  # the first, then the newest ones
    host_answers: bool = True
    last_healthy: datetime | None = None
    restarts_itself: bool | None = None
    cause: str = ""  # of what is wrong now; of the newest start that died, where that is known
    first_cause: str = ""  # where that was another one
    attempts: int = 0
    last_attempt: Attempt | None = None
    start: OperationId | None = None  # under way
    start_link: str | None = None
    affected: tuple[ServiceName, ...] = ()  # cannot be seen now; once it is over, could not at some time
    present: Sign | None = None  # how it stands now; None: as the first sign says
    worst: Severity | None = None  # of all times together; None: the same as now
    was_hidden: bool = False  # a host that was there all the time, and told nothing
    acked_by: UserId | None = None
    acked_before: UserId | None = None  # it has gone down since
    started_by: UserId | None = None  # in chat, a start that is under way, or the last one there was
    muted: datetime | None = None
    escalated: datetime | None = None
    times: int = 1
    down_since: datetime | None = None
    downtime: timedelta = timedelta()  # in all, up to now
    ending: Ending | None = None
    ended: datetime | None = None
    ended_by: UserId | None = None
    ended_why: str = ""
    in_channel: int = 1  # messages in the channel itself

    @property
    def is_open(self) -> bool:
        return self.ending is None

    @property
    def stands(self) -> Sign | None:
        """What shows how it stands now."""
        return self.present or next(iter(self.signs), None)

    @property
    def is_hidden(self) -> bool:
        """A host that is there, or may be, and of which nothing can be seen."""
        return self.stands is not None and self.stands.kind in OUT_OF_SIGHT


@dataclass(frozen=True, slots=True)
class SignTold:
    sign: Sign


@dataclass(frozen=True, slots=True)
class RunTold:
    """The log around the moment it broke, and what it means."""

    read: RunRead


@dataclass(frozen=True, slots=True)
class ChangesTold:
    changed: Changed


@dataclass(frozen=True, slots=True)
class AttemptTold:
    """`same`: how many in a row died of the same."""

    attempt: Attempt
    same: int = 1


@dataclass(frozen=True, slots=True)
class StartLinked:
    verb: Verb
    by: UserId | None
    how: How | None
    link: str | None


@dataclass(frozen=True, slots=True)
class StartOverTold:
    verdict: Verdict
    took: timedelta
    cause: str | None
    link: str | None


@dataclass(frozen=True, slots=True)
class AckTold:
    by: UserId
    after: timedelta


@dataclass(frozen=True, slots=True)
class MuteTold:
    """`until` None: the mute is over; `by` None: because its time is."""

    by: UserId | None
    until: datetime | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class EscalationTold:
    """Nobody has acknowledged it for that long."""

    group: str | None
    after: timedelta


@dataclass(frozen=True, slots=True)
class WorsenedTold:
    sign: Sign
    severity: Severity = Severity.DOWN


@dataclass(frozen=True, slots=True)
class AgainTold:
    """It went down again, for the `times`-th time; `served`: how long it served in between.

    `times` 1: it was not like that before, only worse or better.
    """

    sign: Sign
    times: int
    served: timedelta | None
    severity: Severity = Severity.DOWN


@dataclass(frozen=True, slots=True)
class StartsTold:
    """Of a host: its services that are started again, each linked once."""

    starts: tuple[ServiceStart, ...]


@dataclass(frozen=True, slots=True)
class AffectedTold:
    """`services`: those that cannot be seen either, now; `total`: how many in all."""

    services: tuple[ServiceName, ...]
    total: int


@dataclass(frozen=True, slots=True)
class GapTold:
    """Its record was lost while nobody lived who knew it: it goes on from what stands in Slack."""


@dataclass(frozen=True, slots=True)
class EndTold:
    """It is over. `downtime`: of all times together; `loading`: how much of it startups took."""

    ending: Ending
    severity: Severity
    after: timedelta  # since the first sign
    downtime: timedelta
    loading: timedelta | None = None
    since: datetime | None = None  # serves again since
    times: int = 1
    cause: str = ""
    by: UserId | None = None
    sentence: str = ""
    worst: Severity | None = None  # of all times together; None: the same as `severity`
    hidden: bool = False  # a host that was there all the time, and told nothing


IncidentReply: TypeAlias = (
    SignTold
    | RunTold
    | ChangesTold
    | AttemptTold
    | StartLinked
    | StartsTold
    | StartOverTold
    | AckTold
    | MuteTold
    | EscalationTold
    | WorsenedTold
    | AgainTold
    | AffectedTold
    | GapTold
    | EndTold
)


@dataclass(frozen=True, slots=True)
class EditIncident:
    """Show the present in the root message; newest wins."""

    view: IncidentView


@dataclass(frozen=True, slots=True)
class PostIncidentReply:
    """Say once what happened. `sequence`: its identity in the outbox. `broadcast`: in the channel too."""

    sequence: int
    reply: IncidentReply
    broadcast: bool = False


@dataclass(frozen=True, slots=True)
class ReadRunLog:
    """Fetch the end of a run's log, about `lines` of it, and what it ran with: `RunLogRead`, `ChangesSeen`.

    `invocation` None: whatever the unit wrote before `until`, by our clock. `changes`: only then is the
    setup wanted.
    """

    member: Member
    invocation: InvocationId | None
    until: datetime
    lines: int = 400
    changes: bool = False


@dataclass(frozen=True, slots=True)
class UploadTimeline:
    """Post the whole story as a Markdown file into the thread: `render_export`."""

    sequence: int


class Told(StrEnum):
    """What other tools are told of an incident."""

    OPENED = "opened"
    UPDATED = "updated"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class SendWebhook:
    """`payload`: plain JSON; `payload["id"]` is the same however often it is sent."""

    told: Told
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class IncidentEnded:
    """It is over, and may be taken up again.

    Where a person did it, or nobody watched any more, its watch is told: `IncidentClosed`.
    """

    ending: Ending
    by: UserId | None = None


@dataclass(frozen=True, slots=True)
class CloseIncident:
    """The record may be closed for good; nothing comes after it."""


IncidentAction: TypeAlias = (
    EditIncident
    | PostIncidentReply
    | ReadRunLog
    | UploadTimeline
    | SendWebhook
    | IncidentEnded
    | CloseIncident
)

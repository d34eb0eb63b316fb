"""What stays known of a startup once it is over: where its time went, and why it failed if it did."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from bot.core.actions import Verdict
from bot.core.events import MAIN_RANK, OperationId, PhaseId, Rank, Role, UserId, Verb

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bot.core.findings import PhaseRecord

APART = timedelta(seconds=1)  # below this, and below a tenth of the time, ranks count as alike
APART_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a startup failed. `cause`: one plain sentence; `means`: what stands behind it, where that is known.

    `evidence`: the lines that say so, the best one first. `also`: another failure, apart from it,
    and `also_rank` whose. `seen`: with which versions this cause is known to come.
    """

    cause: str
    phase: PhaseId
    role: Role
    rank: Rank | None = None
    means: str = ""
    advice: str = ""
    also: str = ""
    evidence: tuple[str, ...] = ()
    seen: str = ""
    also_rank: Rank | None = None


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """Seconds of one phase. `own`: without the time in which another phase ran inside it."""

    phase: PhaseId
    role: Role
    seconds: float
    own: float
    slowest: Rank | None = None  # only where ranks were apart enough to matter


@dataclass(frozen=True, slots=True)
class Changed:
    """What it ran with that the last good start did not, each in the words of its thread: `+ --flag value`.

    `more`: how many there were beside those that are kept. `since`: when the good start was proven.
    """

    told: tuple[str, ...]
    more: int = 0
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """`phases`: in order of beginning; empty where the record is older than accounts are.

    `changed`: None too where nothing was known to compare with, or the record is older than this.
    """

    took: float | None = None
    phases: tuple[PhaseTime, ...] = ()
    failure: Failure | None = None
    engine: str | None = None
    versions: dict[str, str] = field(default_factory=dict)  # of the engine and what it stands on, where known
    changed: Changed | None = None

    @property
    def longest(self) -> PhaseTime | None:
        """Where most of the time went; the last check is a wait of our own choice."""
        timed = [each for each in self.phases if each.phase is not PhaseId.READY]
        return max(timed, key=lambda each: each.own, default=None)


@dataclass(frozen=True, slots=True)
class PastStartup:
    """One line of a service's history."""

    operation: OperationId
    verb: Verb
    verdict: Verdict
    began: datetime
    took: timedelta
    by: UserId | None
    account: Account
    link: str | None = None  # to its thread


def account_of(
    records: Sequence[PhaseRecord], *, until: datetime, took: timedelta, failure: Failure | None, engine: str
) -> Account:
    """`until`: when it ended, on the clock of the records; a phase still open then lasted so long."""
    own = _own_times(records, until)
    times: dict[tuple[PhaseId, Role], PhaseTime] = {}
    for index, record in enumerate(records):
        key = (record.phase, record.role)
        seconds, before = span_seconds(record, until), times.get(key)
        told = slowest_of(rank_times(record, until))
        times[key] = PhaseTime(
            *key,
            seconds=round(seconds + (before.seconds if before else 0.0), 3),
            own=round(own[index] + (before.own if before else 0.0), 3),
            slowest=told or (before.slowest if before else None),
        )
    return Account(round(took.total_seconds(), 3), tuple(times.values()), failure, engine)


def span_seconds(record: PhaseRecord, until: datetime) -> float:
    return max(((record.ended or until) - record.began).total_seconds(), 0.0)


def rank_times(record: PhaseRecord, until: datetime) -> dict[Rank, timedelta]:
    """How long each rank was in the phase; who never left it, until the end. Empty where nobody tells."""
    return {
        rank: max((span.ended or record.ended or until) - span.began, timedelta())
        for rank, span in record.ranks.items()
        if rank != MAIN_RANK
    }


def slowest_of(times: dict[Rank, timedelta]) -> Rank | None:
    """The slowest rank, where ranks were apart enough to matter."""
    if not times or not are_apart(times.values()):
        return None
    return max(times, key=lambda rank: times[rank])


def are_apart(times: Iterable[timedelta]) -> bool:
    listed = list(times)
    return max(listed) - min(listed) > max(APART, max(listed) * APART_SHARE)


def _own_times(records: Sequence[PhaseRecord], until: datetime) -> list[float]:
    """Each instant belongs to the phase that began last of those under way: inner phases, not outer ones."""
    spans = [(record.began, max(record.ended or until, record.began)) for record in records]
    edges = sorted({edge for span in spans for edge in span})
    own = [0.0] * len(records)
    for left, right in pairwise(edges):
        under_way = [index for index, (began, ended) in enumerate(spans) if began <= left and right <= ended]
        if under_way:
            inner = max(under_way, key=lambda index: (spans[index][0], index))
            own[inner] += (right - left).total_seconds()
    return own

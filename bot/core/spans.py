"""The records of phases as a log tells them: who began what, who ended it, and what that proves over."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bot.core.findings import PhaseRecord, RankSpan

if TYPE_CHECKING:
    from collections.abc import Container
    from datetime import datetime

    from bot.core.actions import Progress
    from bot.core.events import PhaseId, Rank, Role


@dataclass(slots=True)
class Spans:
    """Phase records in order of beginning; plain data. Nothing here knows an engine."""

    records: list[PhaseRecord] = field(default_factory=list)
    last: int | None = None  # the record that was closed last

    def add(self, phase: PhaseId, role: Role, at: datetime) -> int:
        self.records.append(PhaseRecord(phase, role, at))
        return len(self.records) - 1

    def redate(self, index: int, at: datetime) -> None:
        """When it truly began."""
        self.records[index] = replace(self.records[index], began=at)

    def close(self, index: int, at: datetime) -> PhaseRecord:
        """The phase is over, for every rank that was still in it too."""
        record = self.records[index]
        ranks = {rank: span if span.ended else replace(span, ended=at) for rank, span in record.ranks.items()}
        self.records[index] = replace(record, ended=at, ranks=ranks)
        self.last = index
        return self.records[index]

    def enter(self, index: int, rank: Rank, at: datetime) -> None:
        """The rank is in the phase, for the first time or once more."""
        record = self.records[index]
        span = record.ranks.get(rank)
        if span is None or span.ended is not None:
            began = at if span is None else span.began
            self._put(index, rank, RankSpan(began))

    def leave(self, index: int, rank: Rank, at: datetime) -> None:
        record = self.records[index]
        span = record.ranks.get(rank)
        if span is None or span.ended is None:
            self._put(index, rank, RankSpan(span.began if span else record.began, at))

    def _put(self, index: int, rank: Rank, span: RankSpan) -> None:
        record = self.records[index]
        self.records[index] = replace(record, ranks={**record.ranks, rank: span})

    def rename(self, rank: Rank, name: Rank, phases: Container[str]) -> None:
        """It turns out who that was, in these phases."""
        for index, record in enumerate(self.records):
            if record.phase in phases and rank in record.ranks:
                ranks = {name if each == rank else each: span for each, span in record.ranks.items()}
                self.records[index] = replace(record, ranks=ranks)

    def progress(self, index: int, progress: Progress) -> bool:
        """Whether that was news."""
        if self.records[index].progress == progress:
            return False
        self.records[index] = replace(self.records[index], progress=progress)
        return True

    def find(self, phase: PhaseId, role: Role | None = None) -> int | None:
        """The latest record of the phase."""
        for index in range(len(self.records) - 1, -1, -1):
            record = self.records[index]
            if record.phase is phase and role in {None, record.role}:
                return index
        return None

    def find_open(self, phase: PhaseId, role: Role | None = None) -> int | None:
        index = self.find(phase, role)
        return index if index is not None and self.records[index].ended is None else None

    def holding(self, rank: Rank, phase: PhaseId, role: Role | None = None) -> tuple[int, ...]:
        """Records of the phase in which the rank still is, oldest first."""
        return tuple(
            index
            for index, record in enumerate(self.records)
            if record.phase is phase
            and role in {None, record.role}
            and rank in record.ranks
            and record.ranks[rank].ended is None
        )

    def has_ended(self, rank: Rank, phase: PhaseId, role: Role) -> bool:
        return any(
            record.phase is phase
            and record.role is role
            and rank in record.ranks
            and record.ranks[rank].ended
            for record in self.records
        )

    def has_begun(self, rank: Rank, phase: PhaseId, role: Role) -> bool:
        return any(
            record.phase is phase and record.role is role and rank in record.ranks for record in self.records
        )

    def prove_over(self, rank: Rank, phases: Container[str], at: datetime) -> None:
        """What the rank says now proves that it has left these phases ("*" all)."""
        for index, record in enumerate(self.records):
            span = record.ranks.get(rank)
            if span is not None and span.ended is None and ("*" in phases or record.phase in phases):
                self.leave(index, rank, at)

    def ranks(self) -> set[Rank]:
        """All that ever were in a phase."""
        return {rank for record in self.records for rank in record.ranks}

    def open_records(self) -> tuple[int, ...]:
        return tuple(index for index, record in enumerate(self.records) if record.ended is None)

    def place(self, rank: Rank) -> int | None:
        """Where the rank is: the latest record it is still in, else the latest it left."""
        left = None
        for index in range(len(self.records) - 1, -1, -1):
            span = self.records[index].ranks.get(rank)
            if span is None:
                continue
            if span.ended is None:
                return index
            left = index if left is None else left
        return left

    def is_in(self, rank: Rank, index: int) -> bool:
        span = self.records[index].ranks.get(rank)
        return span is not None and span.ended is None

    def last_left(self, index: int) -> datetime | None:
        """When the last of its ranks left; None while one is in it, or none ever was."""
        ends = [span.ended for span in self.records[index].ranks.values()]
        if not ends or any(end is None for end in ends):
            return None
        return max(end for end in ends if end is not None)

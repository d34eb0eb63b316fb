"""What the phase tracker finds in a log: the records it keeps of phases, and the findings it tells once."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

from bot.core.actions import Progress
from bot.core.events import PhaseId, Rank, Role


@dataclass(frozen=True, slots=True)
class RankSpan:
    """One rank's time in a phase."""

    began: datetime
    ended: datetime | None = None


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """One phase of one model. `ranks`: those that said something about it; empty where nobody does."""

    phase: PhaseId
    role: Role
    began: datetime
    ended: datetime | None = None
    progress: Progress | None = None
    ranks: dict[Rank, RankSpan] = field(default_factory=dict)

    @property
    def took(self) -> timedelta | None:
        return None if self.ended is None else self.ended - self.began


@dataclass(frozen=True, slots=True)
class PhaseBegan:
    phase: PhaseId
    role: Role


@dataclass(frozen=True, slots=True)
class PhaseEnded:
    phase: PhaseId
    role: Role
    record: PhaseRecord


@dataclass(frozen=True, slots=True)
class ProgressMade:
    phase: PhaseId
    role: Role
    progress: Progress
    rate: float | None  # items a second, as the bar says


@dataclass(frozen=True, slots=True)
class ReadySaid:
    """The engine says it serves. A claim, not a proof."""


@dataclass(frozen=True, slots=True)
class FailureSaid:
    """`fatal`: the engine does not survive it. `secondary`: it follows from another failure.

    `warning`: it is no failure by itself. `phase`: the one that the words themselves tell.
    """

    rank: Rank
    text: str
    fatal: bool
    secondary: bool
    warning: bool = False
    phase: PhaseId | None = None


@dataclass(frozen=True, slots=True)
class NoiseRead:
    """A heartbeat or an access line: proves nothing."""


NOISE = NoiseRead()

Finding: TypeAlias = PhaseBegan | PhaseEnded | ProgressMade | ReadySaid | FailureSaid | NoiseRead

ONLY_NOISE: tuple[Finding, ...] = (NOISE,)  # this very tuple for most of all lines, so that a look tells it

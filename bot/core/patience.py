"""How long a phase may be silent, what counts as progress, and when silence is a stall.

Silence is measured with our own clock at arrival, never with the host's timestamps, and it stands still
while the host cannot be seen: nobody may call a service stalled because the network is down.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zlib import crc32

from bot.core.actions import Pace, Progress
from bot.core.events import PhaseId, Rank

if TYPE_CHECKING:
    from collections.abc import Mapping

REMEMBERED_LINES = 512  # shapes of lines; the state is saved often and must stay small

# Where neither the operator nor the engine's file says anything.
FALLBACK: dict[PhaseId, timedelta] = {
    PhaseId.STOPPING: timedelta(minutes=5),  # systemd's own stop time-out is 90 s, often raised
    PhaseId.PROCESS: timedelta(minutes=5),
    PhaseId.DISTRIBUTED: timedelta(minutes=5),
    PhaseId.WEIGHTS: timedelta(minutes=30),  # the work after a full bar is silent
    PhaseId.MEMORY: timedelta(minutes=5),
    PhaseId.COMPILE: timedelta(minutes=30),
    PhaseId.GRAPHS: timedelta(minutes=15),
    PhaseId.SERVER: timedelta(minutes=2),
    PhaseId.WARMUP: timedelta(minutes=10),
    PhaseId.SMOKE: timedelta(minutes=10),
    PhaseId.READY: timedelta(minutes=10),
}

_CHANGING = re.compile(r"0x[0-9a-fA-F]+|\b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{4,}\b|[0-9]+")


def patience_of(
    phase: PhaseId, *, declared: Mapping[PhaseId, timedelta], engine: timedelta | None
) -> timedelta:
    """The operator's word, else the engine file's, else a cautious one of our own."""
    return declared.get(phase) or engine or FALLBACK[phase]


def shape_of(reading: str) -> str:
    """The line with its changing parts masked, so that a repeat with other numbers is a repeat."""
    return " ".join(_CHANGING.sub("#", reading).split())


@dataclass(slots=True)
class Silence:
    """Since when nothing new came, and whether that was told. Dumpable."""

    since: datetime  # the last progress, by our clock
    sign: datetime | None = None  # the last line at all that was not noise
    paused: datetime | None = None  # the host is out of sight since
    until: datetime | None = None  # nothing is held against it before then
    stalled: bool = False
    told: bool = False  # a stall was told and its end was not
    shapes: list[int] = field(default_factory=list)
    bars: dict[str, Progress] = field(default_factory=dict)

    def lasts(self, now: datetime) -> timedelta:
        return max((self.paused or now) - self.since, timedelta())

    def is_new_line(self, rank: Rank | None, reading: str) -> bool:
        """Whether this rank never wrote a line of that shape in this startup; remembers it."""
        shape = crc32(f"{rank or ''}|{shape_of(reading)}".encode())
        if shape in self.shapes:
            return False
        self.shapes.append(shape)
        del self.shapes[:-REMEMBERED_LINES]
        return True

    def is_grown_bar(self, key: str, progress: Progress) -> bool:
        """Whether a bar moved forward; another total is another bar, and that is progress once."""
        before = self.bars.get(key)
        self.bars[key] = progress
        return before is None or progress.total != before.total or progress.done > before.done

    def break_off(self, now: datetime) -> timedelta:
        """Progress came: the silence that ended lasted this long."""
        lasted = self.lasts(now)
        self.since = self.sign = now
        self.paused = now if self.paused is not None else None
        self.stalled = self.told = False
        return lasted

    def pause(self, now: datetime) -> None:
        self.paused = self.paused or now

    def go_on(self, now: datetime) -> None:
        if self.paused is not None:
            self.since += max(now - self.paused, timedelta())
            self.paused = None

    def extend(self, until: datetime) -> None:
        """A person keeps waiting: a stall already told is told again only if it outlasts that."""
        self.bear(until)
        self.stalled = False

    def bear(self, until: datetime) -> None:
        """No judgment before then."""
        self.until = max(until, self.until or until)

    def exceeds(self, patience: timedelta, now: datetime) -> bool:
        if self.paused is not None or (self.until is not None and now < self.until):
            return False
        return self.lasts(now) >= patience


def pace_of(
    silence: Silence, *, patience: timedelta, in_phase: timedelta, usual: timedelta | None, now: datetime
) -> Pace:
    """Moving, slow (beyond the usual, still moving), quiet (half the patience gone), stalled."""
    if silence.stalled:
        return Pace.STALLED
    if silence.lasts(now) * 2 >= patience:
        return Pace.QUIET
    if usual is not None and in_phase > usual * 1.5 + timedelta(seconds=10):
        return Pace.SLOW
    return Pace.MOVING

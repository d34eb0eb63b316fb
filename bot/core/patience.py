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

LEARNED = 1.5  # times the longest silence of healthy starts
QUIET = 3  # times the patience: as long as that, evidence that more than the CPU moves excuses silence
SLOW = 1.25  # times the usual
HARDLY = timedelta(seconds=10)  # that nobody waits for
_ACTIVE = timedelta(minutes=2)  # work comes in bursts: what moved less long ago still moves

_CHANGING = re.compile(r"0x[0-9a-fA-F]+|\b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{4,}\b|[0-9]+")


def patience_of(
    phase: PhaseId,
    *,
    declared: Mapping[PhaseId, timedelta],
    engine: timedelta | None,
    longest: timedelta | None = None,
) -> timedelta:
    """The operator's word, else the engine file's, else a cautious one of our own.

    `longest` is the longest silence of that phase in healthy starts: who was silent so long and got there may
    be so again, and half as long more.
    """
    patience = declared.get(phase) or engine or FALLBACK[phase]
    return patience if longest is None else max(patience, longest * LEARNED)


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
    key: str | None = None  # the phase it belongs to
    longest: dict[str, float] = field(default_factory=dict)  # seconds, by phase: what this start teaches
    unsure: bool = False  # part of it was ours, and teaches nothing

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
        if self.key is not None and not self.unsure:
            self.longest[self.key] = max(self.longest.get(self.key, 0.0), round(lasted.total_seconds(), 1))
        self.unsure = False
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

    def exceeds(self, patience: timedelta, now: datetime, *, moved: datetime | None = None) -> bool:
        """Whether it is a stall; `moved` is when evidence showed work last, the CPU's own apart."""
        lasts = self.lasts(now)
        if self.paused is not None or (self.until is not None and now < self.until) or lasts < patience:
            return False
        active = moved is not None and now - moved < max(_ACTIVE, patience / 5)
        return not active or lasts >= patience * QUIET


def pace_of(
    silence: Silence,
    *,
    patience: timedelta,
    in_phase: timedelta,
    usual: timedelta | None,
    now: datetime,
    span: tuple[timedelta, timedelta] | None = None,
) -> Pace:
    """Moving, slow (beyond the usual, still moving), quiet (half the patience gone), stalled.

    `span`: between what healthy starts lie; where they differ much, only what is longer than that is slow.
    """
    if silence.stalled:
        return Pace.STALLED
    if silence.lasts(now) * 2 >= patience:
        return Pace.QUIET
    if usual is not None and in_phase > max(usual * SLOW, span[1] if span is not None else usual) + HARDLY:
        return Pace.SLOW
    return Pace.MOVING

"""Markers: lines an operator wants told the moment they appear, with the lines around them.

A hit is three lines before, the line, and three after; it is told when they have come, or two seconds later.
Of each marker at most one reply a minute goes out: what hits meanwhile is counted, and the last of it is
told with the count when the minute is over.

Patterns are searched for in the first `LONGEST` characters of a line alone, and the configuration refuses
those that would take too long even there (`config.search_pattern`): `re` cannot be interrupted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

EVERY = timedelta(minutes=1)
FOLLOWING_WITHIN = timedelta(seconds=2)
AROUND = 3  # lines before it, and as many after it
LONGEST = 500  # characters of a line that are searched
_KEPT = 300  # characters of a line that are told


@dataclass(frozen=True, slots=True)
class Marker:
    name: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Hit:
    """To be told: `lines` with the hit at index `at`; `others` hits went untold before it."""

    name: str
    lines: tuple[str, ...]
    at: int
    others: int = 0


@dataclass(slots=True)
class Sighting:
    """The last hit that is still to be told."""

    lines: list[str]
    at: int
    since: datetime
    complete: bool = False  # the lines after it have come


@dataclass(slots=True)
class MarkerRun:
    """One marker in one startup."""

    told: datetime | None = None
    untold: int = 0  # hits since, that of `sighting` included
    sighting: Sighting | None = None


@dataclass(slots=True)
class MarkerState:
    recent: list[str] = field(default_factory=list)
    runs: dict[str, MarkerRun] = field(default_factory=dict)


class Markers:
    """Only `state` outlives the process. Names are distinct; of two that are not, the first counts."""

    def __init__(self, markers: Iterable[Marker], state: MarkerState) -> None:
        self.state = state
        self._patterns: dict[str, re.Pattern[str]] = {}
        for marker in markers:
            self._patterns.setdefault(marker.name, re.compile(marker.pattern))

    def read(self, reading: str, now: datetime) -> tuple[Hit, ...]:
        """One whole line of the watched start; what is to be told at once."""
        if not self._patterns or not reading.strip():
            return ()
        shown = reading[:_KEPT]
        for run in self.state.runs.values():
            self._follow(run, shown)
        for name, pattern in self._patterns.items():
            if pattern.search(reading, 0, LONGEST):
                self._note(name, shown, now)
        self.state.recent = [*self.state.recent, shown][-AROUND:]
        return self.due(now)

    @staticmethod
    def _follow(run: MarkerRun, shown: str) -> None:
        if run.sighting is not None and not run.sighting.complete:
            run.sighting.lines.append(shown)
            run.sighting.complete = len(run.sighting.lines) - run.sighting.at > AROUND

    def _note(self, name: str, shown: str, now: datetime) -> None:
        run = self.state.runs.setdefault(name, MarkerRun())
        run.untold += 1
        first_waits = run.sighting is not None and _may_tell(run, now)
        if not first_waits:  # within the minute the last one counts; what is just going out stays as it is
            run.sighting = Sighting([*self.state.recent, shown], len(self.state.recent), now)

    def due(self, now: datetime) -> tuple[Hit, ...]:
        """What is to be told now."""
        told = []
        for name, run in self.state.runs.items():
            seen = run.sighting
            if seen is None or not _may_tell(run, now):
                continue
            if seen.complete or now - seen.since >= FOLLOWING_WITHIN:
                told.append(_tell(name, run, seen, now))
        return tuple(told)

    def last(self, now: datetime) -> tuple[Hit, ...]:
        """At the end: what need not wait for a line that will not come. The pace holds even then."""
        found = [
            (name, run, run.sighting) for name, run in self.state.runs.items() if run.sighting is not None
        ]
        return tuple(_tell(name, run, seen, now) for name, run, seen in found if _may_tell(run, now))

    def untold(self) -> dict[str, int]:
        """How often each was seen without having been told, to be said with the verdict."""
        return {name: run.untold for name, run in self.state.runs.items() if run.untold}


def _may_tell(run: MarkerRun, now: datetime) -> bool:
    return run.told is None or now - run.told >= EVERY


def _tell(name: str, run: MarkerRun, seen: Sighting, now: datetime) -> Hit:
    hit = Hit(name, tuple(seen.lines), seen.at, others=run.untold - 1)
    run.told, run.untold, run.sighting = now, 0, None
    return hit

"""A log that went through another program: what that program put before every line is found and taken off.

Log viewers, launchers and people who quote each add a prefix of their own: a time, a pod's name, `> `. No
list of them is ever complete, but the engine's own stamp shows where it ends, and the next lines look alike.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bot.core.log_times import LogClock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bot.core.events import LogLine
    from config.engine_file import EngineFile

_LONGEST = 160  # characters; more is a line of its own
_FEWEST = 3  # lines that must look alike
_SHORT = 40  # lines of a log
_MOST = 8  # kinds of prefix in one log
_VARIES = re.compile(r"(\d+|[A-Z]{2,}|[^\W\d]+|\s+|\W)")


@dataclass(frozen=True, slots=True)
class Wrapping:
    """What stands before the lines; None where nothing does."""

    pattern: re.Pattern[str] | None
    clock: LogClock = field(default_factory=LogClock)

    def unwrap(self, line: LogLine) -> LogLine:
        """The line as the engine wrote it, and when, where nothing before it could be read as a time."""
        match = self.pattern.match(line.reading) if self.pattern is not None else None
        if match is None:
            return line
        reading = line.reading[match.end() :]
        return replace(line, reading=reading, at=line.at or self.clock.read_engine(reading))


def find_wrapping(engine: EngineFile, readings: Iterable[str]) -> Wrapping:
    """Look at the beginning of a log. Most stamped lines must be wrapped, or none is."""
    stamp, opening = (engine.prefix.stamp.removeprefix("^"), engine.prefix.opening)
    anchor = re.compile(f"{stamp}|{opening}" if opening else stamp)
    has = ("",) if opening else engine.prefix.has
    shapes: Counter[str] = Counter()
    bare = 0
    lines = [reading for reading in readings if reading and not reading.isspace()]
    for reading in lines:
        match = anchor.search(reading, 0, _LONGEST + 60) if any(each in reading for each in has) else None
        if match is None:
            continue
        before = reading[: match.start()]
        if before and "%" not in before and len(before) <= _LONGEST:
            shapes[_shape(before)] += 1
        else:
            bare += not before
    common = [
        shape
        for shape, count in shapes.most_common(_MOST)
        if count >= _FEWEST or _is_everywhere(shape, lines)
    ]
    if not common or sum(shapes[shape] for shape in common) <= bare:
        return Wrapping(None)
    pattern, clock = re.compile("|".join(common)), LogClock()
    found = [(line, pattern.match(line)) for line in lines]
    clock.learn([line[match.end() :] for line, match in found if match is not None] + lines)
    return Wrapping(pattern, clock)


def _is_everywhere(shape: str, lines: list[str]) -> bool:
    """A short log, few of whose lines are stamped: whether what stands before those stands before all."""
    return _FEWEST <= len(lines) <= _SHORT and all(re.match(shape, line) for line in lines)


def _shape(before: str) -> str:
    """Numbers and words in capitals vary from line to line. On an empty line the last blanks may miss."""
    bare = before.rstrip()
    blanks = re.escape(before[len(bare) :])
    pieces = [_piece(piece) for piece in _VARIES.findall(bare)]
    return "".join(pieces) + (f"(?:{blanks}|$)" if blanks else "")


def _piece(piece: str) -> str:
    if piece.isdigit():
        return r"\d+"
    if piece.isspace():
        return r"\s+"
    return "[A-Z]+" if piece.isalpha() and piece.isupper() and len(piece) > 1 else re.escape(piece)

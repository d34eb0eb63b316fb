"""Which engine writes a log that nobody named: told line by line, and the lines kept until it is known.

Lines that one engine alone prints count, and little those that others print too. As soon as one leads clearly
it is recognised; the lines that came before can then be read as its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from bot.core.events import LogLine, Member, Origin
from config.engine_file import load_engine, load_engines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from config.engine_file import EngineFile

LEAD = 2  # lines more than any other engine
_SURE, _LIKELY = 50, 1  # votes of a line that one engine alone prints, and of one that others print too
_LONGEST = 16_000  # characters of one line that are kept: launch arguments are long, and tell the ranks
_MOST = 200  # lines that are kept; what comes before the first sign of an engine is mostly of no use
_LOUD = {Origin.MANAGER, Origin.JOURNALD}  # about the unit, not from the engine
_LOOK = 600  # characters of a line; the signs stand at its beginning


@dataclass(frozen=True, slots=True)
class Kept:
    """A line that came before its engine was known."""

    member: Member
    line: LogLine
    at: datetime


@dataclass(slots=True)
class RecognitionState:
    """Plain data, kept with the startup's state. `engine`: its name, once it is known."""

    engine: str | None = None
    votes: dict[str, int] = field(default_factory=dict)
    kept: list[Kept] = field(default_factory=list)


class Recognition:
    """Fed lines, names the engine. `lead`: how sure to be."""

    def __init__(self, state: RecognitionState | None = None, *, lead: int = LEAD) -> None:
        self.state = state or RecognitionState()
        self._lead = lead
        self._engines = load_engines()

    @property
    def engine(self) -> EngineFile | None:
        return None if self.state.engine is None else load_engine(self.state.engine)

    def feed(self, line: LogLine) -> EngineFile | None:
        """The engine, from the line on that makes it certain."""
        if self.state.engine is None and not line.partial and line.origin not in _LOUD:
            self._vote(line.reading[:_LOOK])
        return self.engine

    def keep(self, line: LogLine, *, member: Member, at: datetime) -> None:
        """Remember a line for when the engine is known."""
        if line.partial or line.origin in _LOUD:
            return
        text = line.reading[:_LONGEST]
        short = LogLine(text, text, line.at, None, line.pid, line.origin)
        self.state.kept = [*self.state.kept[-_MOST + 1 :], Kept(member, short, at)]

    def release(self) -> tuple[Kept, ...]:
        """The lines that were kept; they are given out once."""
        kept, self.state.kept = tuple(self.state.kept), []
        return kept

    def best(self) -> EngineFile:
        """The likeliest so far; SGLang when none shows."""
        votes = self.state.votes
        return self.engine or load_engine(max(votes, key=votes.__getitem__) if votes else "sglang")

    def _vote(self, reading: str) -> None:
        votes = self.state.votes
        for name, each in self._engines.items():
            vote = _SURE if each.is_recognised(reading) else _LIKELY * each.is_suggested(reading)
            if vote:
                votes[name] = votes.get(name, 0) + vote
        ranked = sorted(votes.items(), key=lambda vote: vote[1], reverse=True)
        second = ranked[1][1] if len(ranked) > 1 else 0
        if ranked and ranked[0][1] - second >= self._lead * _SURE:
            self.state.engine = ranked[0][0]


def recognise(lines: Sequence[LogLine], *, lead: int) -> EngineFile:
    """The engine of a saved log, from its beginning; where none of its lines shows, by the names it drops."""
    recognition = Recognition(lead=lead)
    for line in lines:
        if recognition.feed(line) is not None:
            break
    if recognition.state.votes:
        return recognition.best()
    names = Counter(name for line in lines for name in load_engines() if name in line.reading[:_LOOK].lower())
    return load_engine(names.most_common(1)[0][0] if names else "sglang")

"""One failure as a log has it, and a traceback while it is read: what the diagnosis keeps of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.core.events import PhaseId, Rank, Role

if TYPE_CHECKING:
    from bot.core.findings import FailureSaid

TRACEBACK = "Traceback (most recent call last)"
MOST_LINES = 8
LONGEST = 1000  # characters of a line


@dataclass(slots=True)
class Suspect:
    """One failure as the log has it; `lines` begin with the one that says it best."""

    rank: Rank
    phase: PhaseId
    role: Role
    lines: list[str]
    fatal: bool = False
    secondary: bool = False
    survived: bool = False
    warning: bool = False
    outlived: bool = False  # requests were answered after it
    uncaught: bool = False  # fatal only because its traceback begins where a process does


@dataclass(slots=True)
class Trace:
    """A traceback that is being read. `suspect` is None until its exception line."""

    suspect: int | None = None
    awaiting: bool = True  # its exception line has not come yet
    chained: bool = False  # what comes was raised while handling what was
    announced: bool = False  # the suspect so far is only the line that announced the traceback
    frame: str = ""  # the innermost so far
    code: str = ""  # what runs in it
    passed_over: bool = False  # nothing ends with it
    uncaught: bool = False  # its outermost frame is where a process begins
    phase: PhaseId | None = None  # in which the functions in it run
    role: Role | None = None  # whose model they are about
    rest: int = 0  # how many lines of a long message may still belong to it
    stamp: str = ""  # what the engine put before its lines: one record's lines all have the same


@dataclass(slots=True)
class SuspectsState:
    suspects: list[Suspect] = field(default_factory=list)
    traces: dict[str, Trace] = field(default_factory=dict)  # by process
    timed_out: list[Rank] = field(default_factory=list)  # who reported that a collective did
    recent: bool = False  # a suspect was added since requests were last answered


def take_further(suspect: Suspect, said: FailureSaid) -> None:
    """What was raised in place of the one before: it names the failure where that only followed from one."""
    suspect.lines.insert(
        0 if suspect.secondary and not said.secondary else len(suspect.lines), said.text[:LONGEST]
    )
    del suspect.lines[MOST_LINES:]
    suspect.secondary &= said.secondary
    suspect.phase = said.phase or suspect.phase


def repeats(later: Suspect, root: Suspect) -> bool:
    """Parents and other ranks repeat the root's own words."""
    text = root.lines[0].partition(": ")[2] or root.lines[0]
    return any(text in line for line in later.lines)

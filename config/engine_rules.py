"""What an engine file is made of: rules for single lines, phases, prefix, arguments and frames.

Every rule says in `by` which versions printed it. A rule is either a `line`, matched at the beginning of the
text behind the engine's own prefix, or `anywhere`, searched for in all of it; the latter names in `has` a
literal that every such line holds, so that most lines are dismissed without a regular expression.
"""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

from config.fields import PhaseName, parse_duration

Patience = Annotated[timedelta, BeforeValidator(lambda value: parse_duration(str(value)))]


class Kind(StrEnum):
    """What a rule makes of a line it matches."""

    NOISE = "noise"
    HARMLESS = "harmless"
    ARGUMENTS = "arguments"
    READY = "ready"
    FAILURE = "failure"
    SETTLED = "settled"
    BEGIN = "begin"
    END = "end"
    PROGRESS = "progress"


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Rule(Part):
    """One line the engine prints. Exactly one of `line` and `anywhere`; `by` says which versions do."""

    line: str | None = None
    anywhere: str | None = None
    has: str | None = None
    by: str
    role: Literal["target", "draft"] | None = None  # where the words themselves tell the model
    fatal: bool = False  # of a failure: the engine does not survive it
    secondary: bool = False  # of a failure: it follows from another one
    warning: bool = False  # of a failure: by itself it ends nothing
    phase: PhaseName | None = None  # of a failure: where the words themselves tell it
    serving: bool = False  # of noise: only an engine that serves prints it; of a failure: as far as is known
    alone: bool = False  # of noise: tells the same in a log that begins with it; else: where no rank spoke
    other_node: bool = False  # counts only on a node that is not the first of several
    behind: bool = False  # this node is one of those; the first one's log tells more, where it is read too
    without: tuple[PhaseName, ...] = ()  # of a begin: what comes only where it says so itself
    each: bool = False  # of a begin: every core says it for itself, and the last one for the whole
    opens: bool = False  # of progress: shows that the phase is under way even if its begin was not seen
    oldest: bool = False  # of an end: the earliest round that is still open, not the latest
    everyone: bool = False  # of an end: it speaks for every rank, or for all of that core

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if (self.line is None) == (self.anywhere is None):
            raise ValueError("needs exactly one of `line` and `anywhere`")
        if (self.anywhere is None) != (self.has is None):
            raise ValueError("`anywhere` and `has` go together")
        try:
            re.compile(self.line or self.anywhere or "")
        except re.error as error:
            raise ValueError(f"is no regular expression: {error}") from error
        return self


class PhaseRule(Part):
    """How one canonical phase shows in the log.

    `ranks`: "all" ranks print it, "some" may, or the whole service does "once".
    `rounds`: what it means when a rank begins it a second time. "lead": the draft model, and this phase
    tells the rounds apart; "follow": it goes by the leading phase; "again": the same phase once more;
    "told": as "lead", but only where the arguments tell of a draft model and the process is the same.
    `after`: it is under way as soon as one of those phases has ended and nothing else has begun.
    `ends`: what its begin and end prove over for that rank ("*" everything).
    `merged`: several begins and ends in a row are one phase, over when something else begins.
    """

    id: PhaseName
    ranks: Literal["all", "some", "once"] = "once"
    rounds: Literal["none", "again", "lead", "told", "follow"] = "none"
    patience: Patience
    after: tuple[PhaseName, ...] = ()
    ends: tuple[str, ...] = ()
    merged: bool = False
    nested: bool = False  # runs inside another phase and is named in its place
    begin: tuple[Rule, ...] = ()
    progress: tuple[Rule, ...] = ()
    end: tuple[Rule, ...] = ()


class Prefix(Part):
    """How the engine marks its lines.

    `stamp` is searched for near the beginning of a line, and has the group `ranks`; `rank` finds
    the single tags within `ranks`; `has` names literals of which every stamped line holds one; `untagged` are
    other ways a line tells its rank (group `rank`), `tag` how that rank is then called. `core`: where engines
    of several cores, each with ranks of its own, write a core's number into their stamp (groups `core` and
    `process`), how it is called, also within the tags of its ranks. `opening`: what lines that bear no
    stamp begin with, so that what another program put before them is seen.
    """

    stamp: str
    has: tuple[str, ...] = ("]",)
    rank: str
    untagged: tuple[str, ...] = ()
    tag: str = "rank{}"
    core: str | None = None
    opening: str | None = None


class Arguments(Part):
    """The line that prints the launch arguments, and where it tells how many ranks a node has."""

    begin: tuple[Rule, ...] = ()
    sizes: dict[str, str] = {}  # name → pattern with one group
    no_graphs: str | None = None  # pattern that tells that no graphs will be captured
    drafts: str | None = None  # pattern that tells that a draft model will be loaded
    cores: str | None = None  # pattern that tells that there are several cores
    behind: str | None = None  # pattern that tells that this node never says that it serves


class Surroundings(Part):
    """What is printed beside any engine."""

    failure: tuple[Rule, ...]
    noise: tuple[Rule, ...]
    harmless: tuple[Rule, ...]


class Frame(Part):
    """A function that stands in tracebacks, and the phase in which it runs, or whose model it is about."""

    function: str
    file: str | None = None  # searched for in the path
    phase: PhaseName | None = None
    role: Literal["target", "draft"] | None = None
    by: str

    def fits(self, path: str, name: str) -> bool:
        return re.fullmatch(self.function, name) is not None and (
            self.file is None or re.search(self.file, path) is not None
        )

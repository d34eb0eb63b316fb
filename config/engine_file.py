"""An engine file: the lines an inference engine prints, which phase each belongs to, and what proves its end.

The files under config/engines/ are data: a new engine is a new file there and no new code. What everything
around an engine prints (Python, NCCL, the kernel) stands once in surroundings.toml and is read behind each
file's own rules. Every rule says in `by` which versions printed it. A rule is either a `line`, matched at the
beginning of the text behind the engine's own prefix, or `anywhere`, searched for in all of it; the latter
names in `has` a literal that every such line holds, so that most lines are dismissed without a regular
expression.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from bot.errors import ConfigurationInvalid
from config.fields import PhaseName, parse_duration
from config.openings import find_openings

FOLDER = Path(__file__).parent / "engines"
SURROUNDINGS = Path(__file__).parent / "surroundings.toml"
AUTO = "auto"  # the engine is not named: it is recognised by its lines; its file holds what is true of any

Patience = Annotated[timedelta, BeforeValidator(lambda value: parse_duration(str(value)))]
LOOK = 600  # characters; a stamp further in is part of the text
LOOK_HEAD, LOOK_TAIL = 3000, 1000  # characters of a long line that are read: a log may quote anything
_TAGS = 1024  # stamps whose rank is remembered
_NAMED = re.compile(r"\(\?P<\w+>")


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
    serving: bool = False  # of noise: only an engine that serves prints it
    alone: bool = False  # of noise: tells the same in a log that begins with it; else: where no rank spoke
    other_node: bool = False  # counts only on a node that is not the first of several
    behind: bool = False  # this node is one of those; the first one's log tells more, where it is read too
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


class EngineFile(Part):
    """One engine, compiled. `read` tells what a line's text is."""

    name: str
    title: str
    recognise: tuple[str, ...]  # lines that only this engine prints, for `auto`
    suggest: tuple[str, ...] = ()  # lines that this engine prints, and at times another that is built on it
    prefix: Prefix
    arguments: Arguments = Arguments()
    phase: tuple[PhaseRule, ...]
    ready: tuple[Rule, ...] = ()
    settled: tuple[Rule, ...] = ()  # all phases of that rank are over
    failure: tuple[Rule, ...] = ()
    frame: tuple[Frame, ...] = ()
    noise: tuple[Rule, ...] = ()
    harmless: tuple[Rule, ...] = ()

    @cached_property
    def reader(self) -> Reader:
        """The rules, compiled."""
        return Reader(self)

    def read(self, text: str) -> Hit | None:
        """What the text behind the prefix is; None when the file does not know it."""
        return self.reader.read(text)

    def rules(self) -> list[Rule]:
        """All of them, in the order in which they are tried; those for anywhere behind the others."""
        return sorted((hit.rule for hit in _in_order(self)), key=lambda rule: rule.line is None)

    def rule_of(self, phase: str) -> PhaseRule | None:
        """The phase's rule; None where this engine shows nothing of that phase."""
        return self.reader.by_phase.get(phase)

    def place_of_frame(self, text: str) -> tuple[str | None, str | None]:
        """The phase and the role in which the function of a traceback's `File "…", line N, in NAME` runs."""
        path, _, name = text.rpartition(" in ")
        fitting = [each for each in self.reader.frames if each.fits(path, name)]
        phase = next((each.phase for each in fitting if each.phase), None)
        return phase, next((each.role for each in fitting if each.role), None)

    def patience_of(self, phase: str) -> timedelta | None:
        rule = self.rule_of(phase)
        return rule.patience if rule else None

    def is_recognised(self, reading: str) -> bool:
        """Whether this line, as read, is one that only this engine prints."""
        return self.reader.recognise.search(reading) is not None

    def is_suggested(self, reading: str) -> bool:
        """Whether this line can be of this engine, or of one that is built on it."""
        return self.reader.suggest is not None and self.reader.suggest.search(reading) is not None


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule that matched; `phase` is set for begins, ends and progress."""

    kind: Kind
    rule: Rule
    phase: PhaseRule | None = None
    match: re.Match[str] | None = None  # of a rule that reads something out of the line

    @property
    def bar(self) -> tuple[int, int]:
        """Of progress: how many are done, and of how many."""
        assert self.match is not None  # noqa: S101 - a rule of progress has these groups
        return int(self.match["done"]), int(self.match["total"])

    @property
    def cores(self) -> int:
        """Of a begin: how many cores this node starts; nothing where the words do not tell."""
        return int((self.match and self.match.groupdict().get("cores")) or 0)

    @property
    def rate(self) -> float | None:
        """Items a second, where a bar tells it."""
        groups = self.match.groupdict() if self.match is not None else {}
        if not groups.get("rate") or not float(groups["rate"]):
            return None
        rate = float(groups["rate"])
        return rate if groups["unit"] == "it/s" else 1 / rate


@dataclass(frozen=True, slots=True)
class _Compiled:
    pattern: re.Pattern[str]
    hit: Hit
    reads: bool  # something out of the line, by its groups
    openings: frozenset[str] | None  # with one of these a line begins that it matches; None: with anything

    def hit_at(self, match: re.Match[str] | None) -> Hit:
        return Hit(self.hit.kind, self.hit.rule, self.hit.phase, match)


class Reader:
    """The rules of one engine file as few regular expressions: one per first character, one per literal."""

    def __init__(self, engine: EngineFile) -> None:
        rules = [_compile(hit) for hit in _in_order(engine)]
        anchored = [each for each in rules if each.hit.rule.line is not None]
        self._anchored = {f"r{index}": each for index, each in enumerate(anchored)}
        self._combined = self._combine(None)
        self._beginnings: dict[str, re.Pattern[str]] = {}  # by the character a text begins with
        anywhere = [each for each in rules if each.hit.rule.anywhere is not None]
        self._anywhere = [(each.hit.rule.has or "", each) for each in anywhere]
        self.by_phase: dict[str, PhaseRule] = {phase.id: phase for phase in engine.phase}
        self.recognise = re.compile("|".join(f"(?:{each})" for each in engine.recognise) or "(?!)")
        suggest = "|".join(f"(?:{each})" for each in engine.suggest)
        self.suggest = re.compile(suggest) if suggest else None
        self.stamp = re.compile(engine.prefix.stamp)
        self._has = engine.prefix.has
        self._rank = re.compile(engine.prefix.rank)
        core = engine.prefix.core
        self.core = re.compile(re.escape(core).replace(r"\{\}", r"\d+") + r"(?= |$)") if core else None
        self.read_tag = lru_cache(_TAGS)(self._read_tag)
        self.untagged = tuple(re.compile(each) for each in engine.prefix.untagged)
        self._sizes = {name: re.compile(each) for name, each in engine.arguments.sizes.items()}
        self.frames = engine.frame
        self._starts = tuple(re.compile(each.line) for each in engine.arguments.begin if each.line)
        self.no_graphs = re.compile(engine.arguments.no_graphs or "(?!)")
        self.drafts = re.compile(engine.arguments.drafts or "(?!)")
        self.cores = re.compile(engine.arguments.cores or "(?!)")
        self.behind = re.compile(engine.arguments.behind or "(?!)")

    def find_stamp(self, reading: str) -> re.Match[str] | None:
        """The engine's own prefix, where the line has it."""
        for literal in self._has:
            if literal in reading:
                return self.stamp.search(reading, 0, LOOK)
        return None

    def _read_tag(self, tags: str) -> str:
        """The single tags of a stamp, as one name; a service has few, and writes them in every line."""
        return " ".join(self._rank.findall(tags))

    def read_sizes(self, arguments: str) -> dict[str, str]:
        """What the launch arguments tell of how many ranks there are."""
        told = {name: pattern.search(arguments) for name, pattern in self._sizes.items()}
        return {name: match[1] for name, match in told.items() if match is not None}

    def starts(self, reading: str) -> bool:
        """Whether the line prints the arguments of a new start."""
        if not self._starts:
            return False
        match = self.find_stamp(reading)
        at = match.end() if match else 0
        return any(pattern.match(reading, at) for pattern in self._starts)

    def read(self, text: str) -> Hit | None:
        if len(text) > LOOK_HEAD + LOOK_TAIL:  # a redrawn bar has its last state at the end
            text = f"{text[:LOOK_HEAD]}\n{text[-LOOK_TAIL:]}"
        match = (self._beginnings.get(text[:1]) or self._begin_with(text[:1])).match(text)
        if match is not None and match.lastgroup is not None:
            each = self._anchored[match.lastgroup]
            return each.hit_at(each.pattern.match(text)) if each.reads else each.hit
        for literal, each in self._anywhere:
            if literal in text:
                last = None
                for last in each.pattern.finditer(text):  # noqa: B007 - a redrawn bar: the last state counts
                    pass
                if last is not None:
                    return each.hit_at(last)
        return None

    def _begin_with(self, first: str) -> re.Pattern[str]:
        """The rules a text with that first character can fall under, about a quarter of all."""
        if not first or not first.isascii():
            return self._combined
        pattern = self._beginnings[first] = self._combine(first)
        return pattern

    def _combine(self, first: str | None) -> re.Pattern[str]:
        """In their order: the first one that matches counts."""
        branches = [
            _branch(name, each)
            for name, each in self._anchored.items()
            if first is None or each.openings is None or first in each.openings
        ]
        return re.compile("|".join(branches) or "(?!)")


def _branch(name: str, each: _Compiled) -> str:
    """One alternative of the combined pattern; the rule's own groups are kept nameless in it."""
    return f"(?P<{name}>{_NAMED.sub('(?:', each.hit.rule.line or '')})"


def _in_order(engine: EngineFile) -> list[Hit]:
    """First what is cheap and frequent, last what could match too much."""
    groups: list[tuple[Kind, PhaseRule | None, tuple[Rule, ...]]] = [
        (Kind.NOISE, None, engine.noise),
        (Kind.READY, None, engine.ready),
        (Kind.SETTLED, None, engine.settled),
        (Kind.ARGUMENTS, None, engine.arguments.begin),
    ]
    for phase in engine.phase:
        groups.append((Kind.BEGIN, phase, phase.begin))
        groups.append((Kind.END, phase, phase.end))
        groups.append((Kind.PROGRESS, phase, phase.progress))
    groups.append((Kind.HARMLESS, None, engine.harmless))
    groups.append((Kind.FAILURE, None, engine.failure))
    return [Hit(kind, rule, phase) for kind, phase, rules in groups for rule in rules]


def _compile(hit: Hit) -> _Compiled:
    source = hit.rule.line or hit.rule.anywhere or ""
    pattern = re.compile(source)
    return _Compiled(pattern, hit, bool(pattern.groupindex), find_openings(source))


@cache
def load_engine(name_or_path: str | Path) -> EngineFile:
    """Load by name ("sglang") or path. Raises ConfigurationInvalid naming file and key."""
    path = FOLDER / f"{name_or_path}.toml"
    if not path.is_file():
        path = Path(name_or_path)
    try:
        own = EngineFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        known = ", ".join(list_engines())
        raise ConfigurationInvalid(
            (f"no engine file {str(name_or_path)!r}; allowed: {known}, or a path",)
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationInvalid((f"{path}: is no TOML: {error}",)) from error
    except ValidationError as error:
        raise ConfigurationInvalid(tuple(_fault(path, each) for each in error.errors())) from error
    return _surrounded(own)


def _surrounded(own: EngineFile) -> EngineFile:
    """The engine's own rules first: they know better what a line means."""
    around = _load_surroundings()
    return own.model_copy(
        update={
            "failure": own.failure + around.failure,
            "noise": own.noise + around.noise,
            "harmless": own.harmless + around.harmless,
        }
    )


@cache
def _load_surroundings() -> Surroundings:
    return Surroundings.model_validate(tomllib.loads(SURROUNDINGS.read_text(encoding="utf-8")))


def _fault(path: Path, detail: object) -> str:
    assert isinstance(detail, dict)  # noqa: S101 - pydantic's own shape
    return f"{path}: {'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}"


@cache
def list_engines() -> tuple[str, ...]:
    """The names that an engine may be called by, "auto" among them."""
    return tuple(sorted(each.stem for each in FOLDER.glob("*.toml")))


def load_engines() -> dict[str, EngineFile]:
    """Every engine that comes with the product, by name; "auto" is none."""
    paths = sorted(FOLDER.glob("*.toml"))
    return {path.stem: load_engine(path.stem) for path in paths if path.stem != AUTO}

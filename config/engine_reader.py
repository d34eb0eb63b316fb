"""Reads lines by the rules of an engine file, compiled into few regular expressions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from config.engine_rules import Kind, PhaseRule, Rule
from config.openings import find_openings

if TYPE_CHECKING:
    from config.engine_file import EngineFile

LOOK = 600  # characters; a stamp further in is part of the text
LOOK_HEAD, LOOK_TAIL = 3000, 1000  # characters of a long line that are read: a log may quote anything
_TAGS = 1024  # stamps whose rank is remembered
_NAMED = re.compile(r"\(\?P<\w+>")


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
        rules = [_compile(hit) for hit in in_order(engine)]
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


def in_order(engine: EngineFile) -> list[Hit]:
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

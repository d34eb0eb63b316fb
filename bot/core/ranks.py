"""Which rank wrote a line: by the engine's tag, by `[rank6]:`, or by the process known to be that rank."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from bot.core.cores import Cores, tell_apart
from bot.core.events import MAIN_RANK, Member, Rank

if TYPE_CHECKING:
    from config.engine_file import EngineFile

MOST_RANKS = 4096  # with names of their own: more than any service has
MOST_PROCESSES = 4096  # whose rank is remembered; the oldest are gone by then

_NUMBER = re.compile(r"(\d+)")


class Said(NamedTuple):
    """One thing said in a line: the engine's tag where it has one, and the text behind it.

    There is one for every line, and a tuple is made in half the time of a frozen dataclass.
    """

    text: str
    tag: Rank | None = None
    stamped: bool = False
    core: Rank | None = None  # whose rank it is, or which says it itself
    process: str | None = None  # by the engine's own word


@dataclass(slots=True)
class RankMemory:
    """What was learned about who is who; plain data, kept with the tracker's state."""

    pids: dict[str, Rank] = field(default_factory=dict)  # "member:pid"
    owners: dict[Rank, Member] = field(default_factory=dict)  # who used a tag first
    cores: Cores = field(default_factory=Cores)


def read_parts(engine: EngineFile, reading: str) -> tuple[Said, ...]:
    """Take a line apart. A bar may stand before a stamp on the same line: those are two things said."""
    if "\n" in reading:
        return tuple(part for each in reading.split("\n") for part in read_parts(engine, each))
    reader = engine.reader
    match = reader.find_stamp(reading)
    if match is None:
        return (_unstamped(engine, reading),)
    tags = match["ranks"]
    begin, end = match.span()
    tag = Rank(reader.read_tag(tags)) if tags else None
    if reader.core is None:
        said = Said(reading[end:], tag, True)
    else:
        said = Said(reading[end:], tag, True, _core(engine, tag, match["core"]), match["process"])
    if begin and "%" in reading[:begin]:
        return (Said(reading[:begin]), said)
    return (said,)


def _core(engine: EngineFile, tag: Rank | None, number: str | None) -> Rank | None:
    """By the tag of its rank, else by the stamp."""
    within = engine.reader.core.match(tag) if tag is not None and engine.reader.core is not None else None
    if within is not None:
        return Rank(within[0])
    return Rank((engine.prefix.core or "").format(number)) if number else None


def _unstamped(engine: EngineFile, reading: str) -> Said:
    reader = engine.reader
    for pattern in reader.untagged:
        match = pattern.match(reading)
        if match is not None:
            return Said(reading[match.end() :], Rank(engine.prefix.tag.format(match["rank"])))
    return Said(reading)


def read_rank(memory: RankMemory, said: Said, *, pid: int | None, member: Member) -> Rank:
    """The rank that said it; MAIN_RANK when nothing tells. Learns the process behind a tag."""
    process = None if pid is None else f"{member}:{pid}"
    tag = said.tag
    if said.core is not None or memory.cores.several:
        tag = tell_apart(memory.cores, tag, core=said.core, process=said.process)
    if tag is None:
        return memory.pids.get(process or "", MAIN_RANK)
    rank = _owned(memory, tag if said.stamped else _full(memory, tag), member)
    if process is not None and said.stamped and memory.pids.get(process) != rank:
        memory.pids[process] = rank
        while len(memory.pids) > MOST_PROCESSES:
            del memory.pids[next(iter(memory.pids))]
    return rank


def _full(memory: RankMemory, tag: Rank) -> Rank:
    """`[rank6]` tells no more than a number: the one known rank with that number, where there is one."""
    if tag in memory.owners:
        return tag
    alike = [rank for rank in memory.owners if tag in rank.split(" ")]
    return alike[0] if len(alike) == 1 else tag


def _owned(memory: RankMemory, rank: Rank, member: Member) -> Rank:
    """Replicas on several hosts use the same tags: only the first keeps it bare."""
    if rank not in memory.owners and len(memory.owners) >= MOST_RANKS:
        return MAIN_RANK
    if memory.owners.setdefault(rank, member) == member:
        return rank
    host = member.partition("/")[0]
    named = Rank(f"{host} {rank}")
    memory.owners.setdefault(named, member)
    return named


def in_order(rank: Rank) -> tuple[str | int, ...]:
    """A sort key that puts TP10 behind TP9."""
    return tuple(int(part) if part.isdigit() else part for part in _NUMBER.split(rank))

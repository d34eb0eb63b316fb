"""Engines of several cores, each with ranks of its own: whose a rank is, for whom a core speaks, who lacks.

With one core alone its name tells nothing, and its words are nobody's in particular. vLLM's data parallelism
is such a thing: `EngineCore_DP1` leads `DP1 TP0` and `DP1 TP1`. Models that need no common step are told
nothing of it: both cores call their workers `TP0`, which then are told apart by process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.core.events import MAIN_RANK, Rank

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_CORES = 1024  # and processes with one tag: whoever is one more is nobody in particular

_NUMBER = re.compile(r"\d+")


@dataclass(slots=True)
class Cores:
    """What was learned about them; plain data."""

    heard: dict[Rank, bool] = field(default_factory=dict)  # and whether it said something itself
    several: bool = False
    workers: dict[Rank, list[str]] = field(default_factory=dict)  # processes that use a tag without a core
    done: list[Rank] = field(default_factory=list)
    told: int = 0  # how many the node said it starts

    @property
    def first(self) -> Rank | None:
        """The one that spoke while it seemed to be alone."""
        first, spoke = next(iter(self.heard.items()))
        return first if spoke and len(self.heard) > 1 else None


def tell_apart(cores: Cores, tag: Rank | None, *, core: Rank | None, process: str | None) -> Rank | None:
    """The tag with the core that it belongs to; where cores give the same tag, the process."""
    if core is None:
        if not cores.several or tag is None or process is None:
            return tag
        processes = cores.workers.setdefault(tag, [])
        if process not in processes and len(processes) < MOST_CORES:
            processes.append(process)
        return Rank(f"pid{process} {tag}") if process in processes[1:] else tag
    if core not in cores.heard and len(cores.heard) >= MOST_CORES:
        return tag
    cores.heard[core] = cores.heard.get(core, False) or tag is None
    cores.several = cores.several or len(cores.heard) > 1 or int(_NUMBER.findall(core)[-1]) > 0
    if not cores.several or tag is None:
        return core if cores.several else tag
    return tag if core_of(cores, tag) else Rank(f"{core} {tag}")


def core_of(cores: Cores, rank: Rank) -> Rank | None:
    """The core that leads the rank, or is it."""
    words = rank.split(" ")
    for index, word in enumerate(words):
        if word in cores.heard:
            return Rank(" ".join(words[: index + 1]))
    return None


def without_leaders(cores: Cores, ranks: tuple[Rank, ...]) -> tuple[Rank, ...]:
    """A core that leads ranks is none itself."""
    if not cores.several:
        return ranks
    leaders = {core for rank in ranks if (core := core_of(cores, rank)) != rank}
    return tuple(
        rank for rank in ranks if rank not in leaders and not (None in leaders and rank in cores.heard)
    )


def find_missing(cores: Cores, known: Iterable[Rank]) -> set[Rank | None]:
    """The cores that are not done; None for those of which nothing is known but their workers or number."""
    led = {core_of(cores, rank) for rank in known if rank != MAIN_RANK}
    alike = max((len(each) for each in cores.workers.values()), default=0) if None in led else 0
    silent = {None} if len(cores.done) < max(alike, cores.told) else set()
    heard = cores.heard if cores.several else ()
    return ({*heard, *led} - {None, *cores.done}) | silent

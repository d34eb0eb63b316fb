"""The words of chat for durations, phases, ranks and people: plain values in, short plain text out."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from bot.core.events import PhaseId, Rank, Role, Verb

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import timedelta

_MINUTE = 60
_HOUR = 3600
_DAY = 86400
_NEARLY_AN_HOUR = 55
_SHORT = 1.0  # seconds; below this a tenth matters
_NOTHING = 0.05  # rounds to no tenth
_MOST_RANKS = 4


class Searched(StrEnum):
    """The words people search a channel for; each stands only in the messages it belongs to."""

    HEALTHY = "healthy"
    FAILED = "failed"
    STALLED = "stalled"
    MOVING_AGAIN = "moving again"
    OUTSIDE_CHAT = "started outside chat"
    RESUMED = "resumed"
    RESOLVED = "resolved"


# What the service does in a phase ("loading weights"), what a thing it is ("weight loading"), how it is
# marked in one word ("weights"), and what is said once it is over ("Weights loaded in 5m").
_DOING: dict[PhaseId, str] = {
    PhaseId.STOPPING: "stopping the old process",
    PhaseId.PROCESS: "starting the process",
    PhaseId.DISTRIBUTED: "connecting the ranks",
    PhaseId.WEIGHTS: "loading weights",
    PhaseId.MEMORY: "allocating KV memory",
    PhaseId.COMPILE: "compiling kernels",
    PhaseId.GRAPHS: "capturing CUDA graphs",
    PhaseId.SERVER: "opening the server",
    PhaseId.WARMUP: "warming up",
    PhaseId.SMOKE: "running the smoke test",
    PhaseId.READY: "checking that it stays up",
}
_NOUN: dict[PhaseId, str] = {
    PhaseId.STOPPING: "stopping",
    PhaseId.PROCESS: "process start",
    PhaseId.DISTRIBUTED: "rank connection",
    PhaseId.WEIGHTS: "weight loading",
    PhaseId.MEMORY: "memory allocation",
    PhaseId.COMPILE: "compilation",
    PhaseId.GRAPHS: "graph capture",
    PhaseId.SERVER: "server start",
    PhaseId.WARMUP: "warm-up",
    PhaseId.SMOKE: "the smoke test",
    PhaseId.READY: "the last check",
}
_LABEL: dict[PhaseId, str] = {
    PhaseId.STOPPING: "stop",
    PhaseId.PROCESS: "process",
    PhaseId.DISTRIBUTED: "distributed",
    PhaseId.WEIGHTS: "weights",
    PhaseId.MEMORY: "memory",
    PhaseId.COMPILE: "compile",
    PhaseId.GRAPHS: "graphs",
    PhaseId.SERVER: "server",
    PhaseId.WARMUP: "warm-up",
    PhaseId.SMOKE: "smoke test",
    PhaseId.READY: "stays up",
}
_DONE: dict[PhaseId, str] = {
    PhaseId.STOPPING: "old process stopped",
    PhaseId.PROCESS: "process started",
    PhaseId.DISTRIBUTED: "ranks connected",
    PhaseId.WEIGHTS: "weights loaded",
    PhaseId.MEMORY: "KV memory allocated",
    PhaseId.COMPILE: "kernels compiled",
    PhaseId.GRAPHS: "CUDA graphs captured",
    PhaseId.SERVER: "server opened",
    PhaseId.WARMUP: "warmed up",
    PhaseId.SMOKE: "smoke test passed",
    PhaseId.READY: "stayed up",
}
_UNITS: dict[PhaseId, str] = {PhaseId.WEIGHTS: "shards", PhaseId.GRAPHS: "batch sizes"}
_DOING_VERB: dict[Verb, str] = {
    Verb.RESTART: "restarting",
    Verb.START: "starting",
    Verb.STOP: "stopping",
    Verb.WATCH: "starting",
}
_DONE_VERB: dict[Verb, str] = {
    Verb.RESTART: "restarted",
    Verb.START: "started",
    Verb.STOP: "stopped",
    Verb.WATCH: "watched",
}


def spell_duration(span: timedelta) -> str:
    """Exact and short: `0.4s`, `14s`, `5m`, `5m04s`, `1h02m`, `2d03h`; never negative."""
    exact = max(span.total_seconds(), 0.0)
    if _NOTHING <= exact < _SHORT - _NOTHING:
        return f"{exact:.1f}s"
    seconds = round(exact)
    if seconds < _MINUTE:
        return f"{seconds}s"
    if seconds < _HOUR:
        return _pair(seconds, _MINUTE, "m", "s")
    if seconds < _DAY:
        return _pair(seconds // _MINUTE, _MINUTE, "h", "m")
    return _pair(seconds // _HOUR, 24, "d", "h")


def _pair(small: int, per_large: int, large_unit: str, small_unit: str) -> str:
    large, rest = divmod(small, per_large)
    return f"{large}{large_unit}{rest:02d}{small_unit}" if rest else f"{large}{large_unit}"


def spell_estimate(span: timedelta) -> str:
    """Rounded as an estimate deserves: `less than a minute`, `about 4 min`, `about 1 h 10 min`."""
    minutes = max(span.total_seconds(), 0.0) / _MINUTE
    if minutes < 1:
        return "less than a minute"
    if minutes < _NEARLY_AN_HOUR:
        return f"about {round(minutes)} min"
    hours, rest = divmod(round(minutes / 10) * 10, _MINUTE)
    return f"about {hours} h {rest} min" if rest else f"about {hours} h"


def spell_span(least: timedelta, most: timedelta) -> str:
    """An estimate that says how sure it is: `about 4 to 6 min`; one number where both round to it."""
    low, high = (round(max(span.total_seconds(), 0.0) / _MINUTE) for span in (least, most))
    if low == high or high > _NEARLY_AN_HOUR:
        return spell_estimate(most if high <= 1 else (least + most) / 2)
    return f"about {low} to {high} min" if low else f"up to {high} min"


def spell_usual(took: timedelta, usual: timedelta | None) -> str:
    """`5m04s (usual 5m10s)`, or the duration alone where no usual is known."""
    told = spell_duration(took)
    return told if usual is None else f"{told} (usual {spell_duration(usual)})"


def name_doing(phase: PhaseId, role: Role) -> str:
    """What the service does: `loading weights`, `loading weights of the draft model`."""
    return _DOING[phase] + (" of the draft model" if role is Role.DRAFT else "")


def name_ranks_doing(phase: PhaseId, role: Role) -> str:
    """The same of ranks: `8 of 8 ranks connecting`."""
    return "connecting" if phase is PhaseId.DISTRIBUTED else name_doing(phase, role)


def name_phase(phase: PhaseId, role: Role) -> str:
    """The phase as a thing: `weight loading`, `graph capture of the draft model`."""
    return _NOUN[phase] + (" of the draft model" if role is Role.DRAFT else "")


def label_phase(phase: PhaseId, role: Role) -> str:
    """The phase as a mark or a table row: `weights`, `draft weights`."""
    return ("draft " if role is Role.DRAFT else "") + _LABEL[phase]


def name_done(phase: PhaseId, role: Role) -> str:
    """What is said once it is over, as the start of a sentence: `Weights loaded`."""
    told = ("draft model: " if role is Role.DRAFT else "") + _DONE[phase]
    return told[0].upper() + told[1:]


def name_units(phase: PhaseId) -> str:
    """What a phase's progress counts: `shards`; "steps" where nobody knows better."""
    return _UNITS.get(phase, "steps")


def name_verb_doing(verb: Verb) -> str:
    return _DOING_VERB[verb]


def name_verb_done(verb: Verb) -> str:
    return _DONE_VERB[verb]


def draw_bar(fraction: float, *, width: int = 12) -> str:
    """`▓▓▓░░`; full only when all of it is done."""
    filled = int(min(max(fraction, 0.0), 1.0) * width)
    return "▓" * filled + "░" * (width - filled)


def count(number: int, noun: str) -> str:
    """`1 rank`, `8 ranks`, `4,212 lines`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def end_sentence(words: str) -> str:
    """`words` with one mark at their end: what others told may have one already."""
    return words if words.endswith((".", "!", "?", "…")) else f"{words}."


def join_names(names: Iterable[str], *, last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    listed = list(names)
    if len(listed) <= 1:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} {last} {listed[-1]}"


def name_ranks(ranks: Sequence[Rank]) -> str:
    """The ranks by name, at most four: `TP3`, `TP0, TP3 and 2 more`."""
    shown = [str(rank) for rank in ranks[:_MOST_RANKS]]
    if len(ranks) > _MOST_RANKS:
        shown.append(f"{len(ranks) - _MOST_RANKS} more")
    return join_names(shown)

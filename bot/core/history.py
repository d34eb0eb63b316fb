"""Durations of past startups over time as plain data: what their picture shows, and the same in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from bot.core.actions import Verdict
from bot.core.baseline import phase_key
from bot.core.events import PhaseId, Role, Verb
from bot.core.picture_words import MOST_ALT, shorten
from bot.core.words import count, join_names, label_phase, spell_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bot.core.account import PastStartup

MOST_COLUMNS = 30
_MOST_LAYERS = 5  # phases with a layer of their own
_MOST_TOLD = 8  # startups that the alt text tells one by one
_CEILING = 1.5  # times the longest healthy start: what failed after hours must not flatten the others
_UNWORKED = frozenset({PhaseId.READY})  # a wait of our own choice, and no work of the service
_DRAWN = frozenset({Verdict.HEALTHY, Verdict.FAILED})

Layer: TypeAlias = tuple[PhaseId, Role]


@dataclass(frozen=True, slots=True)
class Column:
    """One startup. `parts`: seconds by layer, in the order of the layers; `rest`: what no layer holds."""

    began: datetime
    good: bool
    total: float
    parts: tuple[float, ...]
    rest: float


@dataclass(frozen=True, slots=True)
class History:
    """Oldest first. `usual`: seconds of a healthy start, where that is known."""

    title: str
    layers: tuple[Layer, ...]
    columns: tuple[Column, ...]
    usual: float | None = None

    @property
    def ceiling(self) -> float:
        """Seconds up to which columns are drawn; what took longer is cut there."""
        most = max((column.total for column in self.columns), default=0.0)
        healthy = [column.total for column in self.columns if column.good]
        known = [*healthy, self.usual] if self.usual is not None else healthy
        return max(min(most, max(known) * _CEILING) if known else most, max(known, default=0.0), 1.0)

    @property
    def cut(self) -> tuple[Column, ...]:
        """Those that stand above the ceiling."""
        return tuple(column for column in self.columns if column.total > self.ceiling)


def make_history(
    title: str, startups: Iterable[PastStartup], *, usual: timedelta | None = None
) -> History | None:
    """The newest startups that came to a verdict; None where there is none to draw."""
    ended = [each for each in startups if each.verdict in _DRAWN and each.verb is not Verb.STOP]
    drawn = sorted(ended, key=lambda each: each.began)[-MOST_COLUMNS:]
    if not drawn:
        return None
    layers = _layers(drawn)
    columns = tuple(_column(each, layers) for each in drawn)
    seconds = usual.total_seconds() if usual is not None else _usual_of(columns)
    return History(title, layers, columns, seconds)


def _usual_of(columns: Sequence[Column]) -> float | None:
    totals = [each.total for each in columns if each.good]
    return median(totals) if len(totals) > 1 else None


def _layers(startups: Sequence[PastStartup]) -> tuple[Layer, ...]:
    """The phases that took most over all, in the order of a start."""
    sums: dict[str, float] = {}
    order: dict[str, Layer] = {}
    for startup in startups:
        for each in startup.account.phases:
            if each.phase in _UNWORKED:
                continue
            key = phase_key(each.phase, each.role)
            sums[key] = sums.get(key, 0.0) + each.own
            order.setdefault(key, (each.phase, each.role))
    most = sorted(sums, key=lambda key: sums[key], reverse=True)[:_MOST_LAYERS]
    places = {phase: place for place, phase in enumerate(PhaseId)}
    return tuple(
        sorted((order[key] for key in most), key=lambda layer: (places[layer[0]], layer[1] != "target"))
    )


def _column(startup: PastStartup, layers: tuple[Layer, ...]) -> Column:
    own = {(each.phase, each.role): each.own for each in startup.account.phases}
    total = startup.account.took if startup.account.took is not None else startup.took.total_seconds()
    parts = tuple(own.get(layer, 0.0) for layer in layers)
    return Column(
        began=startup.began,
        good=startup.verdict is Verdict.HEALTHY,
        total=max(total, sum(parts)),
        parts=parts,
        rest=max(total - sum(parts), 0.0),
    )


def describe_history(history: History) -> str:
    """The alt text: how many, the usual, the trend, and the newest one by one."""
    good = [each for each in history.columns if each.good]
    bad = len(history.columns) - len(good)
    sentences = [
        f"{history.title}: {count(len(history.columns), 'startup')}, {len(good)} healthy and {bad} failed.",
        f"Usual: {_spell(history.usual)}." if history.usual is not None else "",
        _extremes(good),
        _layer_words(history),
        _one_by_one(history),
    ]
    return shorten(" ".join(filter(None, sentences)), MOST_ALT)


def _spell(seconds: float) -> str:
    return spell_duration(timedelta(seconds=seconds))


def _extremes(good: Sequence[Column]) -> str:
    if len(good) < 2:  # noqa: PLR2004 - one alone is neither
        return ""
    quick, slow = min(good, key=lambda each: each.total), max(good, key=lambda each: each.total)
    return f"Quickest: {_spell(quick.total)} ({_day(quick)}); slowest: {_spell(slow.total)} ({_day(slow)})."


def _layer_words(history: History) -> str:
    """What the layers came to in the newest startup that has them."""
    for column in reversed(history.columns):
        told = [
            f"{label_phase(*layer)} {_spell(seconds)}"
            for layer, seconds in zip(history.layers, column.parts, strict=True)
            if seconds > 0
        ]
        if told:
            return f"The newest spent: {join_names(told)}."
    return ""


def _one_by_one(history: History) -> str:
    newest = list(reversed(history.columns))[:_MOST_TOLD]
    told = [
        f"{each.began:%d %b %H:%M} {'healthy' if each.good else 'failed'} {_spell(each.total)}"
        for each in newest
    ]
    return f"Newest first: {', '.join(told)}."


def _day(column: Column) -> str:
    return f"{column.began:%d %b}"

"""A startup's waterfall as plain data: what its picture shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median_low
from typing import TYPE_CHECKING

from bot.core.account import are_apart, rank_times
from bot.core.actions import Mark
from bot.core.baseline import Usual
from bot.core.events import MAIN_RANK, PhaseId, Rank, Role
from bot.core.patience import HARDLY, SLOW
from bot.core.ranks import in_order
from bot.core.words import label_phase, spell_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bot.core.findings import PhaseRecord

MOST_LANES = 16  # rows of ranks that a phone can show: those of two nodes
_NO_TIME = datetime.min.replace(tzinfo=UTC)  # what stands for the time of a line that has none


@dataclass(frozen=True, slots=True)
class Bar:
    """One phase of one lane, in seconds since the first phase began."""

    phase: PhaseId
    role: Role
    began: float
    ended: float
    mark: Mark = Mark.DONE
    inner: bool = False  # it ran while another phase of the lane went on


@dataclass(frozen=True, slots=True)
class Lane:
    """One row. `note`: what is special about its rank, in a word."""

    name: str
    bars: tuple[Bar, ...]
    note: str = ""
    mark: Mark = Mark.DONE


@dataclass(frozen=True, slots=True)
class Share:
    """What one phase took in all. `took`: None where it went wrong before the log came to it."""

    phase: PhaseId
    role: Role
    took: timedelta | None
    usual: timedelta | None = None
    mark: Mark = Mark.DONE

    @property
    def label(self) -> str:
        return label_phase(self.phase, self.role)

    @property
    def slow(self) -> bool:
        """Longer than usual by more than starts differ anyway."""
        known = self.took is not None and self.usual is not None
        return known and took_by(self) > (self.usual or timedelta()) * SLOW + HARDLY


@dataclass(frozen=True, slots=True)
class Subject:
    """What the picture is about. `verdict`: how it ended and after how long, in a few words; `sign`: in one.

    `wrong`: the phase that failed or stalled, marked with `mark`; `rank`: who failed, where that is known.
    `also`: another failure, apart from it; `also_rank`: whose.
    `until`: when it ended, on the clock of the records.
    """

    title: str
    verdict: str
    sign: str = "✓"
    until: datetime | None = None
    wrong: tuple[PhaseId, Role] | None = None
    mark: Mark = Mark.FAILED
    rank: Rank | None = None
    cause: str = ""
    usual: Usual = field(default_factory=Usual)
    also: str = ""
    also_rank: Rank | None = None

    @property
    def told(self) -> str:
        """The cause, and beside another one whose it is."""
        apart = self.also and self.cause and self.rank not in {None, MAIN_RANK}
        return f"{self.rank}: {self.cause}" if apart else self.cause

    @property
    def blamed(self) -> tuple[Rank, ...]:
        """Who failed by themselves; empty where that is not known."""
        return tuple(rank for rank in dict.fromkeys((self.rank, self.also_rank)) if rank is not None)


@dataclass(frozen=True, slots=True)
class Waterfall:
    """`whole` is the startup, `lanes` its ranks; `seconds` the width. `untimed`: why it has no scale."""

    title: str
    verdict: str
    sign: str
    note: str  # who was slow, in one sentence; empty where nobody was
    whole: Lane
    lanes: tuple[Lane, ...]
    shares: tuple[Share, ...]
    seconds: float
    ranks: int
    untimed: str = ""
    cause: str = ""
    also: str = ""  # another failure

    @property
    def timed(self) -> bool:
        return not self.untimed


def make_waterfall(subject: Subject, records: Sequence[PhaseRecord]) -> Waterfall | None:
    """None where no phase was ever seen: there is nothing to show."""
    if not records:
        return None
    scale = _Scale.of(records, subject.until)
    wrong = _wrong_record(subject, records)
    ranks = sorted({rank for each in records for rank in each.ranks if rank != MAIN_RANK}, key=in_order)
    spread = _Spread.of(records, scale)
    shown = _choose(ranks, spread, subject.blamed)
    lanes = tuple(_lane(rank, note, subject, records, scale=scale, wrong=wrong) for rank, note in shown)
    bars = tuple(_bar(index, subject, records, scale=scale, wrong=wrong) for index in range(len(records)))
    shares = _shares(subject, records, scale=scale, wrong=wrong)
    seconds = max((bar.ended for bar in bars), default=0.0) or 1.0
    if subject.wrong is not None and wrong is None:  # before the log said a word of that phase
        bars = (*bars, Bar(*subject.wrong, seconds, seconds, subject.mark))
        shares = (*shares, Share(*subject.wrong, None, mark=subject.mark))
    return Waterfall(
        title=subject.title,
        verdict=subject.verdict,
        sign=subject.sign,
        note=spread.sentence if spread is not None and scale.timed else "",
        whole=Lane("all", _nest(bars)),
        lanes=lanes,
        shares=shares,
        seconds=seconds,
        ranks=len(ranks),
        untimed=scale.untimed,
        cause=subject.told,
        also=subject.also,
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """Turns times into seconds since the first; without times, places in the order of beginning."""

    began: datetime
    until: datetime

    @classmethod
    def of(cls, records: Sequence[PhaseRecord], until: datetime | None) -> _Scale:
        known = [time for each in records for time in _times_of(each) if time > _NO_TIME]
        began = min(known, default=_NO_TIME)
        last = max(known, default=_NO_TIME)
        return cls(began, max(last, until) if until is not None and known else last)

    @property
    def timed(self) -> bool:
        return self.until > self.began

    @property
    def untimed(self) -> str:
        if self.timed:
            return ""
        return "the log has no times" if self.until == _NO_TIME else "all its times are the same"

    def seconds(self, began: datetime, ended: datetime | None, *, place: int) -> tuple[float, float]:
        if not self.timed:
            return float(place), float(place + 1)
        left = max((began - self.began).total_seconds(), 0.0)
        return left, max(((ended or self.until) - self.began).total_seconds(), left)


def _times_of(record: PhaseRecord) -> Iterator[datetime]:
    yield record.began
    if record.ended is not None:
        yield record.ended
    for span in record.ranks.values():
        yield span.began
        if span.ended is not None:
            yield span.ended


def _wrong_record(subject: Subject, records: Sequence[PhaseRecord]) -> int | None:
    """The record to mark: the latest of the phase that went wrong; None where the log never came to it."""
    same = [index for index, each in enumerate(records) if (each.phase, each.role) == subject.wrong]
    return same[-1] if same else None


def _bar(
    index: int, subject: Subject, records: Sequence[PhaseRecord], *, scale: _Scale, wrong: int | None
) -> Bar:
    record = records[index]
    mark = subject.mark if index == wrong else Mark.DONE
    return Bar(record.phase, record.role, *scale.seconds(record.began, record.ended, place=index), mark)


def _nest(bars: tuple[Bar, ...]) -> tuple[Bar, ...]:
    """Outer bars first, so that inner ones are drawn over them."""
    told: list[Bar] = []
    for index, bar in enumerate(bars):
        inner = any(
            other.began <= bar.began and bar.ended <= other.ended and other.ended - other.began > 0
            for place, other in enumerate(bars)
            if place < index
        )
        told.append(Bar(bar.phase, bar.role, bar.began, bar.ended, bar.mark, inner))
    return tuple(sorted(told, key=lambda bar: bar.inner))


def _lane(
    rank: Rank,
    note: str,
    subject: Subject,
    records: Sequence[PhaseRecord],
    *,
    scale: _Scale,
    wrong: int | None,
) -> Lane:
    bars: list[Bar] = []
    for index, record in enumerate(records):
        span = record.ranks.get(rank)
        if span is None:
            continue
        left, right = scale.seconds(span.began, span.ended or record.ended, place=index)
        blamed = rank in subject.blamed or (subject.rank is None and span.ended is None)
        mark = subject.mark if index == wrong and blamed else Mark.DONE
        bars.append(Bar(record.phase, record.role, left, right, mark))
    worst = next((bar.mark for bar in bars if bar.mark is not Mark.DONE), Mark.DONE)
    if rank in subject.blamed and subject.wrong is not None:
        worst = subject.mark
    return Lane(str(rank), _nest(tuple(bars)), note, worst)


def _shares(
    subject: Subject, records: Sequence[PhaseRecord], *, scale: _Scale, wrong: int | None
) -> tuple[Share, ...]:
    shares: dict[tuple[PhaseId, Role], Share] = {}
    for index, record in enumerate(records):
        key = (record.phase, record.role)
        left, right = scale.seconds(record.began, record.ended, place=index)
        before = shares.get(key)
        took = timedelta(seconds=right - left) + took_by(before)
        mark = subject.mark if index == wrong else (before.mark if before else Mark.DONE)
        shares[key] = Share(*key, took, subject.usual.of(*key), mark)
    return tuple(shares.values())


def took_by(share: Share | None) -> timedelta:
    return (share.took if share is not None else None) or timedelta()


# ---- who was slow ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Spread:
    """The phase in which the ranks were furthest apart."""

    phase: PhaseId
    role: Role
    times: dict[Rank, timedelta]

    @classmethod
    def of(cls, records: Sequence[PhaseRecord], scale: _Scale) -> _Spread | None:
        spreads = [cls(each.phase, each.role, rank_times(each, scale.until)) for each in records]
        apart = [each for each in spreads if len(each.times) > 1 and are_apart(each.times.values())]
        return max(apart, key=lambda each: each.times[each.slowest] - each.times[each.fastest], default=None)

    @property
    def slowest(self) -> Rank:
        return max(self.times, key=lambda rank: self.times[rank])

    @property
    def fastest(self) -> Rank:
        return min(self.times, key=lambda rank: self.times[rank])

    @property
    def median(self) -> Rank:
        middle = median_low(self.times.values())
        others = (rank for rank, took in self.times.items() if took == middle)
        return next(rank for rank in others)

    @property
    def sentence(self) -> str:
        slow, quick = self.slowest, self.fastest
        told = f"{slow} {spell_duration(self.times[slow])}, {quick} {spell_duration(self.times[quick])}"
        return f"{label_phase(self.phase, self.role)}: slowest {told.replace(', ', ', fastest ', 1)}"


def _choose(ranks: Sequence[Rank], spread: _Spread | None, failed: Sequence[Rank]) -> list[tuple[Rank, str]]:
    """The ranks to show and what to remark: all where they fit, else those that tell most."""
    notes: dict[Rank, str] = {}
    if spread is not None:
        notes = {spread.fastest: "fastest", spread.slowest: "slowest"}
    if len(ranks) <= MOST_LANES:
        return [(rank, notes.get(rank, "")) for rank in ranks]
    chosen = [rank for rank in failed if rank in ranks]
    if spread is None:
        chosen += [rank for rank in (ranks[0], ranks[len(ranks) // 2], ranks[-1]) if rank not in chosen]
        return [(rank, "") for rank in chosen]
    behind = sorted(spread.times, key=lambda rank: spread.times[rank], reverse=True)
    notes = {spread.median: "median", **notes}
    wanted = (*chosen, *behind[:3], spread.median, spread.fastest)
    return [(rank, notes.get(rank, "")) for rank in dict.fromkeys(wanted)]

"""Where a saved log ends, and how that is told: as JSON, as text, as a picture."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.core.actions import Mark
from bot.core.cause import Cause
from bot.core.events import PhaseId, Rank, Role
from bot.core.findings import PhaseRecord
from bot.core.log_times import NOMINAL_YEAR
from bot.core.picture import Subject, Waterfall, make_waterfall
from bot.core.picture_words import say_where
from bot.core.words import count, spell_duration

NOWHEN = datetime.min.replace(tzinfo=UTC)  # before the log's first time
_MOST_EARLIER = 5  # causes of starts before the last one
_EXIT_CODES = {"ready": 0, "failed": 3, "stalled": 4, "starting": 5}
_SIGNS = {"ready": "✓", "failed": "✗", "stalled": "!", "starting": "…"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a log ends. `phase`: of a failure, the one in which its root lies.

    `idle`: how long its last line had been the last, where that was said. `earlier`: of what the starts in it
    failed that came before the last one.
    """

    engine: str
    state: str  # starting, ready, failed, stalled
    phase: PhaseId
    role: Role
    phases: tuple[PhaseRecord, ...]
    ranks: dict[Rank, PhaseId]
    cause: Cause | None
    lines: int
    unrecognised: int
    lagging: tuple[Rank, ...] = ()
    until: datetime | None = None  # the last time in the log
    idle: timedelta | None = None
    earlier: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self.state]

    def to_json(self) -> dict[str, Any]:
        return {
            "engine": self.engine,
            "state": self.state,
            "phase": self.phase,
            "role": self.role,
            "phases": [_phase_json(record) for record in self.phases],
            "ranks": dict(self.ranks),
            "cause": _cause_json(self.cause),
            "lines": self.lines,
            "unrecognised": self.unrecognised,
        }

    def to_text(self) -> str:
        """A summary to read."""
        served = self.state == "failed" and self.phase is PhaseId.READY
        where = "after it was ready" if served else _named(self.phase, self.role)
        rows = [f"{self.engine}: {self.state} ({where}){self._silent()}", ""]
        rows += [_row(record) for record in self.phases]
        if self.lagging:
            rows += ["", "behind: " + ", ".join(self.lagging)]
        if self.cause is not None:
            rows += ["", self.cause.title, *(f"  {line}" for line in self.cause.evidence)]
            rows += _counsel(self.cause)
        if self.earlier:
            rows += ["", *_before(self.earlier)]
        rows += ["", f"{count(self.lines, 'line')}, {self.unrecognised} not recognised{self._doubt()}"]
        return "\n".join(rows)

    def _doubt(self) -> str:
        """A log of something else, or of nothing, would pass for a start that has only begun."""
        if not self.lines:
            return ": the log is empty, so nothing is known of a start"
        if self.unrecognised < self.lines:
            return ""
        return (
            f": nothing here is of {self.engine}, so nothing is known of a start; is it the engine's own log?"
        )

    def waterfall(self) -> Waterfall | None:
        """What `--chart` draws; None where the log shows no phase."""
        wrong = (self.phase, self.role) if self.state in {"failed", "stalled"} else None
        subject = Subject(
            title=self.engine,
            verdict=self._verdict(),
            sign=_SIGNS[self.state],
            until=self.until,
            wrong=wrong,
            mark=Mark.STALLED if self.state == "stalled" else Mark.FAILED,
            rank=self.cause.rank if self.cause is not None else None,
            cause=self.cause.title if self.cause is not None else "",
            also=(self.cause.also or "") if self.cause is not None else "",
            also_rank=self.cause.also_rank if self.cause is not None else None,
        )
        return make_waterfall(subject, self.phases)

    def _verdict(self) -> str:
        """`ready after 7m31s`, `failed after 3m02s in weights`, `stalled after 2m, silent for 1h`."""
        open_until = self.until if self.state != "ready" else None
        ends = [record.ended or open_until for record in self.phases]
        began = [record.began for record in self.phases if record.began > NOWHEN]
        last = max((end for end in ends if end is not None), default=NOWHEN)
        took = f" after {spell_duration(last - min(began))}" if began and last > NOWHEN else ""
        where = "" if self.state == "ready" else f" {say_where(self.phase, self.role)}"
        return f"{self.state}{took}{where}{self._silent()}"

    def _silent(self) -> str:
        if not self.idle or self.state not in {"starting", "stalled"}:
            return ""
        return f", silent for {spell_duration(self.idle)}"


def _counsel(cause: Cause) -> list[str]:
    """What it means and what to try, as a thread says it."""
    advice = f"Try: {cause.advice}" if cause.advice else ""
    also = f"Another failure, apart from it: {cause.also}." if cause.also else ""
    return [row for row in (cause.means, advice, also) if row]


def _before(earlier: tuple[str, ...]) -> list[str]:
    """The commonest causes first; a crash loop has mostly one."""
    told = Counter(earlier).most_common()
    rows = [f"  {_say_times(times)}: {title}" for title, times in told[:_MOST_EARLIER]]
    rest = sum(times for _, times in told[_MOST_EARLIER:])
    return [
        f"{count(len(earlier), 'start')} before it in this log failed:",
        *rows,
        *([f"  {_say_times(rest)}: something else"] if rest else []),
    ]


def _say_times(times: int) -> str:
    return "once" if times == 1 else f"{times} times"


def _time_json(at: datetime | None) -> str | None:
    return (
        None
        if at is None or at.year <= NOMINAL_YEAR
        else at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    )


def _seconds(began: datetime, ended: datetime | None) -> float | None:
    if ended is None or NOWHEN in {began, ended}:
        return None
    return round((ended - began).total_seconds(), 3)


def _phase_json(record: PhaseRecord) -> dict[str, Any]:
    progress = record.progress
    return {
        "id": record.phase,
        "role": record.role,
        "started": _time_json(record.began),
        "ended": _time_json(record.ended),
        "seconds": _seconds(record.began, record.ended),
        "progress": None if progress is None else {"done": progress.done, "total": progress.total},
        "ranks": {
            rank: {"ended": _time_json(span.ended), "seconds": _seconds(span.began, span.ended)}
            for rank, span in record.ranks.items()
        },
    }


def _cause_json(cause: Cause | None) -> dict[str, Any] | None:
    if cause is None:
        return None
    return {
        "id": cause.id,
        "title": cause.title,
        "evidence": list(cause.evidence),
        "advice": cause.counsel,
    }


def _named(phase: PhaseId, role: Role) -> str:
    return phase if role is Role.TARGET else f"{phase}, {role}"


def _row(record: PhaseRecord) -> str:
    seconds = _seconds(record.began, record.ended)
    took = f"{seconds:10.1f} s" if seconds is not None else f"{'…' if record.ended is None else '?':>12}"
    progress = f"  {record.progress.done}/{record.progress.total}" if record.progress else ""
    return f"  {_named(record.phase, record.role):<20}{took}{progress}"

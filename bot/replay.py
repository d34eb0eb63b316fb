"""A saved log through the same core that follows a live one: where it stands, and why it failed if it did."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, BinaryIO

from bot.core.actions import Mark
from bot.core.cause import Cause, name_cause
from bot.core.diagnosis import Suspects
from bot.core.events import MAIN_RANK, LogLine, Member, Origin, PhaseId, Rank, Role
from bot.core.findings import FailureSaid, PhaseBegan, PhaseRecord
from bot.core.log_times import NOMINAL_YEAR
from bot.core.phases import Tracker
from bot.core.picture import Subject, Waterfall, make_waterfall, say_where
from bot.core.recognition import recognise
from bot.core.redact import Redactor
from bot.core.transcript import Transcript
from bot.core.transcript_unit import find_unit
from bot.core.words import spell_duration
from bot.core.wrapping import find_wrapping
from config.engine_file import AUTO, load_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from config.engine_file import EngineFile

_CHUNK = 1 << 20
_LOOK = 5000  # lines that may pass before the engine must have shown itself
_LEAD = 20  # lines more than any other engine has; a saved log can quote another one's
_MOST_SAID = 8  # lines of systemd that are shown
_NOWHEN = datetime.min.replace(tzinfo=UTC)  # before the log's first time
_MEMBER = Member("log")
_EXIT_CODES = {"ready": 0, "failed": 3, "stalled": 4, "starting": 5}
_SIGNS = {"ready": "✓", "failed": "✗", "stalled": "!", "starting": "…"}
_EXITED = re.compile(r"Main process exited, code=(?P<code>\w+), status=(?P<status>\d+)")
# What of systemd's words weighs more than an error in the log, and what more than mere follow-ups.
_OVERRULES = re.compile(r"oom-kill|killed by the OOM killer")
_KNOWS_BETTER = re.compile(
    r"oom-kill|killed by the OOM killer|result '(?:timeout|watchdog|start-limit-hit)'"
    r"|status=2\d\d/|code=dumped"
)
_FAILED = re.compile(
    r": Failed with result '|Failed to start |killed by the OOM killer|: [Ss]tart[\w-]* operation timed out"
)
# By systemd, which waited for the end of it in vain.
_KILLED = re.compile(r"timed out\. Killing|with signal SIGKILL|result 'timeout'")
_MOST_SAID = 8  # lines of systemd that are shown
_NOWHEN = datetime.min.replace(tzinfo=UTC)  # before the log's first time
_MEMBER = Member("log")
_EXIT_CODES = {"ready": 0, "failed": 3, "stalled": 4, "starting": 5}
_SIGNS = {"ready": "✓", "failed": "✗", "stalled": "!", "starting": "…"}
_EXITED = re.compile(r"Main process exited, code=(?P<code>\w+), status=(?P<status>\d+)")
# What of systemd's words weighs more than an error in the log, and what more than mere follow-ups.
_OVERRULES = re.compile(r"oom-kill|killed by the OOM killer")
_KNOWS_BETTER = re.compile(
    r"oom-kill|killed by the OOM killer|result '(?:timeout|watchdog|start-limit-hit)'"
    r"|status=2\d\d/|code=dumped"
)
_FAILED = re.compile(
    r": Failed with result '|Failed to start |killed by the OOM killer|: [Ss]tart[\w-]* operation timed out"
)
_KILLED = re.compile(
    r"timed out\. Killing|with signal SIGKILL|result 'timeout'"
)  # by systemd, which lost patience


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a log ends. `phase`: of a failure, the one in which its root lies."""

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
        rows = [f"{self.engine}: {self.state} ({_named(self.phase, self.role)})", ""]
        rows += [_row(record) for record in self.phases]
        if self.lagging:
            rows += ["", "behind: " + ", ".join(self.lagging)]
        if self.cause is not None:
            rows += ["", self.cause.title, *(f"  {line}" for line in self.cause.evidence), self.cause.counsel]
        rows += ["", f"{self.lines} lines, {self.unrecognised} not recognised"]
        return "\n".join(rows)

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
        )
        return make_waterfall(subject, self.phases)

    def _verdict(self) -> str:
        """`ready after 7m31s`, `failed after 3m02s in weights`."""
        open_until = self.until if self.state != "ready" else None
        ends = [record.ended or open_until for record in self.phases]
        began = [record.began for record in self.phases if record.began > _NOWHEN]
        last = max((end for end in ends if end is not None), default=_NOWHEN)
        took = f" after {spell_duration(last - min(began))}" if began and last > _NOWHEN else ""
        where = "" if self.state == "ready" else f" {say_where(self.phase, self.role)}"
        return f"{self.state}{took}{where}"


def replay(stream: BinaryIO, *, engine: str, idle: timedelta | None = None) -> Outcome:
    """Read a saved log to its end. `engine`: a name, a path, "auto"; `idle`: the age of its last line."""
    lines = _read_lines(stream)
    head = list(islice(lines, _LOOK))
    chosen = recognise(head, lead=_LEAD) if engine == AUTO else load_engine(engine)
    wrapping = find_wrapping(chosen, (line.reading for line in head))
    reading = _Reading(chosen, unit=find_unit(head))
    for line in chain(head, lines):
        reading.take(wrapping.unwrap(line))
    return reading.outcome(idle)


def _read_lines(stream: BinaryIO) -> Iterator[LogLine]:
    transcript = Transcript(Redactor())
    while data := stream.read(_CHUNK):
        yield from transcript.feed(data)
    yield from transcript.close()


@dataclass(slots=True)
class _Start:
    """One start of the service within the log; the last one counts."""

    tracker: Tracker
    suspects: Suspects
    stopping: bool = False
    ended: list[str] = field(default_factory=list)  # systemd's lines about its end
    stopped: list[str] = field(default_factory=list)  # and about its stop, where it was told to

    @property
    def has_failed(self) -> bool:
        return bool(self.ended) or self.suspects.is_proven

    @property
    def was_killed(self) -> bool:
        """While it was stopped, because it did not end."""
        return any(_KILLED.search(text) for text in self.stopped)

    @property
    def says_little(self) -> bool:
        """What processes print while they are stopped is no reason why they end."""
        root = self.suspects.root() if self.stopping else None
        return root is not None and (not root.fatal or (root.secondary and self.was_killed))

    @property
    def is_over(self) -> bool:
        return self.has_failed or self.stopping

    @property
    def is_under_way(self) -> bool:
        began = {record.phase for record in self.tracker.phases()}
        return self.tracker.state.ready or bool(began - {PhaseId.PROCESS, PhaseId.DISTRIBUTED})


class _Reading:
    """Takes a log line by line."""

    def __init__(self, engine: EngineFile, *, unit: str | None = None) -> None:
        self._engine = engine
        self._unit = unit
        self._start = _Start(Tracker(engine), Suspects(engine=engine))
        self._at = _NOWHEN
        self._invocation: str | None = None
        self._lines = 0
        self._unrecognised = 0

    def take(self, line: LogLine) -> None:
        self._lines += not line.partial
        self._at = line.at or self._at
        if line.origin is Origin.MANAGER:
            if self._unit is None or line.fields.get("UNIT", self._unit) == self._unit:
                self._hear_manager(line.reading)
            return
        if line.origin is Origin.JOURNALD:
            return
        self._notice_start(line)
        start = self._start
        findings = start.tracker.read(line, member=_MEMBER, at=self._at)
        if not (start.tracker.phases() or findings or start.tracker.state.ready) and line.reading.strip():
            start.tracker.begin(PhaseId.PROCESS, self._at)
        if any(isinstance(each, PhaseBegan) and each.phase is PhaseId.STOPPING for each in findings):
            start.stopping = not start.suspects.is_proven
            start.stopped.append(line.reading)
        phase, role = self._where_it_failed(findings)
        start.suspects.note(line, findings, phase=phase, role=role)

    def _where_it_failed(self, findings: tuple[object, ...]) -> tuple[PhaseId, Role]:
        """The phase of the rank that speaks of a failure, where it is in one of its own."""
        said = next((each for each in findings if isinstance(each, FailureSaid)), None)
        if said is None and not self._start.suspects.state.traces:
            return PhaseId.PROCESS, Role.TARGET  # nobody asks
        if said is not None and said.rank != MAIN_RANK:
            for view in self._start.tracker.places():
                if view.rank == said.rank and not view.ended:
                    return view.phase, view.role
        return self._start.tracker.current()

    # ---- several starts in one log ------------------------------------------------------------------------

    def _notice_start(self, line: LogLine) -> None:
        renewed = line.invocation is not None and self._invocation not in {None, line.invocation}
        if line.invocation is not None:
            self._invocation = line.invocation
        if renewed or (
            (self._start.is_over or self._start.is_under_way) and self._engine.reader.starts(line.reading)
        ):
            self._begin_anew()

    def _begin_anew(self) -> None:
        self._unrecognised += self._start.tracker.state.unrecognised
        self._start = _Start(Tracker(self._engine), Suspects(engine=self._engine))

    def _hear_manager(self, text: str) -> None:
        start = self._start
        exited = _EXITED.search(text)
        if text.startswith(("Started ", "Starting ")):
            if start.is_over or start.tracker.phases():
                self._begin_anew()
            self._start.tracker.begin(PhaseId.PROCESS, self._at)
        elif text.startswith("Stopping "):
            start.stopping = not start.has_failed
            start.stopped.append(text)
            start.tracker.begin(PhaseId.STOPPING, self._at)
        elif start.stopping:
            start.stopped.append(text)
        elif _is_failure(text, exited):
            start.ended.append(text)
        elif text.startswith("Stopped ") or "Deactivated successfully" in text or exited is not None:
            start.stopping = not start.has_failed

    # ---- the end ------------------------------------------------------------------------------------------

    def outcome(self, idle: timedelta | None) -> Outcome:
        start = self._start
        state = self._state(idle)
        phase, role = start.tracker.current()
        cause = None
        if state == "failed":
            suspect = start.suspects.root()
            if suspect is not None and not start.stopping:
                phase, role = suspect.phase, suspect.role
            cause = self._cause()
        return Outcome(
            engine=self._engine.name,
            state=state,
            phase=phase,
            role=role,
            phases=start.tracker.phases(),
            ranks={view.rank: view.phase for view in start.tracker.places()},
            cause=cause,
            lines=self._lines,
            unrecognised=self._unrecognised + start.tracker.state.unrecognised,
            lagging=start.tracker.lagging(),
            until=self._at,
        )

    def _state(self, idle: timedelta | None) -> str:
        start = self._start
        if start.is_over:
            return "failed"
        if start.tracker.state.ready:
            return "ready"
        if start.suspects.is_likely:
            return "failed"
        patience = self._engine.patience_of(start.tracker.current()[0])
        if idle is not None and patience is not None and idle > patience:
            return "stalled"
        return "starting"

    def _cause(self) -> Cause:
        """The log's own root; without one, what systemd knows better; else what follows from it."""
        start = self._start
        where = (MAIN_RANK, *start.tracker.current())
        overruled = _OVERRULES if start.suspects.has_root else _KNOWS_BETTER
        said = [text for text in start.ended if overruled.search(text)]
        ranks = [view.rank for view in start.tracker.places()]
        found = None
        if not (said or start.says_little):
            found = start.suspects.cause(said=start.ended, ranks=ranks)
        if found is not None:
            return found
        if start.ended:
            lines = said + [text for text in start.ended if text not in said]
            return name_cause(lines, where=where, engine=self._engine.name)
        if start.was_killed:
            lines = [text for text in start.stopped if _KILLED.search(text) or _EXITED.search(text)]
            return name_cause(lines, where=where, engine=self._engine.name, whole=True)
        return Cause(
            "stopped", "It was stopped", tuple(start.stopped[:_MOST_SAID]), "Start it again.", *where
        )


def _is_failure(text: str, exited: re.Match[str] | None) -> bool:
    if exited is not None:
        return exited["code"] != "exited" or exited["status"] != "0"
    return _FAILED.search(text) is not None


# ---- telling -------------------------------------------------------------------------------------------


def _time_json(at: datetime | None) -> str | None:
    return (
        None
        if at is None or at.year <= NOMINAL_YEAR
        else at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    )


def _seconds(began: datetime, ended: datetime | None) -> float | None:
    if ended is None or _NOWHEN in {began, ended}:
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

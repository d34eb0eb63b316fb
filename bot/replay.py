"""A saved log through the same core that follows a live one: where it stands, and why it failed if it did."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, BinaryIO

from bot.core.cause import Cause, name_cause
from bot.core.diagnosis import Suspects
from bot.core.events import MAIN_RANK, LogLine, Member, Origin, PhaseId, Role
from bot.core.findings import FailureSaid, PhaseBegan
from bot.core.outcome import NOWHEN, Outcome
from bot.core.phases import Tracker
from bot.core.recognition import recognise
from bot.core.redact import Redactor
from bot.core.transcript import Transcript
from bot.core.transcript_unit import find_unit
from bot.core.wrapping import find_wrapping
from config.engine_file import AUTO, load_engine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from config.engine_file import EngineFile

_CHUNK = 1 << 20
_LOOK = 5000  # lines that may pass before the engine must have shown itself
_LEAD = 20  # lines more than any other engine has; a saved log can quote another one's
_MOST_SAID = 8  # lines of systemd that are shown
_MEMBER = Member("log")
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
    def seems_failed(self) -> bool:
        """Also where nobody says so: it never came to serve, and something went wrong."""
        return self.has_failed or (
            not self.stopping and not self.tracker.state.ready and self.suspects.is_likely
        )

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
        self._at = NOWHEN
        self._invocation: str | None = None
        self._lines = 0
        self._unrecognised = 0
        self._earlier: list[str] = []  # of what the starts before this one failed

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
        if start.tracker.renewed:  # the lines that say so themselves are not in this log
            self._begin_anew()
            start = self._start
            findings = start.tracker.read(line, member=_MEMBER, at=self._at)
        if not (start.tracker.phases() or findings or start.tracker.state.ready) and line.reading.strip():
            start.tracker.begin(PhaseId.PROCESS, self._at)
        if any(isinstance(each, PhaseBegan) and each.phase is PhaseId.STOPPING for each in findings):
            start.stopping = not start.suspects.is_proven
            start.stopped.append(line.reading)
        phase, role = self._where_it_failed(findings)
        start.suspects.note(line, findings, phase=phase, role=role, rank=start.tracker.spoke)

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
        elif self._start.suspects.state.suspects and self._engine.reader.starts(line.reading):
            self._start.suspects.go_on()

    def _begin_anew(self) -> None:
        if self._start.seems_failed:
            self._earlier.append(self._cause().title)
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
                phase, role = start.suspects.place(suspect)
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
            idle=idle,
            earlier=tuple(self._earlier),
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

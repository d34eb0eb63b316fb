"""Which failure was the first, and what it means: suspects are collected, one is named as the cause.

A failure rarely comes alone: other ranks lose their peers, the parent reports its child, a traceback shows
the exception it was raised in place of. The cause is the earliest failure that follows from no other; of a
chain of exceptions it is the first, since that is where it began. A failure after which the startup moved on
was survived, unless the engine does not survive its kind.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from bot.core import collective
from bot.core.cause import Cause, explain, name_cause
from bot.core.events import PhaseId, Rank, Role
from bot.core.findings import ONLY_NOISE, FailureSaid, Finding, NoiseRead, PhaseBegan, ReadySaid
from bot.core.ranks import Said, read_parts
from bot.core.root import find_root, lasting, place_of, tell_all, tell_another
from bot.core.suspect import LONGEST, MOST_LINES, TRACEBACK, Suspect, SuspectsState, Trace, take_further

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.core.events import LogLine
    from config.engine_file import EngineFile

_CHAINED = re.compile(r"During handling of the above exception|The above exception was the direct cause")
# Classes have a capital; the few that have none are named. Code that lost its indentation is no exception.
_EXCEPTION = re.compile(
    r"(?:\w+\.)*(?:[A-Z]\w*|(?<=\.)(?:error|gaierror|herror|timeout|[a-z]\w*(?:Error|Exception)))(?:: |:?$)"
)
# What Python goes on from after it told of it: a destructor that failed, a record that could not be logged.
_IGNORED, _UNLOGGED = "Exception ignored in", "--- Logging error ---"
_BARE = re.compile(r"(?:\w+\.)*\w+:?\s*$")  # an exception without a message: its line of code says what it is
_IN_FRAME = '", line '
_FRAME = re.compile(r'\s*File "[^"]*", line \d+, in \S')
_DUMPED = re.compile(r'\s*File "[^"]*", line \d+ in \S')  # by faulthandler: without a comma
_STAMP = re.compile(r"\[?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
# The outermost frame of an exception that ends its process: a script, a module run as one, a spawned child. A
# package may print what it caught while it was imported.
_OUTERMOST = re.compile(
    r'in (?:_run_module_as_main|spawn_main|_bootstrap)$|(?:launch_server|/bin/[\w.-]+|api_server)(?:\.py)?", '
    r'line \d+, in <module>$|File "(?![^"]*(?:-packages/|__init__))[^"]*", line \d+, in <module>$'
)
_WHAT, _ABORTING = "what():", "terminate called"  # of an exception in C++ that nobody caught
_STEPS = 2  # phases that began since: whoever ended with an exception was not needed for them
_MOST_SUSPECTS = 100  # a failing server can print the same for hours; the first are the ones that matter
MOST_TRACES = 256  # open at a time
_Where = tuple[PhaseId, Role, Rank]  # of who speaks


class Suspects:
    """Told every line with what the tracker found in it. `engine`: to read tracebacks behind its prefix."""

    def __init__(self, state: SuspectsState | None = None, *, engine: EngineFile | None = None) -> None:
        self._engine = engine
        told = [PhaseId(rule.id) for rule in engine.phase] if engine is not None else []
        self._order = [*told, *(phase for phase in PhaseId if phase not in told)]
        self.state = state or SuspectsState()

    def note(
        self, line: LogLine, findings: Sequence[Finding], *, phase: PhaseId, role: Role, rank: Rank
    ) -> None:
        """`phase` and `role`: where the `rank` that spoke is, or the startup as a whole."""
        if line.partial:
            return
        failures: list[FailureSaid] = []
        if findings and findings is not ONLY_NOISE:
            failures = self._sort(findings)
        elif findings:
            if self.state.recent:
                self._hear_noise(line.reading)
            if not self.state.traces or TRACEBACK in line.reading:
                return  # a request's own words open nothing
        if failures or self.state.traces or self._tells(line.reading):
            self._read(line.reading, str(line.pid or ""), failures, where=(phase, role, rank))

    def _hear_noise(self, reading: str) -> None:
        """What a server prints for a request it answers: it outlived what failed before."""
        hit = self._engine.reader.read(self._said(reading).text) if self._engine is not None else None
        if hit is not None and (hit.rule.serving or hit.rule.alone):
            self.state.recent = False
            for suspect in self.state.suspects:
                suspect.outlived |= not (suspect.fatal or suspect.secondary or suspect.warning)

    def _tells(self, reading: str) -> bool:
        """Whether it can matter though nothing failed in it and no traceback is open."""
        told = TRACEBACK in reading or _IN_FRAME in reading
        told = told or _IGNORED in reading or _UNLOGGED in reading  # asked of every line: no loop
        return told or (bool(self.state.suspects) and _WHAT in reading)

    def _read(self, reading: str, process: str, failures: list[FailureSaid], *, where: _Where) -> None:
        trace = self.state.traces.get(process)
        if _WHAT in reading:
            self._hear_what(reading)
        elif failures:
            foreign = trace is not None and self._is_foreign(reading, trace)
            for each in failures:
                self._hear_timeout(each)
                self._accuse(each, process, announces=TRACEBACK in reading, where=where, foreign=foreign)
            self._mark(process, reading)
        elif TRACEBACK in reading:
            self._open(process)
            self._mark(process, reading)
        elif _IGNORED in reading or _UNLOGGED in reading:
            self._follow(process, Trace(passed_over=True, stamp=self._stamp_of(reading)))
        else:
            text = self._said(reading).text
            if _IN_FRAME in reading:
                trace = self._meet_frame(text, process, stamp=self._stamp_of(reading))
            if trace is not None:
                foreign = self._is_foreign(reading, trace)
                self._read_on(trace, process, text, where=where, foreign=foreign)

    def _sort(self, findings: Sequence[Finding]) -> list[FailureSaid]:
        """The failures among them; anything else but noise shows that those before were survived."""
        failures: list[FailureSaid] = []
        for each in findings:
            if isinstance(each, FailureSaid):
                failures.append(each)
            elif not isinstance(each, NoiseRead):
                self._survive(each)
        return failures

    def _said(self, reading: str) -> Said:
        if self._engine is not None:
            return read_parts(self._engine, reading)[-1]
        return Said(reading)

    def _stamp_of(self, reading: str) -> str:
        """The engine's own prefix of what a line says last: one record's lines all have the same."""
        last = reading.rpartition("\n")[2]
        found = self._engine.reader.find_stamp(last) if self._engine is not None else _STAMP.match(last)
        return found[0] if found is not None else ""

    def _is_foreign(self, reading: str, trace: Trace) -> bool:
        """Of another record than the one the traceback is in."""
        return self._stamp_of(reading) not in {"", trace.stamp}

    def _hear_what(self, text: str) -> None:
        """`terminate called` has its reason on the next line, and that line says it best."""
        ended = next((each for each in reversed(self.state.suspects) if _ABORTING in each.lines[0]), None)
        if ended is not None:
            ended.lines.insert(0, text.strip()[:LONGEST])

    def _hear_timeout(self, said: FailureSaid) -> None:
        """Apart from the suspects: of those, some are forgotten, and who is missing here would be blamed."""
        if collective.is_report(said.text) and said.rank not in self.state.timed_out:
            self.state.timed_out.append(said.rank)

    # ---- tracebacks ---------------------------------------------------------------------------------------

    def _open(self, process: str) -> None:
        trace = self.state.traces.get(process)
        if trace is not None and trace.chained:
            trace.awaiting = True
        elif trace is None or not trace.passed_over or not trace.awaiting or trace.frame:
            self._follow(process, Trace())

    def _follow(self, process: str, trace: Trace) -> Trace:
        """Read this traceback on; of processes that died within theirs, the oldest are given up."""
        self.state.traces[process] = trace
        while len(self.state.traces) > MOST_TRACES:
            del self.state.traces[next(iter(self.state.traces))]
        return trace

    def _mark(self, process: str, reading: str) -> None:
        trace = self.state.traces.get(process)
        if trace is not None:
            trace.stamp = self._stamp_of(reading)

    def _read_on(self, trace: Trace, process: str, text: str, *, where: _Where, foreign: bool) -> None:
        if not text.strip():
            return
        if _CHAINED.match(text):
            trace.chained = True
        elif trace.awaiting and (text[0] in " \t" or _FRAME.match(text)):
            self._read_frame(trace, text.strip())
        elif trace.awaiting and _EXCEPTION.match(text) and not foreign:
            failure = FailureSaid(where[2], text, fatal=False, secondary=False)
            self._accuse(failure, process, announces=False, where=where, foreign=False)
        elif foreign and not trace.awaiting:
            self.state.traces.pop(process, None)
        elif trace.rest and trace.suspect is not None:
            trace.rest -= 1
            self._add_line(trace.suspect, text)

    def _read_frame(self, trace: Trace, text: str) -> None:
        if text.startswith("File "):
            trace.uncaught = trace.uncaught or (not trace.frame and _OUTERMOST.search(text) is not None)
            trace.frame, trace.code = text[:LONGEST], ""
            phase, role = self._engine.place_of_frame(text) if self._engine is not None else (None, None)
            if phase and trace.phase is not PhaseId.READY:  # what a request calls may serve a start too
                trace.phase = PhaseId(phase)
            trace.role = Role(role) if role else trace.role
            if trace.announced and trace.suspect is not None:  # the log may end before the exception
                self._place(self.state.suspects[trace.suspect], trace)
        elif not trace.code and text.strip("^~ "):
            trace.code = text[:LONGEST]

    def _meet_frame(self, text: str, process: str, *, stamp: str) -> Trace | None:
        """A frame: of the traceback that is open, of one whose beginning is not in the log, or of a crash."""
        self._read_dump(text)
        trace = self.state.traces.get(process)
        if _FRAME.match(text):
            trace = trace or self._follow(process, Trace())
            trace.stamp = stamp or trace.stamp
        return trace

    def _read_dump(self, text: str) -> None:
        """The stack a crash leaves, where the log shows no phases: its first known function tells."""
        crash = next((each for each in self.state.suspects if each.phase is PhaseId.PROCESS), None)
        if crash is None or not crash.fatal or self._engine is None or not _DUMPED.match(text):
            return
        phase, _ = self._engine.place_of_frame(text)
        crash.phase = PhaseId(phase) if phase else crash.phase

    def _accuse(
        self,
        said: FailureSaid,
        process: str,
        *,
        announces: bool,
        where: _Where,
        foreign: bool,
    ) -> None:
        trace = self.state.traces.get(process)
        if announces:
            index = self._add(said, where)
            self._follow(process, Trace(index, announced=True))
        elif trace is None or not trace.awaiting or _is_beside(trace, said, foreign=foreign):
            self._add(said, where)
        else:
            self._conclude(trace, said, where)

    def _conclude(self, trace: Trace, said: FailureSaid, where: _Where) -> None:
        """The exception line of a traceback. The first of a chain names the failure, if it is one itself."""
        if trace.passed_over:
            trace.awaiting = trace.chained = False
            return
        first = trace.suspect is None or trace.announced
        if trace.suspect is None:
            trace.suspect = self._add(said, where)
            suspect = self.state.suspects[trace.suspect]
            suspect.uncaught = trace.uncaught and not suspect.fatal
            suspect.fatal |= trace.uncaught
        elif trace.announced:
            suspect = self.state.suspects[trace.suspect]
            suspect.lines.insert(0, said.text[:LONGEST])
            suspect.secondary = said.secondary
            suspect.phase = said.phase or suspect.phase
        else:
            take_further(self.state.suspects[trace.suspect], said)
        if first and trace.frame:
            self._add_line(trace.suspect, trace.frame)
            if trace.code and _BARE.match(said.text):
                self._add_line(trace.suspect, trace.code)
        self._place(self.state.suspects[trace.suspect], trace)
        trace.awaiting = trace.chained = trace.announced = False
        trace.rest = 3

    def _place(self, suspect: Suspect, trace: Trace) -> None:
        """The functions of a traceback tell more than a log in which its rank, or every rank, kept silent."""
        phase = trace.phase
        if trace.role is Role.DRAFT and suspect.role is Role.TARGET:
            suspect.role, suspect.phase = Role.DRAFT, phase or suspect.phase
        if phase is None or (phase is PhaseId.READY and suspect.phase is not PhaseId.PROCESS):
            return
        if self._steps(suspect.phase, phase) > 0:
            suspect.phase = phase

    def _steps(self, phase: PhaseId, later: PhaseId) -> int:
        """How many phases lie between the two, in the order in which this engine goes through them."""
        return self._order.index(later) - self._order.index(phase)

    # ---- the list -----------------------------------------------------------------------------------------

    def _add(self, said: FailureSaid, where: _Where) -> int:
        if len(self.state.suspects) >= _MOST_SUSPECTS:
            self._drop(_MOST_SUSPECTS // 2)
        suspect = Suspect(said.rank, said.phase or where[0], where[1], [said.text[:LONGEST]])
        suspect.fatal, suspect.secondary, suspect.warning = said.fatal, said.secondary, said.warning
        self.state.suspects.append(suspect)
        self.state.recent = True
        return len(self.state.suspects) - 1

    def _drop(self, index: int) -> None:
        """Forget a suspect, and the traceback it was read from; the others move up."""
        self.state.suspects.pop(index)
        for process, trace in list(self.state.traces.items()):
            if trace.suspect == index:
                del self.state.traces[process]
            elif trace.suspect is not None and trace.suspect > index:
                trace.suspect -= 1

    def _add_line(self, index: int, text: str) -> None:
        lines = self.state.suspects[index].lines
        if len(lines) < MOST_LINES:
            lines.append(text[:LONGEST])

    def go_on(self) -> None:
        """The start itself came after all that: what a package printed while it was imported, for one."""
        for suspect in self.state.suspects:
            suspect.survived = True

    def _survive(self, found: Finding) -> None:
        """Once it serves, or is phases further on, no process that is needed had ended."""
        ready, begun = isinstance(found, ReadySaid), None
        if isinstance(found, PhaseBegan) and found.phase is not PhaseId.STOPPING:
            begun = found.phase
        for suspect in self.state.suspects:
            suspect.survived = True
            if suspect.uncaught and (ready or (begun and self._steps(suspect.phase, begun) >= _STEPS)):
                suspect.fatal = False

    # ---- the answer ---------------------------------------------------------------------------------------

    @property
    def is_proven(self) -> bool:
        """Something was said that the engine does not survive."""
        return any(suspect.fatal for suspect in self.state.suspects)

    @property
    def is_likely(self) -> bool:
        """Something failed and nothing moved since."""
        return any(
            not (suspect.survived or suspect.outlived or suspect.warning) for suspect in self.state.suspects
        )

    @property
    def has_root(self) -> bool:
        """Some line tells the failure itself, not only what follows from it."""
        return any(not (each.secondary or each.warning) for each in lasting(self.state.suspects))

    def root(self) -> Suspect | None:
        return find_root(self.state.suspects, engine=self._name)

    def place(self, root: Suspect) -> tuple[PhaseId, Role]:
        return place_of(self.state.suspects, root)

    def cause(self, *, said: Sequence[str] = (), ranks: Sequence[Rank] = ()) -> Cause | None:
        """`said`: systemd's own lines about the end, for where the log has only what follows from it.

        `ranks`: all that were seen, for where the one that says nothing is the one at fault.
        """
        suspect = self.root()
        if suspect is None:
            return None
        where, engine = (suspect.rank, *self.place(suspect)), self._name
        if suspect.secondary:
            evidence = (*tell_all(self.state.suspects), *said)
            return name_cause(evidence, where=where, engine=engine, whole=True)
        warnings = [each.lines for each in takewhile(suspect.__ne__, self.state.suspects) if each.warning]
        lines = explain(suspect.lines, warnings, engine=engine)
        also, also_rank = tell_another(self.state.suspects, suspect, engine=engine) or (None, None)
        cause = replace(name_cause(lines, where=where, engine=engine, also=also), also_rank=also_rank)
        return collective.blame_silent(cause, reporters=self.state.timed_out, known=ranks)

    @property
    def _name(self) -> str | None:
        return self._engine.name if self._engine is not None else None


def _is_beside(trace: Trace, said: FailureSaid, *, foreign: bool) -> bool:
    """Only an exception of its own ends what Python passes over; all else that is said meanwhile counts."""
    return trace.passed_over and (foreign or _EXCEPTION.match(said.text) is None)

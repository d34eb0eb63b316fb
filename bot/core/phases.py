"""Follows a startup through its phases, from the lines its engine prints.

Theory of operation. The engine file says what a line is; this file says what follows from it. Each rank walks
through phases of its own (`passage`, on the records of `spans`); a phase of the whole is over when every rank
has left it. Where that is at any moment, `whereabouts` tells.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bot.core.cores import core_of, find_missing
from bot.core.events import MAIN_RANK, Origin, PhaseId, Role
from bot.core.findings import NOISE, ONLY_NOISE, FailureSaid, Finding, PhaseBegan, PhaseEnded, ReadySaid
from bot.core.passage import Passage, Teller
from bot.core.ranks import read_parts, read_rank
from bot.core.whereabouts import TrackerState, Whereabouts
from config.engine_rules import Kind

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.actions import RankView
    from bot.core.events import LogLine, Member, Rank
    from bot.core.findings import PhaseRecord
    from bot.core.ranks import Said
    from config.engine_file import EngineFile
    from config.engine_reader import Hit
    from config.engine_rules import PhaseRule

_EARLY = (PhaseId.DISTRIBUTED, PhaseId.WEIGHTS)  # what no server comes back to
_LOUD = (Origin.MANAGER, Origin.JOURNALD)  # about the unit, not from the engine
_NOTHING: tuple[Finding, ...] = ()
# Asked of every line; in Python 3.11 an enumeration looks a member up at each mention.
_SERVICE, _NOISE_KIND, _HARMLESS, _PROGRESS = Origin.SERVICE, Kind.NOISE, Kind.HARMLESS, Kind.PROGRESS


class Tracker:
    """Log lines in, findings out, each once.

    `ranks`: how many there are, where that is known. `lone`: of one member alone; else a node behind the
    first one, whose share is done, does not speak for the first one.
    """

    def __init__(
        self,
        engine: EngineFile,
        *,
        ranks: int | None = None,
        lone: bool = True,
        state: TrackerState | None = None,
    ) -> None:
        self.engine = engine
        self.lone = lone
        self.state = state or TrackerState()
        self._where = Whereabouts(engine, self.state)
        self.spoke = MAIN_RANK  # who said the last thing in the line that was read last
        self.renewed = False  # a rank began from the beginning although the server was ready
        self._passage = Passage(self._where, ranks=ranks)
        self._reader = engine.reader

    # ---- reading ------------------------------------------------------------------------------------------

    def read(self, line: LogLine, *, member: Member, at: datetime) -> tuple[Finding, ...]:
        """What this line tells. `at`: its own time, or that of its arrival."""
        self.spoke = MAIN_RANK
        if line.origin is not _SERVICE and line.origin in _LOUD:
            return ()
        state, found = self.state, _NOTHING
        for said in read_parts(self.engine, line.reading):
            alone = not state.who.cores.several
            self.spoke = rank = read_rank(state.who, said, pid=line.pid, member=member)
            if alone and state.who.cores.several:
                self._name_first_core()
            hit = self._reader.read(said.text)
            if hit is None:
                state.unrecognised += 1
                continue
            kind = hit.kind
            if kind is _HARMLESS or (line.partial and kind is not _PROGRESS):
                continue
            if kind is _NOISE_KIND and state.ready:
                found = (*found, NOISE) if found else ONLY_NOISE  # most of all lines, once it serves
            else:
                teller = Teller([], rank, member, at, said.process or str(line.pid or ""))
                self._take(hit, said, teller)
                found = (*found, *teller.found)
        return found

    @property
    def _is_behind(self) -> bool:
        return self.state.behind and self.lone

    def _take(self, hit: Hit, said: Said, teller: Teller) -> None:
        if hit.rule.alone and hit.kind is not _NOISE_KIND and self._is_of_engine():
            return
        if hit.kind is not _PROGRESS:  # that begins and ends nothing, or says so itself
            self._where.moved()
        match hit.kind:
            case Kind.FAILURE:
                teller.found.append(self._failure(hit, said, teller))
            case Kind.NOISE:
                self._hear_noise(hit, teller)
            case Kind.READY:
                if self.lone or not hit.rule.behind:
                    self.state.fronted = hit.rule.alone and (self.state.fronted or not self.state.ready)
                    self._say_ready(teller)
            case Kind.SETTLED:
                self._settle(hit, teller)
            case Kind.ARGUMENTS:
                self._hear_engine()
                self._learn(said.text, teller)
            case Kind.BEGIN | Kind.END | Kind.PROGRESS:
                self._move(hit, teller)

    def _move(self, hit: Hit, teller: Teller) -> None:
        rule = hit.phase
        if rule is not None and rule.ranks != "once":
            self._hear_engine()
        if rule is None or (self.state.ready and not self._ends_service(rule, hit)):
            return
        if hit.kind is Kind.PROGRESS:
            self._passage.progress(rule, hit, teller)
            return
        self._note(hit)
        if hit.rule.each and not self._is_last_core(teller):
            return
        if rule.ranks == "once":
            teller = replace(teller, rank=MAIN_RANK)
        elif teller.rank not in self.state.known:
            self.state.known.append(teller.rank)
        if hit.kind is Kind.BEGIN:
            self._passage.begin(rule, hit, teller)
        else:
            self._passage.end(rule, hit, teller)
        self._passage.close_finished(teller)
        if hit.rule.other_node and self._is_done_behind():
            self._say_ready(teller)

    def _ends_service(self, rule: PhaseRule, hit: Hit) -> bool:
        """A stop alone is told of a server that is ready; a start that hides in the same log is noted."""
        phase = PhaseId(rule.id)
        self.renewed |= hit.kind is Kind.BEGIN and rule.ranks == "all" and phase in _EARLY
        return phase is PhaseId.STOPPING

    def _note(self, hit: Hit) -> None:
        """What the line tells of the start as a whole."""
        if hit.rule.behind:
            self.state.behind, self.state.who.cores.told = True, hit.cores
        if hit.rule.without:
            self.state.without = [PhaseId(phase) for phase in hit.rule.without]

    def _hear_noise(self, hit: Hit, teller: Teller) -> None:
        teller.found.append(NOISE)
        if not (hit.rule.serving or hit.rule.alone):
            return
        if hit.rule.behind and not self.lone:
            return
        if hit.rule.serving or not self._has_begun():
            self._say_ready(teller)  # its own word for it is not in this log

    def _has_begun(self) -> bool:
        return any(record.phase is not PhaseId.PROCESS for record in self.state.spans.records)

    def _failure(self, hit: Hit, said: Said, teller: Teller) -> FailureSaid:
        rule = hit.rule
        phase = PhaseId(rule.phase) if rule.phase else None
        if rule.serving and not self._has_begun():
            phase = PhaseId.READY
        return FailureSaid(teller.rank, said.text, rule.fatal, rule.secondary, rule.warning, phase)

    def _learn(self, arguments: str, teller: Teller) -> None:
        reader = self.engine.reader
        sizes = reader.read_sizes(arguments)
        whole = int(sizes.get("tp", 1)) * int(sizes.get("pp", 1))
        if "shared_dp" not in sizes:
            whole *= int(sizes.get("dp", 1))
        self.state.sizes[teller.member] = max(1, whole // max(1, int(sizes.get("nodes", 1))))
        self.state.behind = int(sizes.get("node", 0)) > 0 or reader.behind.search(arguments) is not None
        self.state.no_graphs = reader.no_graphs.search(arguments) is not None
        self.state.drafts = self.state.drafts or reader.drafts.search(arguments) is not None
        cores = self.state.who.cores
        cores.several = cores.several or reader.cores.search(arguments) is not None

    def _hear_engine(self) -> None:
        """An engine starts in the same log: what stands before it did not speak for it."""
        if self.state.fronted:
            self.state.ready = self.state.fronted = False
            self._where.moved()

    def _is_of_engine(self) -> bool:
        """Whether an engine speaks here, not alone what stands before several."""
        told = any(not self._where.is_once(record.phase) for record in self.state.spans.records)
        return told or bool(self.state.sizes) or not self.lone

    # ---- several cores ------------------------------------------------------------------------------------

    def _name_first_core(self) -> None:
        """Until another one spoke, what the first core said was said by nobody in particular."""
        first = self.state.who.cores.first
        if first is not None and self.state.known == [MAIN_RANK]:
            apart = tuple(rule.id for rule in self.engine.phase if rule.ranks != "once")
            self.state.spans.rename(MAIN_RANK, first, apart)
            self.state.known = [first]
            self._where.moved()

    def _is_last_core(self, teller: Teller) -> bool:
        """The core is done, and its ranks with it; whether it was the last. A node behind then serves."""
        state, cores = self.state, self.state.who.cores
        core = core_of(cores, teller.rank)
        if core is not None:
            if core not in cores.done:
                cores.done.append(core)
            for rank in state.spans.ranks():
                if core_of(cores, rank) == core:
                    state.spans.prove_over(rank, ("*",), teller.at)
            self._passage.close_finished(teller, settled=True)
        elif self._is_behind and len(cores.done) < cores.told:
            cores.done.append(MAIN_RANK)  # one of those without a name
        if (core is not None or self._is_behind) and find_missing(cores, state.known):
            return False
        if self._is_behind:
            self._say_ready(teller)
        return not self._is_behind

    def _is_done_behind(self) -> bool:
        """Workers without a core on their node are done when none of them is in a phase."""
        state = self.state
        cores = state.who.cores
        if not self._is_behind or cores.told or any(cores.heard.values()):
            return False
        return not any(self._where.held(rank) is not None for rank in state.known)

    # ---- the end ------------------------------------------------------------------------------------------

    def _settle(self, hit: Hit, teller: Teller) -> None:
        state = self.state
        if teller.rank not in state.settled:
            state.settled.append(teller.rank)
        everyone = teller.rank == MAIN_RANK
        for rank in tuple(state.known) if everyone else (teller.rank,):
            state.spans.prove_over(rank, ("*",), teller.at)
        self._passage.close_finished(teller, settled=True)
        for index in state.spans.open_records():
            if not state.spans.records[index].ranks:
                self._passage.close(index, teller)
        if (
            hit.rule.other_node
            and self._is_behind
            and len(state.settled) >= state.sizes.get(teller.member, 1)
        ):
            self._say_ready(teller)

    def _say_ready(self, teller: Teller) -> None:
        if self.state.ready:
            return
        self._passage.close_all(teller)
        self.state.ready = True
        teller.found.append(ReadySaid())

    # ---- from outside -------------------------------------------------------------------------------------

    def begin(self, phase: PhaseId, at: datetime, role: Role = Role.TARGET) -> tuple[Finding, ...]:
        """Something outside the log began a phase: the stop, the process, the smoke test."""
        if self.state.spans.find_open(phase, role) is not None:
            return ()
        self._where.moved()
        self.state.spans.add(phase, role, at)
        return (PhaseBegan(phase, role),)

    def end(self, phase: PhaseId, at: datetime, role: Role = Role.TARGET) -> tuple[Finding, ...]:
        index = self.state.spans.find_open(phase, role)
        if index is None:
            return ()
        self._where.moved()
        return (PhaseEnded(phase, role, self.state.spans.close(index, at)),)

    def redate(self, phase: PhaseId, at: datetime) -> None:
        """A phase under way, and the host itself tells since when; one that is over stays as it was told."""
        index = self.state.spans.find_open(phase)
        if index is not None:
            self._where.moved()
            self.state.spans.redate(index, at)

    # ---- the present --------------------------------------------------------------------------------------

    def phases(self) -> tuple[PhaseRecord, ...]:
        """In order of beginning. The same phase may be there more than once: add them up."""
        return tuple(self.state.spans.records)

    def current(self) -> tuple[PhaseId, Role]:
        """Where the rank is that is furthest behind."""
        return self._where.current()

    def places(self) -> tuple[RankView, ...]:
        return self._where.places()

    def lagging(self) -> tuple[Rank, ...]:
        return self._where.lagging()

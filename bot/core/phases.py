"""Follows a startup through its phases, from the lines its engine prints.

Theory of operation. The engine file says what a line is; this file says what follows from it. Each rank walks
through phases of its own (`spans`); a phase of the whole is over when every rank has left it. No order is
enforced: versions differ, and what one never prints is proven over by what comes later. A second round of
weight loading on a rank is the draft model's; other phases follow their rank's rounds. `current` is where the
rank that is furthest behind is, so that a straggler names itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from bot.core.actions import Progress, RankView
from bot.core.cores import core_of, find_missing, without_leaders
from bot.core.events import MAIN_RANK, LogLine, Member, Origin, PhaseId, Rank, Role
from bot.core.findings import (
    NOISE,
    ONLY_NOISE,
    FailureSaid,
    Finding,
    PhaseBegan,
    PhaseEnded,
    ProgressMade,
    ReadySaid,
)
from bot.core.ranks import RankMemory, Said, in_order, read_parts, read_rank
from bot.core.spans import Spans
from config.engine_file import Kind

if TYPE_CHECKING:
    from bot.core.findings import PhaseRecord
    from config.engine_file import EngineFile, Hit, PhaseRule

_LOUD = (Origin.MANAGER, Origin.JOURNALD)  # about the unit, not from the engine
_NOTHING: tuple[Finding, ...] = ()
_LEADING = ("lead", "told")
# Asked of every line; in Python 3.11 an enumeration looks a member up at each mention.
_SERVICE, _NOISE_KIND, _HARMLESS, _PROGRESS = Origin.SERVICE, Kind.NOISE, Kind.HARMLESS, Kind.PROGRESS


@dataclass(slots=True)
class TrackerState:
    """All a tracker remembers: plain data that a record can hold."""

    spans: Spans = field(default_factory=Spans)
    who: RankMemory = field(default_factory=RankMemory)
    known: list[Rank] = field(default_factory=list)  # ranks that said something about a phase
    sizes: dict[Member, int] = field(default_factory=dict)  # ranks a member has, by its launch arguments
    settled: list[Rank] = field(default_factory=list)
    loaders: list[str] = field(default_factory=list)  # processes that began the leading phase
    behind: bool = False  # this log is of a node behind the first: it never says that it serves
    no_graphs: bool = False
    drafts: bool = False  # a draft model will be loaded too
    ready: bool = False
    unrecognised: int = 0


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
        self.ranks = ranks
        self.lone = lone
        self.state = state or TrackerState()
        self.spoke = MAIN_RANK  # who said the last thing in the line that was read last
        self._reader = engine.reader
        self._present: tuple[PhaseId, Role] | None = None  # what `current` said, until something moves
        self._lead = next((PhaseId(rule.id) for rule in engine.phase if rule.rounds in _LEADING), None)
        self._last = next(
            (PhaseId(rule.id) for rule in engine.phase if "*" in rule.ends), None
        )  # behind all ranks

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
                scene = _Scene([], rank, member, at, said.process or str(line.pid or ""))
                self._take(hit, said, scene)
                found = (*found, *scene.found)
        return found

    @property
    def _is_behind(self) -> bool:
        return self.state.behind and self.lone

    def _take(self, hit: Hit, said: Said, scene: _Scene) -> None:
        if hit.rule.alone and hit.kind is not _NOISE_KIND and self._is_of_engine():
            return
        if hit.kind is not _PROGRESS:  # that begins and ends nothing, or says so itself
            self._present = None
        match hit.kind:
            case Kind.FAILURE:
                scene.found.append(_failure(hit, said, scene))
            case Kind.NOISE:
                self._hear_noise(hit, scene)
            case Kind.READY:
                if self.lone or not hit.rule.behind:
                    self._say_ready(scene)
            case Kind.SETTLED:
                self._settle(hit, scene)
            case Kind.ARGUMENTS:
                self._learn(said.text, scene)
            case Kind.BEGIN | Kind.END | Kind.PROGRESS:
                self._move(hit, scene)

    def _move(self, hit: Hit, scene: _Scene) -> None:
        rule = hit.phase
        if rule is None or (self.state.ready and PhaseId(rule.id) is not PhaseId.STOPPING):
            return
        if hit.kind is Kind.PROGRESS:
            self._progress(rule, hit, scene)
            return
        if hit.rule.behind:
            self.state.behind, self.state.who.cores.told = True, hit.cores
        if hit.rule.each and not self._is_last_core(scene):
            return
        if rule.ranks == "once":
            scene = replace(scene, rank=MAIN_RANK)
        elif scene.rank not in self.state.known:
            self.state.known.append(scene.rank)
        if hit.kind is Kind.BEGIN:
            self._begin(rule, hit, scene)
        else:
            self._end(rule, hit, scene)
        self._close_finished(scene)
        if hit.rule.other_node and self._is_done_behind():
            self._say_ready(scene)

    def _hear_noise(self, hit: Hit, scene: _Scene) -> None:
        scene.found.append(NOISE)
        if not (hit.rule.serving or hit.rule.alone):
            return
        if hit.rule.behind and not self.lone:
            return
        begun = any(record.phase is not PhaseId.PROCESS for record in self.state.spans.records)
        if hit.rule.serving or not begun:
            self._say_ready(scene)  # its own word for it is not in this log

    def _learn(self, arguments: str, scene: _Scene) -> None:
        reader = self.engine.reader
        sizes = reader.read_sizes(arguments)
        whole = int(sizes.get("tp", 1)) * int(sizes.get("pp", 1))
        if "shared_dp" not in sizes:
            whole *= int(sizes.get("dp", 1))
        self.state.sizes[scene.member] = max(1, whole // max(1, int(sizes.get("nodes", 1))))
        self.state.behind = int(sizes.get("node", 0)) > 0 or reader.behind.search(arguments) is not None
        self.state.no_graphs = reader.no_graphs.search(arguments) is not None
        self.state.drafts = self.state.drafts or reader.drafts.search(arguments) is not None
        cores = self.state.who.cores
        cores.several = cores.several or reader.cores.search(arguments) is not None

    def _is_of_engine(self) -> bool:
        """Whether an engine speaks here, not alone what stands before several."""
        told = any(not self._is_once(record.phase) for record in self.state.spans.records)
        return told or bool(self.state.sizes) or not self.lone

    # ---- several cores ------------------------------------------------------------------------------------

    def _name_first_core(self) -> None:
        """Until another one spoke, what the first core said was said by nobody in particular."""
        first = self.state.who.cores.first
        if first is not None and self.state.known == [MAIN_RANK]:
            apart = tuple(rule.id for rule in self.engine.phase if rule.ranks != "once")
            self.state.spans.rename(MAIN_RANK, first, apart)
            self.state.known = [first]
            self._present = None

    def _is_last_core(self, scene: _Scene) -> bool:
        """The core is done, and its ranks with it; whether it was the last. A node behind then serves."""
        state, cores = self.state, self.state.who.cores
        core = core_of(cores, scene.rank)
        if core is not None:
            if core not in cores.done:
                cores.done.append(core)
            for rank in state.spans.ranks():
                if core_of(cores, rank) == core:
                    state.spans.prove_over(rank, ("*",), scene.at)
            self._close_finished(scene, settled=True)
        elif self._is_behind and len(cores.done) < cores.told:
            cores.done.append(MAIN_RANK)  # one of those without a name
        if (core is not None or self._is_behind) and find_missing(cores, state.known):
            return False
        if self._is_behind:
            self._say_ready(scene)
        return not self._is_behind

    def _is_done_behind(self) -> bool:
        """Workers without a core on their node are done when none of them is in a phase."""
        state = self.state
        if not self._is_behind or any(state.who.cores.heard.values()):
            return False
        return not any(self._held(rank) is not None for rank in state.known)

    # ---- begins, ends, progress ---------------------------------------------------------------------------

    def _begin(self, rule: PhaseRule, hit: Hit, scene: _Scene) -> None:
        spans, phase, rank = self.state.spans, PhaseId(rule.id), scene.rank
        said = Role(hit.rule.role) if hit.rule.role else None
        told = self._round_of(rank, phase, scene) if rule.rounds == "told" and said is None else said
        if rule.rounds in {"none", "told"} and spans.has_begun(rank, phase, told or Role.TARGET):
            return
        if said is not None:
            self._leave_other(phase, said, scene)
        elif rank == MAIN_RANK and spans.holding(rank, phase):
            return  # without tags, another rank joins
        role = told or self._role(rule, rank)
        if "*" in rule.ends:
            self._close_all(scene)
        index = spans.find_open(phase, role)
        if index is None:
            self._close_finished(scene, settled=True)
            index = self._open(phase, role, scene)
        self._prove(rule, scene)  # before it enters: "*" would prove this very phase over too
        spans.enter(index, rank, scene.at)

    def _round_of(self, rank: Rank, phase: PhaseId, scene: _Scene) -> Role:
        """The draft's, where one is to come and the same process begins once more."""
        if not self.state.drafts:
            return Role.TARGET
        loader = f"{rank} {scene.process}"
        if loader not in self.state.loaders:
            self.state.loaders.append(loader)
            return Role.TARGET
        loaded = self.state.spans.has_ended(rank, phase, Role.TARGET)
        return Role.DRAFT if loaded else Role.TARGET

    def _leave_other(self, phase: PhaseId, role: Role, scene: _Scene) -> None:
        """The words name whose phase begins: the rank is done with the other model's."""
        spans = self.state.spans
        for index in spans.holding(scene.rank, phase):
            if spans.records[index].role is not role:
                spans.leave(index, scene.rank, scene.at)

    def _role(self, rule: PhaseRule, rank: Rank) -> Role:
        """Whose phase it is, when the words do not tell: the first round is the target's."""
        spans, phase = self.state.spans, PhaseId(rule.id)
        if rule.rounds == "lead" and spans.has_begun(rank, phase, Role.TARGET):
            return Role.DRAFT
        if (
            rule.rounds == "follow"
            and self._lead is not None
            and spans.has_begun(rank, self._lead, Role.DRAFT)
            and spans.has_ended(rank, phase, Role.TARGET)
        ):
            return Role.DRAFT
        return Role.TARGET

    def _open(self, phase: PhaseId, role: Role, scene: _Scene) -> int:
        spans = self.state.spans
        began = scene.at
        if (phase, role) == self._implied() and spans.last is not None:
            began = min(began, spans.records[spans.last].ended or began)
        scene.found.append(PhaseBegan(phase, role))
        self._present = None
        return spans.add(phase, role, began)

    def _prove(self, rule: PhaseRule, scene: _Scene) -> None:
        spans = self.state.spans
        spans.prove_over(scene.rank, rule.ends, scene.at)
        for index in spans.open_records():
            record = spans.records[index]
            if record.phase in rule.ends and (not record.ranks or self._is_once(record.phase)):
                self._close(index, scene)

    def _is_once(self, phase: PhaseId) -> bool:
        rule = self.engine.rule_of(phase)
        return rule is None or rule.ranks == "once"

    def _end(self, rule: PhaseRule, hit: Hit, scene: _Scene) -> None:
        spans, phase, rank = self.state.spans, PhaseId(rule.id), scene.rank
        role = Role(hit.rule.role) if hit.rule.role else None
        if hit.rule.everyone:
            self._speak_for_all(rule, scene)
        held = spans.holding(rank, phase, role)
        if held:
            spans.leave(held[0 if hit.rule.oldest else -1], rank, scene.at)
        else:
            role = role or (self._role(rule, rank) if rule.rounds == "follow" else Role.TARGET)
            index = spans.find(phase, role)
            if index is None:
                index = self._open(phase, role, scene)  # its begin was never printed, or not kept
            spans.leave(index, rank, scene.at)
        self._prove(rule, scene)

    def _speak_for_all(self, rule: PhaseRule, scene: _Scene) -> None:
        """For all of its core; those of whom no core is known are past the phase it speaks of, if there."""
        cores = self.state.who.cores
        core = core_of(cores, scene.rank)
        for rank in self.state.spans.ranks():
            whose = core_of(cores, rank)
            if core in {whose, None}:
                self.state.spans.prove_over(rank, (rule.id, *rule.ends), scene.at)
            elif whose is None:
                self.state.spans.prove_over(rank, (rule.id,), scene.at)

    def _progress(self, rule: PhaseRule, hit: Hit, scene: _Scene) -> None:
        spans, phase = self.state.spans, PhaseId(rule.id)
        index, progress = spans.find_open(phase), Progress(*hit.bar)
        if index is None:
            again = (
                rule.rounds == "again" and progress.done < progress.total
            )  # a full one is the last one's echo
            if not hit.rule.opens or (spans.find(phase) is not None and not again):
                return
            index = self._open(phase, Role.TARGET, scene)
            self._prove(rule, scene)
        if spans.progress(index, progress):
            self._leave_nested(rule, scene)
            scene.found.append(ProgressMade(phase, spans.records[index].role, progress, hit.rate))

    def _leave_nested(self, rule: PhaseRule, scene: _Scene) -> None:
        """The phase goes on: what ran inside it and prints no end of its own is over."""
        for index in self.state.spans.open_records():
            if self._is_nested(index) and self.state.spans.records[index].phase in rule.ends:
                self._close(index, scene)

    # ---- closing ------------------------------------------------------------------------------------------

    def _settle(self, hit: Hit, scene: _Scene) -> None:
        state = self.state
        if scene.rank not in state.settled:
            state.settled.append(scene.rank)
        everyone = scene.rank == MAIN_RANK
        for rank in tuple(state.known) if everyone else (scene.rank,):
            state.spans.prove_over(rank, ("*",), scene.at)
        self._close_finished(scene, settled=True)
        for index in state.spans.open_records():
            if not state.spans.records[index].ranks:
                self._close(index, scene)
        if hit.rule.other_node and self._is_behind and len(state.settled) >= state.sizes.get(scene.member, 1):
            self._say_ready(scene)

    def _say_ready(self, scene: _Scene) -> None:
        if self.state.ready:
            return
        self._close_all(scene)
        self.state.ready = True
        scene.found.append(ReadySaid())

    def _close_all(self, scene: _Scene) -> None:
        for index in self.state.spans.open_records():
            self._close(index, scene)

    def _close(self, index: int, scene: _Scene) -> None:
        spans = self.state.spans
        record = spans.close(index, spans.last_left(index) or scene.at)
        self._present = None
        scene.found.append(PhaseEnded(record.phase, record.role, record))

    def _close_finished(self, scene: _Scene, *, settled: bool = False) -> None:
        for index in self.state.spans.open_records():
            if self._is_finished(index, settled=settled):
                self._close(index, scene)

    def _is_finished(self, index: int, *, settled: bool) -> bool:
        """Every rank has left it, and every rank that should be in it was."""
        spans = self.state.spans
        record = spans.records[index]
        rule = self.engine.rule_of(record.phase)
        if rule is None or rule.ranks == "once" or spans.last_left(index) is None:
            return False
        behind = range(index + 1, len(spans.records))
        moved_on = settled or any(not self._is_nested(later) for later in behind)
        if rule.ranks == "some":
            return moved_on or not rule.merged
        if any(rank not in record.ranks for rank in self._tagged()):
            return False
        told = self.ranks or sum(self.state.sizes.values())
        return moved_on or (told > 0 and len(record.ranks) >= told)

    def _tagged(self) -> tuple[Rank, ...]:
        tagged = tuple(rank for rank in self.state.known if rank != MAIN_RANK)
        return without_leaders(self.state.who.cores, tagged) or tuple(self.state.known)

    # ---- from outside -------------------------------------------------------------------------------------

    def begin(self, phase: PhaseId, at: datetime, role: Role = Role.TARGET) -> tuple[Finding, ...]:
        """Something outside the log began a phase: the stop, the process, the smoke test."""
        if self.state.spans.find_open(phase, role) is not None:
            return ()
        self._present = None
        self.state.spans.add(phase, role, at)
        return (PhaseBegan(phase, role),)

    def end(self, phase: PhaseId, at: datetime, role: Role = Role.TARGET) -> tuple[Finding, ...]:
        index = self.state.spans.find_open(phase, role)
        if index is None:
            return ()
        self._present = None
        return (PhaseEnded(phase, role, self.state.spans.close(index, at)),)

    def redate(self, phase: PhaseId, at: datetime) -> None:
        """A phase under way, and the host itself tells since when; one that is over stays as it was told."""
        index = self.state.spans.find_open(phase)
        if index is not None:
            self._present = None
            self.state.spans.redate(index, at)

    # ---- the present --------------------------------------------------------------------------------------

    def phases(self) -> tuple[PhaseRecord, ...]:
        """In order of beginning. The same phase may be there more than once: add them up."""
        return tuple(self.state.spans.records)

    def current(self) -> tuple[PhaseId, Role]:
        if self._present is None:
            self._present = self._find_current()
        return self._present

    def _find_current(self) -> tuple[PhaseId, Role]:
        index = self._current_index()
        if index is not None:
            record = self.state.spans.records[index]
            return record.phase, record.role
        if self.state.ready:
            return PhaseId.READY, Role.TARGET
        return self._implied() or (PhaseId.PROCESS, Role.TARGET)

    def _current_index(self) -> int | None:
        """Where the furthest behind is; a nested phase is named in place of the one it runs in."""
        spans = self.state.spans
        stopping = spans.find_open(PhaseId.STOPPING)
        if stopping is not None:
            return stopping
        held = [index for rank in (*self.state.known, MAIN_RANK) if (index := self._held(rank)) is not None]
        held += [index for index in spans.open_records() if not spans.records[index].ranks]
        nested = [index for index in held if self._is_nested(index)]
        if held:
            return min(nested or held)
        return max(spans.open_records(), default=None)  # all known ranks left it: it waits to be proven over

    def _held(self, rank: Rank) -> int | None:
        index = self.state.spans.place(rank)
        return index if index is not None and self.state.spans.is_in(rank, index) else None

    def _is_nested(self, index: int) -> bool:
        rule = self.engine.rule_of(self.state.spans.records[index].phase)
        return rule is not None and rule.nested

    def _implied(self) -> tuple[PhaseId, Role] | None:
        """What is under way without having been announced: what comes after the phase that ended last."""
        spans = self.state.spans
        if spans.last is None:
            return None
        late = self._late_core()
        if late is not None:
            return self._following(spans.records[late].phase) or spans.records[late].phase, Role.TARGET
        if self.state.settled and self._last is not None and spans.find(self._last) is None:
            return self._last, Role.TARGET
        last = spans.records[spans.last]
        after = self._following(last.phase)
        if after is None:
            return last.phase, last.role
        if self.state.drafts and last.role is Role.TARGET and not self._has_rounds(after):
            drafted = self._drafted()
            if drafted is not None:
                return drafted, Role.DRAFT
        first = spans.find(after, Role.TARGET) is None
        return after, Role.TARGET if first or not self._has_rounds(after) else last.role

    def _late_core(self) -> int | None:
        """How far the last core came, where others are done."""
        cores, known = self.state.who.cores, self.state.known
        places: dict[Rank, int] = {}
        missing = find_missing(cores, known) if cores.done else set()
        for rank in known:
            core, index = core_of(cores, rank), self.state.spans.place(rank)
            if core is not None and core in missing and index is not None:
                places[core] = max(index, places.get(core, index))
        return min(places.values(), default=None)

    def _drafted(self) -> PhaseId | None:
        """What comes next of the draft model; None when nothing of it is still to come."""
        done = [each.phase for each in self.state.spans.records if each.role is Role.DRAFT]
        after = self._following(done[-1]) if done else self._lead
        return after if self._has_rounds(after) else None

    def _following(self, phase: PhaseId | None) -> PhaseId | None:
        after = self._after(phase)
        while self.state.no_graphs and after in {PhaseId.COMPILE, PhaseId.GRAPHS}:
            after = self._after(after)
        return after

    def _after(self, phase: PhaseId | None) -> PhaseId | None:
        return next((PhaseId(rule.id) for rule in self.engine.phase if phase in rule.after), None)

    def _has_rounds(self, phase: PhaseId | None) -> bool:
        rule = self.engine.rule_of(phase) if phase is not None else None
        return rule is not None and rule.rounds in {*_LEADING, "follow"}

    def places(self) -> tuple[RankView, ...]:
        """Where each rank is; the parent process only when there are no others."""
        views = []
        for rank in sorted(self._tagged(), key=in_order):
            index = self.state.spans.place(rank)
            if index is not None:
                record = self.state.spans.records[index]
                ended = not self.state.spans.is_in(rank, index)
                views.append(RankView(rank, record.phase, record.role, ended=ended))
        return tuple(views)

    def lagging(self) -> tuple[Rank, ...]:
        """Ranks that have not ended the current phase though others have."""
        index = self._current_index()
        if index is None:
            return ()
        record = self.state.spans.records[index]
        cores = self.state.who.cores
        behind = [
            rank
            for rank in self._tagged()
            if (rank not in record.ranks or record.ranks[rank].ended is None)
            and core_of(cores, rank) not in cores.done
        ]
        some_ended = any(span.ended is not None for span in record.ranks.values())
        return tuple(sorted(behind, key=in_order)) if some_ended else ()


@dataclass(frozen=True, slots=True)
class _Scene:
    """Who says something when, and where its findings go."""

    found: list[Finding]
    rank: Rank
    member: Member
    at: datetime
    process: str = ""  # as far as the line or the journal tells


def _failure(hit: Hit, said: Said, scene: _Scene) -> FailureSaid:
    rule = hit.rule
    phase = PhaseId(rule.phase) if rule.phase else None
    return FailureSaid(scene.rank, said.text, rule.fatal, rule.secondary, rule.warning, phase)

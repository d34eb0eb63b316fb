"""Where a startup and each of its ranks are, by the phases on record and the rules of the engine.

`current` is where the rank that is furthest behind is, so that a straggler names itself. Between two phases
it is the one that comes next: engines work before they speak.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.core.actions import RankView
from bot.core.cores import core_of, find_missing, without_leaders
from bot.core.events import MAIN_RANK, Member, PhaseId, Rank, Role
from bot.core.ranks import RankMemory, in_order
from bot.core.spans import Spans

if TYPE_CHECKING:
    from config.engine_file import EngineFile

_LEADING = ("lead", "told")
_OF_GRAPHS = (PhaseId.COMPILE, PhaseId.GRAPHS)


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
    without: list[PhaseId] = field(default_factory=list)  # that come only where they say so themselves
    drafts: bool = False  # a draft model will be loaded too
    ready: bool = False
    fronted: bool = False  # that was said by what stands before engines
    unrecognised: int = 0


class Whereabouts:
    """Only asked; who changes the `state` says that something moved."""

    def __init__(self, engine: EngineFile, state: TrackerState) -> None:
        self.engine = engine
        self.state = state
        self.lead = next((PhaseId(rule.id) for rule in engine.phase if rule.rounds in _LEADING), None)
        self._last = next(
            (PhaseId(rule.id) for rule in engine.phase if "*" in rule.ends), None
        )  # behind all ranks
        self._present: tuple[PhaseId, Role] | None = None  # what `current` said, until something moves

    # ---- the whole ----------------------------------------------------------------------------------------

    def current(self) -> tuple[PhaseId, Role]:
        if self._present is None:
            self._present = self._find_current()
        return self._present

    def moved(self) -> None:
        """Something began or ended: what `current` said is to be found anew."""
        self._present = None

    def _find_current(self) -> tuple[PhaseId, Role]:
        index = self._current_index()
        if index is not None:
            record = self.state.spans.records[index]
            return record.phase, record.role
        if self.state.ready:
            return PhaseId.READY, Role.TARGET
        return self.implied() or (PhaseId.PROCESS, Role.TARGET)

    def _current_index(self) -> int | None:
        """Where the furthest behind is; a nested phase is named in place of the one it runs in."""
        spans = self.state.spans
        stopping = spans.find_open(PhaseId.STOPPING)
        if stopping is not None:
            return stopping
        held = [index for rank in (*self.state.known, MAIN_RANK) if (index := self.held(rank)) is not None]
        held += [index for index in spans.open_records() if not spans.records[index].ranks]
        nested = [index for index in held if self.is_nested(index)]
        if held:
            return min(nested or held)
        return max(spans.open_records(), default=None)  # all known ranks left it: it waits to be proven over

    def held(self, rank: Rank) -> int | None:
        index = self.state.spans.place(rank)
        return index if index is not None and self.state.spans.is_in(rank, index) else None

    def is_nested(self, index: int) -> bool:
        rule = self.engine.rule_of(self.state.spans.records[index].phase)
        return rule is not None and rule.nested

    def implied(self) -> tuple[PhaseId, Role] | None:
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
        after = self._following(done[-1]) if done else self.lead
        return after if self._has_rounds(after) else None

    def _following(self, phase: PhaseId | None) -> PhaseId | None:
        after = self._after(phase)
        skipped = {*self.state.without, *(_OF_GRAPHS if self.state.no_graphs else ())}
        while after in skipped:
            after = self._after(after)
        return after

    def _after(self, phase: PhaseId | None) -> PhaseId | None:
        return next((PhaseId(rule.id) for rule in self.engine.phase if phase in rule.after), None)

    def _has_rounds(self, phase: PhaseId | None) -> bool:
        rule = self.engine.rule_of(phase) if phase is not None else None
        return rule is not None and rule.rounds in {*_LEADING, "follow"}

    # ---- each rank ----------------------------------------------------------------------------------------

    def places(self) -> tuple[RankView, ...]:
        """Where each rank is; the parent process only when there are no others."""
        views = []
        for rank in sorted(self.tagged(), key=in_order):
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
            for rank in self.tagged()
            if (rank not in record.ranks or record.ranks[rank].ended is None)
            and core_of(cores, rank) not in cores.done
        ]
        some_ended = any(span.ended is not None for span in record.ranks.values())
        return tuple(sorted(behind, key=in_order)) if some_ended else ()

    def tagged(self) -> tuple[Rank, ...]:
        tagged = tuple(rank for rank in self.state.known if rank != MAIN_RANK)
        return without_leaders(self.state.who.cores, tagged) or tuple(self.state.known)

    def is_once(self, phase: PhaseId) -> bool:
        rule = self.engine.rule_of(phase)
        return rule is None or rule.ranks == "once"

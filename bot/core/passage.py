"""How phases begin, go on and end by what a rank says of them.

No order is enforced: versions differ, and what one never prints is proven over by what comes later. A second
round of weight loading on a rank is the draft model's; other phases follow their rank's rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from bot.core.actions import Progress
from bot.core.cores import core_of
from bot.core.events import MAIN_RANK, Member, PhaseId, Rank, Role
from bot.core.findings import Finding, PhaseBegan, PhaseEnded, ProgressMade

if TYPE_CHECKING:
    from bot.core.whereabouts import Whereabouts
    from config.engine_reader import Hit
    from config.engine_rules import PhaseRule


@dataclass(frozen=True, slots=True)
class Teller:
    """Who says something when, and where its findings go."""

    found: list[Finding]
    rank: Rank
    member: Member
    at: datetime
    process: str = ""  # as far as the line or the journal tells


class Passage:
    """From phase to phase. `ranks`: how many there are, where that is known."""

    def __init__(self, where: Whereabouts, *, ranks: int | None = None) -> None:
        self._where = where
        self.state = where.state
        self.ranks = ranks

    # ---- begins, ends, progress ---------------------------------------------------------------------------

    def begin(self, rule: PhaseRule, hit: Hit, teller: Teller) -> None:
        spans, phase, rank = self.state.spans, PhaseId(rule.id), teller.rank
        said = Role(hit.rule.role) if hit.rule.role else None
        told = self._round_of(rank, phase, teller) if rule.rounds == "told" and said is None else said
        if rule.rounds in {"none", "told"} and spans.has_begun(rank, phase, told or Role.TARGET):
            return
        if said is not None:
            self._leave_other(phase, said, teller)
        elif rank == MAIN_RANK and spans.holding(rank, phase):
            return  # without tags, another rank joins
        role = told or self._role(rule, rank)
        if "*" in rule.ends:
            self.close_all(teller)
        index = spans.find_open(phase, role)
        if index is None:
            self.close_finished(teller, settled=True)
            index = self._open(phase, role, teller)
        self._prove(rule, teller)  # before it enters: "*" would prove this very phase over too
        spans.enter(index, rank, teller.at)

    def _round_of(self, rank: Rank, phase: PhaseId, teller: Teller) -> Role:
        """The draft's, where one is to come and the same process begins once more."""
        if not self.state.drafts:
            return Role.TARGET
        loader = f"{rank} {teller.process}"
        if loader not in self.state.loaders:
            self.state.loaders.append(loader)
            return Role.TARGET
        loaded = self.state.spans.has_ended(rank, phase, Role.TARGET)
        return Role.DRAFT if loaded else Role.TARGET

    def _leave_other(self, phase: PhaseId, role: Role, teller: Teller) -> None:
        """The words name whose phase begins: the rank is done with the other model's."""
        spans = self.state.spans
        for index in spans.holding(teller.rank, phase):
            if spans.records[index].role is not role:
                spans.leave(index, teller.rank, teller.at)

    def _role(self, rule: PhaseRule, rank: Rank) -> Role:
        """Whose phase it is, when the words do not tell: the first round is the target's."""
        spans, phase = self.state.spans, PhaseId(rule.id)
        if rule.rounds == "lead" and spans.has_begun(rank, phase, Role.TARGET):
            return Role.DRAFT
        if (
            rule.rounds == "follow"
            and self._where.lead is not None
            and spans.has_begun(rank, self._where.lead, Role.DRAFT)
            and spans.has_ended(rank, phase, Role.TARGET)
        ):
            return Role.DRAFT
        return Role.TARGET

    def _open(self, phase: PhaseId, role: Role, teller: Teller) -> int:
        spans = self.state.spans
        began = teller.at
        if (phase, role) == self._where.implied() and spans.last is not None:
            began = min(began, spans.records[spans.last].ended or began)
        teller.found.append(PhaseBegan(phase, role))
        self._where.moved()
        return spans.add(phase, role, began)

    def _prove(self, rule: PhaseRule, teller: Teller) -> None:
        spans = self.state.spans
        spans.prove_over(teller.rank, rule.ends, teller.at)
        for index in spans.open_records():
            record = spans.records[index]
            if record.phase in rule.ends and (not record.ranks or self._where.is_once(record.phase)):
                self.close(index, teller)

    def end(self, rule: PhaseRule, hit: Hit, teller: Teller) -> None:
        spans, phase, rank = self.state.spans, PhaseId(rule.id), teller.rank
        role = Role(hit.rule.role) if hit.rule.role else None
        if hit.rule.everyone:
            self._speak_for_all(rule, teller)
        held = spans.holding(rank, phase, role)
        if held:
            spans.leave(held[0 if hit.rule.oldest else -1], rank, teller.at)
        else:
            role = role or (self._role(rule, rank) if rule.rounds == "follow" else Role.TARGET)
            index = spans.find(phase, role)
            if index is None:
                index = self._open(phase, role, teller)  # its begin was never printed, or not kept
            spans.leave(index, rank, teller.at)
        self._prove(rule, teller)

    def _speak_for_all(self, rule: PhaseRule, teller: Teller) -> None:
        """For all of its core; those of whom no core is known are past the phase it speaks of, if there."""
        cores = self.state.who.cores
        core = core_of(cores, teller.rank)
        for rank in self.state.spans.ranks():
            whose = core_of(cores, rank)
            if core in {whose, None}:
                self.state.spans.prove_over(rank, (rule.id, *rule.ends), teller.at)
            elif whose is None:
                self.state.spans.prove_over(rank, (rule.id,), teller.at)

    def progress(self, rule: PhaseRule, hit: Hit, teller: Teller) -> None:
        spans, phase = self.state.spans, PhaseId(rule.id)
        index, progress = spans.find_open(phase), Progress(*hit.bar)
        if index is None:
            again = (
                rule.rounds == "again" and progress.done < progress.total
            )  # a full one is the last one's echo
            if not hit.rule.opens or (spans.find(phase) is not None and not again):
                return
            index = self._open(phase, Role.TARGET, teller)
            self._prove(rule, teller)
        if spans.progress(index, progress):
            self._leave_nested(rule, teller)
            teller.found.append(ProgressMade(phase, spans.records[index].role, progress, hit.rate))

    def _leave_nested(self, rule: PhaseRule, teller: Teller) -> None:
        """The phase goes on: what ran inside it and prints no end of its own is over."""
        for index in self.state.spans.open_records():
            if self._where.is_nested(index) and self.state.spans.records[index].phase in rule.ends:
                self.close(index, teller)

    # ---- closing ------------------------------------------------------------------------------------------

    def close_all(self, teller: Teller) -> None:
        for index in self.state.spans.open_records():
            self.close(index, teller)

    def close(self, index: int, teller: Teller) -> None:
        spans = self.state.spans
        record = spans.close(index, spans.last_left(index) or teller.at)
        self._where.moved()
        teller.found.append(PhaseEnded(record.phase, record.role, record))

    def close_finished(self, teller: Teller, *, settled: bool = False) -> None:
        for index in self.state.spans.open_records():
            if self._is_finished(index, settled=settled):
                self.close(index, teller)

    def _is_finished(self, index: int, *, settled: bool) -> bool:
        """Every rank has left it, and every rank that should be in it was."""
        spans = self.state.spans
        record = spans.records[index]
        rule = self._where.engine.rule_of(record.phase)
        if rule is None or rule.ranks == "once" or spans.last_left(index) is None:
            return False
        behind = range(index + 1, len(spans.records))
        moved_on = settled or any(not self._where.is_nested(later) for later in behind)
        if rule.ranks == "some":
            return moved_on or not rule.merged
        if any(rank not in record.ranks for rank in self._where.tagged()):
            return False
        told = self.ranks or sum(self.state.sizes.values())
        return moved_on or (told > 0 and len(record.ranks) >= told)

"""Names the cause of a failure from its own lines: what it is, what it means, what to try."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.core.events import MAIN_RANK, PhaseId, Rank, Role
from bot.core.exit_status import spell_status
from bot.core.words import spell_duration
from config.diagnoses import fill, load_diagnoses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from config.diagnoses import Diagnosis

UNKNOWN = "unknown"
_NCCL, _NCCL_SAYS = "nccl", "NCCL WARN"
_UNKNOWN_ADVICE = "Read the lines before it in the log."
_NUMBER = re.compile(r"-?\d+")
_KIBIBYTES = re.compile(r"(\d{1,15}) ?kB")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why it failed. `evidence`: the lines that say so, the best one first.

    `means`: what the failure is. `advice`: what to try. `seen`: the versions it was seen in. `also`: another
    failure that does not follow from this one, and `also_rank` whose. `speaker`: who wrote the evidence,
    where that is not `rank`.
    """

    id: str
    title: str
    evidence: tuple[str, ...]
    advice: str
    rank: Rank
    phase: PhaseId
    role: Role
    means: str = ""
    seen: str = ""
    also: str | None = None
    speaker: Rank | None = None
    also_rank: Rank | None = None

    @property
    def counsel(self) -> str:
        """What it means and what to try, in one text."""
        also = f"Another failure, apart from it: {self.also}." if self.also else ""
        return " ".join(part for part in (self.means, self.advice, also) if part)


def name_cause(
    evidence: Sequence[str],
    *,
    where: tuple[Rank, PhaseId, Role],
    engine: str | None = None,
    whole: bool = False,
    also: str | None = None,
) -> Cause:
    """`whole`: no line of them says it best, so they are only read together."""
    known = find_diagnosis(evidence, engine=engine, whole=whole)
    if known is None:
        return Cause(UNKNOWN, evidence[0], tuple(evidence), _UNKNOWN_ADVICE, *where, _place(where), "", also)
    slots = known.read_slots("\n".join(evidence))
    if "code" in slots and _NUMBER.fullmatch(slots["code"]):
        slots["code"] = spell_status(int(slots["code"]))
    if "milliseconds" in slots:
        slots["milliseconds"] = spell_duration(timedelta(milliseconds=int(slots["milliseconds"])))
    slots |= {name: _spell_size(value) for name, value in slots.items()}
    title, means, advice = (fill(text, slots) for text in (known.title, known.means, known.advice))
    return Cause(known.id, title, tuple(evidence), advice, *where, means, known.by, also)


def find_diagnosis(
    evidence: Sequence[str], *, engine: str | None = None, whole: bool = False
) -> Diagnosis | None:
    """The first that fits the best line, else the first that fits them all together."""
    texts = ("\n".join(evidence),) if whole else (evidence[0], "\n".join(evidence))
    fitting = (each for text in texts for each in load_diagnoses() if each.fits(text, engine=engine))
    return next(fitting, None)


def explain(
    evidence: Sequence[str], warnings: Sequence[Sequence[str]], *, engine: str | None = None
) -> Sequence[str]:
    """Why a call of NCCL failed stands in a warning of its own; the error only says that it failed."""
    for warning in reversed(warnings):
        if find_reason(evidence, warning, engine=engine) is not None:
            return (*warning, *evidence)
    return evidence


def find_reason(
    evidence: Sequence[str], warning: Sequence[str], *, engine: str | None = None
) -> Diagnosis | None:
    """What a warning of NCCL's says of why its call failed, where the evidence is such a failure."""
    if _NCCL_SAYS not in warning[0]:
        return None
    known = find_diagnosis(evidence, engine=engine)
    told = find_diagnosis(warning, engine=engine) if known is not None and known.id == _NCCL else None
    return told if told is not None and told.id != _NCCL else None


def _spell_size(value: str) -> str:
    """`112.7 GiB` for the kernel's `118203944kB`, which are KiB; anything else as it is."""
    match = _KIBIBYTES.fullmatch(value)
    if match is None:
        return value
    gibibytes = int(match[1]) / 2**20
    return f"{gibibytes:.1f} GiB" if gibibytes >= 1 else f"{int(match[1]) / 2**10:.1f} MiB"


def _place(where: tuple[Rank, PhaseId, Role]) -> str:
    """Of an unknown failure there is at least this to say."""
    rank, phase, role = where
    whom = "the main process" if rank == MAIN_RANK else rank
    model = " of the draft model" if role is Role.DRAFT else ""
    return f"No known failure fits this line, which {whom} printed during {phase}{model}."

"""Which of the suspects is the root: the earliest that follows from no other."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from bot.core.cause import UNKNOWN, find_diagnosis, find_reason, name_cause
from bot.core.events import MAIN_RANK, PhaseId
from bot.core.patience import shape_of
from bot.core.suspect import MOST_LINES, TRACEBACK, repeats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.core.events import Rank, Role
    from bot.core.suspect import Suspect

_ORDER = list(PhaseId)
_NEAR = 1  # phase
_MOST_COMPARED = 16  # a hundred take a second of the loop
_LOST = "nccl"  # the diagnosis of a rank that may only have lost another one
_CRASHES = {"segfault", "bus-error", "illegal-instruction"}  # what a rank may also do when it lost another


def find_root(suspects: Sequence[Suspect], *, engine: str | None = None) -> Suspect | None:
    """Survived ones only for want of better; `engine`: whose diagnoses count besides the common ones."""
    present = [each for each in suspects if not each.outlived] or suspects
    own = [each for each in present if not each.secondary]
    left = lasting(suspects)
    spoken = [each for each in left if TRACEBACK not in each.lines[0]]  # else only announced
    told = [each for each in spoken if not each.warning]
    ends = [each for each in present if each.secondary and each.fatal]
    lost = [each for each in ends if left and any(TRACEBACK in line for line in each.lines[1:])]
    root = next(iter(told or spoken or lost or left or _near(own[-1:], ends) or ends or present), None)
    return root if root is None else _look_behind(suspects, root, engine=engine)


def place_of(suspects: Sequence[Suspect], root: Suspect) -> tuple[PhaseId, Role]:
    """Where it failed: what itself names no place takes that of the end it led to."""
    if root.phase is PhaseId.PROCESS and not root.fatal:
        for each in suspects:
            if each.fatal and each.phase is not PhaseId.PROCESS:
                return each.phase, each.role
    return root.phase, root.role


def _near(survived: list[Suspect], ends: list[Suspect]) -> list[Suspect]:
    """Not what the startup left behind phases before an end that nothing explains."""
    steps = [_ORDER.index(ends[-1].phase) - _ORDER.index(each.phase) for each in survived if ends]
    return [] if any(step > _NEAR for step in steps) else survived


def _look_behind(suspects: Sequence[Suspect], root: Suspect, *, engine: str | None) -> Suspect:
    """Ranks that lost another are at times quicker to say so than that one to say why it ended."""
    known = find_diagnosis(root.lines, engine=engine)
    if known is None or known.id != _LOST or _is_explained(suspects, root, engine=engine):
        return root
    for each in _others(suspects, root):
        reason = find_diagnosis(each.lines, engine=engine)
        if reason is None or reason.follows or reason.id in _CRASHES:
            continue
        if each.rank != root.rank:
            return each
    return root


def _is_explained(suspects: Sequence[Suspect], root: Suspect, *, engine: str | None) -> bool:
    """Whether NCCL itself warned why, and of something that is not the loss of another rank."""
    warnings = (each for each in takewhile(lambda each: each is not root, suspects) if each.warning)
    reasons = (find_reason(root.lines, each.lines, engine=engine) for each in warnings)
    return any(reason is not None and not reason.follows for reason in reasons)


def lasting(suspects: Sequence[Suspect]) -> list[Suspect]:
    """Those that nothing shows to have been survived."""
    own = [each for each in suspects if not (each.secondary or each.outlived)]
    return [each for each in own if each.fatal or not each.survived]


def tell_all(suspects: Sequence[Suspect]) -> list[str]:
    """Where no line tells the root, everything that follows from it is all there is to see."""
    follow = [each for each in suspects if each.secondary] or suspects
    lines = [line for each in follow if not each.outlived for line in each.lines]
    return list(dict.fromkeys(lines))[:MOST_LINES]


def tell_another(
    suspects: Sequence[Suspect], root: Suspect, *, engine: str | None = None
) -> tuple[str, Rank] | None:
    """A failure of another kind that does not commonly come of one before it: in words, and whose."""
    first = find_diagnosis(root.lines, engine=engine)
    for each in _others(suspects, root):
        known = find_diagnosis(each.lines, engine=engine)
        if known is None or known.follows or known.id == (first.id if first else UNKNOWN):
            continue  # of two unknown ones nobody can tell
        cause = name_cause(each.lines, where=(each.rank, each.phase, each.role), engine=engine)
        whose = f"{each.rank}: " if each.rank != MAIN_RANK else ""
        return f"{whose}{cause.title}: {each.lines[0]}", each.rank
    return None


def _others(suspects: Sequence[Suspect], root: Suspect) -> list[Suspect]:
    """The first few that say something of their own: each is compared with all that is known."""
    distinct: dict[str, Suspect] = {}
    for each in lasting(suspects):
        if not (each is root or each.warning or repeats(each, root)):
            distinct.setdefault(shape_of(each.lines[0]), each)
    return list(distinct.values())[:_MOST_COMPARED]

"""What a suspect holds: its best line first, no more than is told."""

from __future__ import annotations

from bot.core.events import PhaseId, Rank, Role
from bot.core.findings import FailureSaid
from bot.core.suspect import LONGEST, MOST_LINES, Suspect, repeats, take_further


def suspect(*lines: str, secondary: bool = False) -> Suspect:
    return Suspect(Rank("TP0"), PhaseId.WEIGHTS, Role.TARGET, list(lines), secondary=secondary)


def said(text: str, *, secondary: bool = False, phase: PhaseId | None = None) -> FailureSaid:
    return FailureSaid(Rank("TP0"), text, fatal=False, secondary=secondary, phase=phase)


def test_what_was_raised_in_place_of_a_root_stands_behind_it() -> None:
    root = suspect("KeyError: 'a'")
    take_further(root, said("RuntimeError: no", phase=PhaseId.GRAPHS))
    assert root.lines == ["KeyError: 'a'", "RuntimeError: no"]
    assert root.phase is PhaseId.GRAPHS


def test_what_was_raised_in_place_of_a_follow_up_stands_before_it() -> None:
    follow_up = suspect("BrokenPipeError", secondary=True)
    take_further(follow_up, said("EOFError", secondary=True))
    assert follow_up.secondary
    take_further(follow_up, said("RuntimeError: no"))
    assert (follow_up.lines[0], follow_up.secondary) == ("RuntimeError: no", False)


def test_no_more_is_kept_than_is_told() -> None:
    root = suspect("first")
    for _ in range(2 * MOST_LINES):
        take_further(root, said("x" * 2 * LONGEST))
    assert len(root.lines) == MOST_LINES
    assert max(map(len, root.lines)) == LONGEST


def test_a_parent_repeats_its_childs_words() -> None:
    root = suspect("ValueError: no such head")
    assert repeats(suspect("RuntimeError: child said: no such head"), root)
    assert not repeats(suspect("RuntimeError: other"), root)

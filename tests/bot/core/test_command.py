"""The verbs."""

from __future__ import annotations

from bot.core.command import ACTING, READING, Word


def test_a_verb_either_reads_or_acts() -> None:
    assert frozenset(Word) == READING | ACTING
    assert not READING & ACTING
    assert Word.RESTART in ACTING
    assert Word.STATUS in READING

"""Words that are no verbs lead to the verb they mean, or to none."""

from __future__ import annotations

import pytest

from bot.core.command import Word
from bot.core.synonyms import SYNONYMS, guess_verb


@pytest.mark.parametrize(
    ("word", "verb"),
    [
        ("restrat", Word.RESTART),
        ("statsu", Word.STATUS),
        ("log", Word.LOGS),
        ("aborts", Word.STOP),  # of the verbs `start` looks most like it
        ("acknowlege", Word.ACK),
        ("foo", None),  # `follow` is not that close
        ("version", None),
        ("", None),
    ],
)
def test_a_misspelt_word_is_the_verb_it_was_meant_to_be(word: str, verb: Word | None) -> None:
    assert guess_verb(word) is verb


def test_no_synonym_is_a_verb_itself() -> None:
    assert not set(SYNONYMS) & {*Word}

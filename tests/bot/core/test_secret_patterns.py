"""Every pattern is reached: the cheap looks before it let through what it would find."""

from __future__ import annotations

import pytest

from bot.core.secret_patterns import CUT_OFF, GATE, MASK, NOTHING, PATTERNS
from tests.bot.core.test_redact import HARMLESS, KEY, LOOKS, PLACES

SECRET_TEXTS = [place.format(KEY).replace("\0", " ") for place in PLACES] + LOOKS


def test_every_pattern_finds_something() -> None:
    for _, pattern in PATTERNS:
        assert any(
            map(pattern.search, [*SECRET_TEXTS, "-----BEGIN PRIVATE KEY-----x", "token='abcdef123456'"])
        )


@pytest.mark.parametrize("text", SECRET_TEXTS)
def test_what_a_pattern_finds_passes_the_gate_and_its_own_words(text: str) -> None:
    for words, pattern in PATTERNS:
        if pattern.search(text):
            assert GATE.search(text.lower())
            assert any(word in text.lower() for word in words)


@pytest.mark.parametrize(
    "text", [text for text in HARMLESS if text.startswith(("Prefill", "Decode", "max_total", "Load", "\r"))]
)
def test_the_lines_that_come_most_are_let_go_at_the_gate(text: str) -> None:
    assert GATE.search(text.lower()) is None


@pytest.mark.parametrize(
    "value", ["None", "null", "***", "...", "[]", "$HF_TOKEN", "${HF_TOKEN}", "<token>", "%s"]
)
def test_a_value_that_says_nothing(value: str) -> None:
    assert NOTHING.fullmatch(value)


def test_the_mask_is_no_secret() -> None:
    assert GATE.search(MASK) is None
    assert CUT_OFF.search(MASK) is None

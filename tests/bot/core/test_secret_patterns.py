"""Every pattern is reached: the cheap looks before it let through what it would find."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.secret_patterns import CUT_OFF, GATE, MASK, NOTHING, PATTERNS, outline_of
from tests.bot.core.test_redact import HARMLESS, KEY, LOOKS, PLACES

SECRET_TEXTS = [place.format(KEY).replace("\0", " ") for place in PLACES] + LOOKS


def test_every_pattern_finds_something() -> None:
    for _, pattern, _ in PATTERNS:
        assert any(
            map(pattern.search, [*SECRET_TEXTS, "-----BEGIN PRIVATE KEY-----x", "token='abcdef123456'"])
        )


@pytest.mark.parametrize("text", SECRET_TEXTS)
def test_what_a_pattern_finds_passes_the_gate_and_its_own_words(text: str) -> None:
    for words, pattern, _ in PATTERNS:
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


NAMES = [
    "encryption_key_id",
    "huggingface_token",
    "SECRET-ACCESS-KEY",
    "passphrase",
    "tokenizer",
    "monkey",
    "key",
]
AFTER = ["='a\\'b' ", ": x", '", b"v', "=", " ", "İ", "=>[1] ", "\\' , '", ";"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*NAMES, *AFTER]), max_size=30).map("".join))
def test_looking_near_the_words_finds_what_looking_everywhere_finds(text: str) -> None:
    for look in PATTERNS:
        everywhere = [match.span() for match in look.pattern.finditer(text)]
        assert [match.span() for match in look.find(text, text.lower())] == everywhere


def test_an_outline_leaves_the_numbers_out() -> None:
    assert outline_of("TP3: #token: 1234, ok") == outline_of("tp5: #token: 9876, OK") != outline_of("tp5")


@given(st.lists(st.sampled_from(SECRET_TEXTS) | st.text(max_size=9), max_size=4).map(" ".join))
def test_the_gate_finds_the_same_in_an_outline(text: str) -> None:
    outlined = outline_of(text.encode(errors="replace").decode()).decode()
    assert bool(GATE.search(outlined.lower())) == bool(GATE.search(text.lower()))
    assert len(outlined) == len(text)

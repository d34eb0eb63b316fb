"""Tests of the patterns that are searched for in every line."""

from __future__ import annotations

import re
import time

import pytest

from config.search_pattern import check_search_pattern


@pytest.mark.parametrize(
    "pattern",
    [
        "DFLASH_DIAG",
        r"accept rate: (\d+\.\d+)",
        r"(?i)warn(?:ing)?s?\b",
        r"loss=.*step=.*",
        r"[^\s]+ took \d+ s",
        r"(?:foo|bar)+ baz",
        r"(?P<name>\w+)=(?P<value>\w+)",
        r"(?>a+)* is atomic",
        r"(\d{1,3}\.){3}\d{1,3}",
        r"\(a+\)* is no group",
        r"[(a+)*]",
        "a{0,3}b{2}",
    ],
)
def test_ordinary_patterns_are_taken_as_they_are(pattern: str) -> None:
    assert check_search_pattern(pattern) == pattern


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(a+)*$", "repeats a repetition"),
        ("(a*)+b", "repeats a repetition"),
        (r"((\w+\s?)+)!", "repeats a repetition"),
        (r"(?:x{2,}|y)*z", "repeats a repetition"),
        ("(.*a){12,}", "repeats a repetition"),
        (".*=.*=.*=", "more than 2"),
        (r"[^a]*b\S+c.{0,80}d", "more than 2"),
        ("(unclosed", "no regular expression"),
        ("*", "no regular expression"),
    ],
)
def test_what_may_take_for_ever_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        check_search_pattern(pattern)


def test_the_worst_that_is_allowed_is_soon_done_with_the_longest_line_that_is_searched() -> None:
    pattern = re.compile(check_search_pattern(".*=.*=X"))
    began = time.process_time()
    assert pattern.search("=" * 500) is None
    assert time.process_time() - began < 5

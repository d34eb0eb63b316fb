"""What a pattern's texts begin with, and that no rule is ruled out by a character it matches."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config.engine_file import load_engine, load_engines
from config.openings import ASCII, find_openings

DIGITS = "0123456789"
LINES = sorted(
    {each.line for engine in load_engines().values() for each in engine.rules() if each.line is not None}
)


@pytest.mark.parametrize(
    ("pattern", "openings"),
    [
        ("Load weight begin", "L"),
        ("one|two|(?:three|four)", "otf"),
        (r"(?:INFO: +)?Started", "IS"),
        (r"(?:INFO: +){0,3}Started", "IS"),
        (r"(?:INFO: +){1,3}Started", "I"),
        (r"a*b", "ab"),
        (r"a+b", "a"),
        (r"a*+b??c", "abc"),
        (r"(?P<number>\d)x", DIGITS),
        (r"(?>a|b)+c", "ab"),
        (r"[xy-z]{2}", "xyz"),
        (r"[]a]", "]a"),
        (r"\[\d", "["),
        (r"(?i:load) x", "lL"),
        (r"(?!x)(?=ab)\babc", "a"),
        (r"^\Aabc$", "a"),
        (r"\.|\*\*\*", ".*"),
        (r"{a", "{"),
    ],
)
def test_what_stands_first(pattern: str, openings: str) -> None:
    assert find_openings(pattern) == frozenset(openings)


def test_a_class_stands_for_what_re_says() -> None:
    assert find_openings(r"\S+ x") == frozenset(each for each in ASCII if re.match(r"\S", each))
    assert find_openings(".x") == frozenset(ASCII) - {"\n"}


@pytest.mark.parametrize(
    "pattern",
    ["", r"\s*$", "a?", "a|", r"(?i)abc", r"(a)?(?(1)b|c)", r"(a?)\1b", r"\x41b", "(?#note)a", "a)b"],
)
def test_anything_may_stand_first_where_nothing_need_or_the_pattern_is_not_understood(pattern: str) -> None:
    assert find_openings(pattern) is None


def test_most_rules_are_ruled_out_by_one_character() -> None:
    lines = [each.line for each in load_engine("sglang").rules() if each.line is not None]
    openings = [find_openings(line) for line in lines]
    for character in "DPRL[ l":
        assert sum(each is None or character in each for each in openings) < len(lines) / 2


@pytest.mark.parametrize("line", LINES)
@settings(max_examples=15, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(data=st.data())
def test_what_a_rule_matches_begins_as_found(line: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(line, fullmatch=True))
    openings = find_openings(line)
    assert openings is None or text[:1] in openings or not text.isascii()

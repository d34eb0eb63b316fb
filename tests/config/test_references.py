"""Names in the operator's file that point nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.command import Word
from config.references import VERBS, find_dangling, find_unknown_engines

SERVICE = {"host": "h", "unit": "u.service"}
MEMBER = {"host": "h", "unit": "u.service"}


@pytest.mark.parametrize(
    ("changes", "key", "fault"),
    [
        ({"default_service": "t"}, "default_service", "is 't'; allowed: s"),
        (
            {"services": {"s": SERVICE | {"host": "nowhere"}}},
            'services."s".host',
            "no [hosts] table has; allowed: h",
        ),
        ({"services": {"s": {"members": [{"host": "x"}]}}}, 'services."s".members.0.host', "is 'x'"),
        ({"services": {"Status": SERVICE}}, 'services."Status"', "name of a verb"),
        ({"services": {"s": {"members": [MEMBER, MEMBER]}}}, 'services."s".members', "twice"),
    ],
)
def test_what_points_nowhere_is_named(changes: dict[str, Any], key: str, fault: str) -> None:
    [(found_key, found)] = find_dangling({"hosts": {"h": {}}, "services": {"s": SERVICE}} | changes)
    assert found_key == key
    assert fault in found


@pytest.mark.parametrize(
    ("engine", "faults"), [("mystery", 1), ("vllm", 0), ("own.toml", 0), ("./own", 0), (None, 0), (3, 0)]
)
def test_an_engine_that_is_neither_known_nor_a_path_is_named(engine: object, faults: int) -> None:
    raw = {"services": {"s": {"engine": engine}, "t": {}, "u": 7}}
    found = find_unknown_engines(raw, ("auto", "vllm"))
    assert [key for key, _ in found] == ['services."s".engine'] * faults
    assert all("allowed: auto, vllm, or a path" in fault for _, fault in found)


def test_the_verbs_are_those_of_the_chat() -> None:
    assert frozenset(Word) == VERBS


def test_what_is_right_is_left_alone() -> None:
    assert find_dangling({"default_service": "s", "hosts": {"h": {}}, "services": {"s": SERVICE}}) == []


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["hosts", "services", "host", "members", "unit", "x"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    )
)
def test_any_shape_is_survived(shape: object) -> None:
    find_dangling({"hosts": shape, "services": shape, "default_service": shape})
    find_dangling({"services": {"s": shape, "t": {"members": shape}}})

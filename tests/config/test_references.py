"""Names in the operator's file that point nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.command import Word
from config.references import VERBS, find_dangling

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

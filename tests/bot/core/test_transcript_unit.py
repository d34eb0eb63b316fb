"""Of several units in a journal, the one that is followed."""

from __future__ import annotations

import pytest

from bot.core.events import LogLine, Origin
from bot.core.transcript_unit import find_unit


def said(*texts: str) -> list[LogLine]:
    return [
        LogLine(text, text, origin=Origin.MANAGER, fields={"UNIT": text.split(":")[0]} if ":" in text else {})
        for text in texts
    ]


@pytest.mark.parametrize(
    ("texts", "unit"),
    [
        ([], None),
        (["Started Kimi."], None),
        (["a.service: x", "a.service: Failed with result 'signal'."], None),
        (["b.service: x", "b.service: y", "a.service: Failed with result 'signal'."], "a.service"),
        (["b.service: x", "b.service: y", "a.service: x"], "b.service"),
        (["b.service: Failed with result 'signal'.", "vllm.service: x"], "vllm.service"),
        (["b.service: x", "b.service: y", "user-llm.slice: x"], "b.service"),
    ],
)
def test_the_unit_of_a_journal(texts: list[str], unit: str | None) -> None:
    assert find_unit(said(*texts)) == unit


def test_only_systemd_speaks_of_units() -> None:
    lines = [LogLine("x", "x", origin=Origin.SERVICE, fields={"UNIT": each}) for each in ("a", "b")]
    assert find_unit(lines) is None

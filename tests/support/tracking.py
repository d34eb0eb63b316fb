"""Logs read by a tracker alone: what the tests of phases share."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bot.core.bars import read_bar
from bot.core.events import LogLine, Member, Role
from bot.core.phases import Tracker
from config.engine_file import load_engine
from tests.support.journals import BEGAN, Journal, tp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bot.core.findings import Finding

ENGINE = load_engine("sglang")
HERE = Member("llm-two/sglang.service")
STAMP = "%Y-%m-%d %H:%M:%S"
DP_TAGS = tuple(f"DP{number} TP{number} EP{number}" for number in range(8))
PP_TAGS = tuple(f"PP{stage} TP{number}" for stage in range(2) for number in range(4))
SHAPES = [
    (tp(1), {}),
    (tp(8), {}),
    (DP_TAGS, {"dp_size": 8, "enable_dp_attention": True}),
    (PP_TAGS, {"tp_size": 4, "pp_size": 2}),
    (tuple(f"DP{number}" for number in range(4)), {"tp_size": 1, "dp_size": 4}),
]


def line(text: str, **fields: object) -> LogLine:
    return replace(LogLine(text=text, reading=read_bar(text)), **fields)  # type: ignore[arg-type]


def feed(tracker: Tracker, lines: Iterable[str]) -> list[Finding]:
    found: list[Finding] = []
    at = BEGAN
    for text in lines:
        if text.startswith("[2026"):
            at = datetime.strptime(text[1:20], STAMP).replace(tzinfo=UTC)
        found += tracker.read(line(text), member=HERE, at=at)
    return found


def follow(log: Journal) -> tuple[Tracker, list[Finding]]:
    tracker = Tracker(ENGINE)
    return tracker, feed(tracker, log.lines)


def names(tracker: Tracker) -> list[str]:
    return [record.phase + ("/draft" if record.role is Role.DRAFT else "") for record in tracker.phases()]

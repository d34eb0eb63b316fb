"""Markers of the watched start: read with each of its lines, told when due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.core.actions import MarkerSeen

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from bot.core.events import LogLine
    from bot.core.marker import Hit
    from bot.core.startup_turn import Turn


def read_marker(turn: Turn, line: LogLine, now: datetime) -> None:
    if turn.plan.markers and not line.partial:
        _say(turn, turn.markers.read(line.reading, now))


def check_markers(turn: Turn, now: datetime) -> None:
    """What waited for a line after it, or for its minute."""
    if turn.plan.markers:
        _say(turn, turn.markers.due(now))


def say_last(turn: Turn, now: datetime) -> None:
    """Before the verdict: nothing that may be told stays behind it."""
    if turn.plan.markers:
        _say(turn, turn.markers.last(now))


def _say(turn: Turn, hits: Iterable[Hit]) -> None:
    for hit in hits:
        turn.say(MarkerSeen(hit))

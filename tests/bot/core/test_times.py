"""What another process wrote with a clock that was ahead does not make ours wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from bot.core.incident_state import Sign, SignKind
from bot.core.monitor_state import Mute
from bot.core.times import bring_back

NOW = datetime(2026, 5, 29, 3, 12, 41, tzinfo=UTC)
BEFORE, AHEAD = NOW - timedelta(hours=1), NOW + timedelta(hours=1)


@dataclass
class Inner:
    since: datetime | None = AHEAD
    begun: datetime | None = AHEAD  # by the host's clock


@dataclass
class State:
    late: datetime = AHEAD
    early: datetime = BEFORE
    nothing: datetime | None = None
    span: timedelta = timedelta(hours=9)
    seen: dict[str, datetime] = field(default_factory=lambda: {"a": AHEAD, "b": BEFORE})
    full: list[datetime] = field(default_factory=lambda: [BEFORE, AHEAD])
    signs: list[Sign] = field(default_factory=lambda: [Sign(SignKind.PROBE, AHEAD, "x")])
    members: dict[str, Inner] = field(default_factory=lambda: {"m": Inner()})
    mute: Mute = field(default_factory=lambda: Mute(AHEAD))
    muted: datetime = AHEAD


def test_nothing_is_later_than_now_but_what_lies_ahead_by_right() -> None:
    state = State()
    bring_back(state, NOW)
    assert state == State(
        late=NOW,
        seen={"a": NOW, "b": BEFORE},
        full=[BEFORE, NOW],
        signs=[Sign(SignKind.PROBE, NOW, "x")],
        members={"m": Inner(since=NOW)},
    )

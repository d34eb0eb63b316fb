"""The records of phases and how long they took."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bot.core.events import PhaseId, Role
from bot.core.findings import PhaseRecord

AT = datetime(2026, 5, 29, tzinfo=UTC)


def test_a_record_tells_how_long_it_took() -> None:
    assert PhaseRecord(PhaseId.WEIGHTS, Role.TARGET, AT).took is None
    ended = PhaseRecord(PhaseId.WEIGHTS, Role.TARGET, AT, AT + timedelta(seconds=90))
    assert ended.took == timedelta(seconds=90)

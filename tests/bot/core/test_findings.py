"""The records of phases and how long they took."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bot.core.events import PhaseId, Role
from bot.core.findings import NOISE, ONLY_NOISE, NoiseRead, PhaseRecord

AT = datetime(2026, 5, 29, tzinfo=UTC)


def test_a_record_tells_how_long_it_took() -> None:
    assert PhaseRecord(PhaseId.WEIGHTS, Role.TARGET, AT).took is None
    ended = PhaseRecord(PhaseId.WEIGHTS, Role.TARGET, AT, AT + timedelta(seconds=90))
    assert ended.took == timedelta(seconds=90)


def test_noise_alone_is_told_by_a_look() -> None:
    assert list(ONLY_NOISE) == [NoiseRead()]
    assert ONLY_NOISE[0] is NOISE

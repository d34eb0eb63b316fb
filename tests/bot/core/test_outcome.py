"""Where a log ends, in each way it is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bot.core.cause import Cause
from bot.core.events import PhaseId, Rank, Role
from bot.core.findings import PhaseRecord
from bot.core.outcome import NOWHEN, Outcome

BEGAN = datetime(2026, 5, 29, 23, 49, 47, tzinfo=UTC)
LOADED = PhaseRecord(PhaseId.WEIGHTS, Role.TARGET, BEGAN, BEGAN + timedelta(seconds=9))
WHERE = (Rank("TP0"), PhaseId.SERVER, Role.TARGET)
CAUSE = Cause("port-in-use", "The port is taken", ("x: in use",), "End it.", *WHERE)


def outcome(state: str, *, cause: Cause | None = None, record: PhaseRecord = LOADED) -> Outcome:
    return Outcome("sglang", state, PhaseId.SERVER, Role.TARGET, (record,), {}, cause, 7, 1, until=BEGAN)


@pytest.mark.parametrize(("state", "code"), [("ready", 0), ("failed", 3), ("stalled", 4), ("starting", 5)])
def test_the_exit_code_is_the_state(state: str, code: int) -> None:
    assert outcome(state).exit_code == code


def test_as_json() -> None:
    told = outcome("failed", cause=CAUSE).to_json()
    assert (told["state"], told["phase"], told["lines"], told["unrecognised"]) == ("failed", "server", 7, 1)
    assert told["cause"]["evidence"] == ["x: in use"]
    assert told["phases"][0]["seconds"] == 9.0
    assert outcome("ready").to_json()["cause"] is None


def test_a_phase_without_a_time_has_no_duration() -> None:
    record = PhaseRecord(PhaseId.WEIGHTS, Role.DRAFT, NOWHEN, BEGAN)
    assert outcome("ready", record=record).to_json()["phases"][0]["seconds"] is None


def test_as_text_and_as_a_picture() -> None:
    text = outcome("failed", cause=CAUSE).to_text()
    assert "sglang: failed (server)" in text
    assert "The port is taken" in text
    assert "7 lines, 1 not recognised" in text
    assert outcome("failed", cause=CAUSE).waterfall() is not None

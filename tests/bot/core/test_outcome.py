"""Where a log ends, in each way it is told."""

from __future__ import annotations

from dataclasses import replace
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
    assert "\n  x: in use\nTry: End it.\n" in text
    more = replace(CAUSE, means="Another process listens there.", also="TP5: OSError: y")
    assert "\nAnother process listens there.\nTry: End it.\nAnother failure, apart from it: TP5" in (
        outcome("failed", cause=more).to_text()
    )
    assert outcome("failed", cause=CAUSE).waterfall() is not None


def test_what_failed_after_it_was_ready_is_not_called_ready() -> None:
    served = replace(outcome("failed", cause=CAUSE), phase=PhaseId.READY)
    assert served.to_text().startswith("sglang: failed (after it was ready)\n")


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (0, "0 lines, 0 not recognised: the log is empty, so nothing is known of a start"),
        (1, "1 line, 1 not recognised: nothing here is of sglang, so nothing is known of a start; is it the"),
    ],
)
def test_a_log_of_nothing_that_is_known_is_not_passed_off_as_a_start(lines: int, told: str) -> None:
    nothing = replace(outcome("starting"), lines=lines, unrecognised=lines)
    assert told in nothing.to_text()


@pytest.mark.parametrize(
    ("state", "idle", "told"),
    [
        ("stalled", timedelta(hours=1), ", silent for 1h"),
        ("starting", timedelta(minutes=2), ", silent for 2m"),
        ("starting", timedelta(0), ""),
        ("stalled", None, ""),
        ("failed", timedelta(hours=1), ""),
        ("ready", timedelta(hours=1), ""),
    ],
)
def test_how_long_it_is_silent_is_said_in_text_and_picture(
    state: str, idle: timedelta | None, told: str
) -> None:
    ended = replace(outcome(state), idle=idle)
    waterfall = ended.waterfall()
    assert waterfall is not None
    for words in (ended.to_text().split("\n")[0], waterfall.verdict):
        assert words.endswith(told)
        assert ("silent" in words) is bool(told)


def test_of_many_starts_that_failed_before_the_commonest_causes_are_named() -> None:
    causes = tuple(f"cause {number}" for number in range(8) for _ in range(8 - number))
    rows = replace(outcome("starting"), earlier=causes).to_text().split("\n")
    begin = rows.index("36 starts before it in this log failed:")
    assert rows[begin + 1 : begin + 8] == [
        *(f"  {8 - number} times: cause {number}" for number in range(5)),
        "  6 times: something else",
        "",
    ]
    assert "1 start before it in this log failed:" in replace(outcome("ready"), earlier=("x",)).to_text()

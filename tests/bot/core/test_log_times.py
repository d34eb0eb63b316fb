"""Times of logs, whatever they leave out."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bot.core.log_times import LogClock, read_seconds


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("stamp", "at"),
    [
        ("2026-05-29T23:49:47+00:00", utc(2026, 5, 29, 23, 49, 47)),
        ("2026-05-29T23:49:47.123456789Z", utc(2026, 5, 29, 23, 49, 47, 123456)),
        ("2026-05-29T23:49:47.5+0200", utc(2026, 5, 29, 21, 49, 47, 500000)),
        ("2026-05-29 23:49:47 -07", utc(2026, 5, 30, 6, 49, 47)),
        ("2026-05-29 23:49:47 UTC", utc(2026, 5, 29, 23, 49, 47)),
        ("May 29 23:49:47", utc(2000, 5, 29, 23, 49, 47)),
        ("Feb 29 00:00:01.000002", utc(2000, 2, 29, 0, 0, 1, 2)),
        ("May  9 23:49:47", utc(2000, 5, 9, 23, 49, 47)),
        ("Mai 29 23:49:47", None),
        ("May 32 23:49:47", None),
        ("2026-13-29T23:49:47Z", None),
        ("2026-05-29T23:49:61Z", None),
        ("0001-01-01T00:00:00+23:59", None),
        ("2026-05-29T23:49:47+99:99", utc(2026, 5, 29, 23, 49, 47)),
        ("None", None),
    ],
)
def test_a_carrier_stamp(stamp: str, at: datetime | None) -> None:
    assert LogClock().read(stamp) == at


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("[2026-05-29 23:49:47] server_args=", utc(2026, 5, 29, 23, 49, 47)),
        ("[2026-05-29 23:49:47 TP5] Load", utc(2026, 5, 29, 23, 49, 47)),
        ("[2026-05-29 23:49:47.123 DP0 TP5] Load", utc(2026, 5, 29, 23, 49, 47, 123000)),
        ("2026-05-29 23:49:47,180 - INFO - x", utc(2026, 5, 29, 23, 49, 47, 180000)),
        ("2026-05-29T23:49:47.000001Z  INFO launcher: x", utc(2026, 5, 29, 23, 49, 47, 1)),
        ("2026-05-29 23:49:28.424785: I tensorflow/x", utc(2026, 5, 29, 23, 49, 28, 424785)),
        ("INFO 05-29 23:49:47 [core.py:1] x", utc(2024, 5, 29, 23, 49, 47)),
        ("(EngineCore pid=7) INFO 05-29 23:49:47 [x.py:1] y", utc(2024, 5, 29, 23, 49, 47)),
        (
            "(EngineCore_0 pid=7) (VllmWorker TP1 pid=9) INFO 05-29 23:49:47 [x.py:1]",
            utc(2024, 5, 29, 23, 49, 47),
        ),
        ("[rank3]:[E529 23:50:01.123 ProcessGroupNCCL.cpp:1] x", utc(2024, 5, 29, 23, 50, 1, 123000)),
        ("W0607 11:56:57.513000 1 torch/x.py:6] y", utc(2024, 6, 7, 11, 56, 57, 513000)),
        ("[05/29/2026-23:49:47] [TRT-LLM] [I] x", utc(2026, 5, 29, 23, 49, 47)),
        ("plain 2026-05-29 23:49:47", None),
        ("model-2026-05-29", None),
        ("W9999 99:99:99.9 1 x", None),
        ("", None),
    ],
)
def test_an_engine_prefix(text: str, at: datetime | None) -> None:
    assert LogClock(2024).read_engine(text) == at


def test_new_year_without_a_year() -> None:
    clock = LogClock(2025)
    stamps = ["Dec 31 23:59:59", "Jan  1 00:00:01", "Dec 31 23:59:58", "Jan  1 00:00:02"]
    years = [at.year for stamp in stamps if (at := clock.read(stamp))]
    assert years == [2025, 2026, 2025, 2026]


def test_the_year_is_learned_from_lines_that_name_it() -> None:
    clock = LogClock()
    clock.learn(["INFO 12-31 23:59:58 [x.py:1] built 2019-01-01 10:00:00", "[2026-01-01 00:00:03] y"])
    assert clock.read_engine("INFO 12-31 23:59:58 [x.py:1]") == utc(2025, 12, 31, 23, 59, 58)
    assert clock.read_engine("INFO 01-01 00:00:05 [x.py:1]") == utc(2026, 1, 1, 0, 0, 5)

    clock.learn(["no time at all", "since 2027-03-04 05:06:07, they say"])
    assert clock.read("Mar  4 05:06:08") == utc(2027, 3, 4, 5, 6, 8)


def test_seconds() -> None:
    assert read_seconds("1780098587.250000") == utc(2026, 5, 29, 23, 49, 47, 250000)
    assert read_seconds("99999999999999") is None
    assert read_seconds("x") is None

"""One JSON object a line, in the fields of whoever wrote it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from bot.core.log_times import LogClock
from bot.core.transcript_json import JsonLinesReader

AT = datetime(2026, 5, 29, 23, 49, 47, tzinfo=UTC)
STAMP = "2026-05-29T23:49:47.000Z"


def read(entry: object) -> list[tuple[str, datetime | None]]:
    line = entry if isinstance(entry, str) else json.dumps(entry)
    return [(row.text, row.at) for row in JsonLinesReader(LogClock()).read(line.encode())]


@pytest.mark.parametrize(
    "entry",
    [
        {"asctime": "2026-05-29 23:49:47,000", "levelname": "INFO", "name": "vllm", "message": "x"},
        {"insertId": "a", "textPayload": "x", "timestamp": STAMP},
        {"jsonPayload": {"message": "x"}, "timestamp": STAMP},
        {"date": AT.timestamp(), "stream": "stdout", "log": "x\n"},
        {"ts": AT.timestamp() * 1e9, "msg": "x"},
        {"time": STAMP, "message": "", "log": "x"},
    ],
)
def test_the_text_and_the_time(entry: dict[str, object]) -> None:
    assert read(entry) == [("x", AT)]


def test_rusts_tracing_gets_its_stamp_back() -> None:
    span = {"rank": 3, "name": "shard-manager"}
    said = {"timestamp": STAMP, "level": "INFO", "fields": {"message": "Starting shard"}, "span": span}
    assert read(said | {"target": "text_generation_launcher"}) == [
        (" INFO text_generation_launcher: Starting shard rank=3", AT)
    ]


def test_each_line_of_a_message_and_its_traceback() -> None:
    entry = {
        "time": STAMP,
        "message": "a\nb",
        "exc_info": "Traceback (most recent call last):\nKeyError: 'x'",
    }
    assert [text for text, _ in read(entry)] == [
        "a",
        "b",
        "Traceback (most recent call last):",
        "KeyError: 'x'",
    ]


@pytest.mark.parametrize("line", ["plain", "{", '{"level":"info"}', "[1]", '{"message":7}'])
def test_what_is_no_entry_stays_as_it_is(line: str) -> None:
    assert read(line) == [(line, None)]


def test_an_empty_message_is_an_empty_line() -> None:
    assert [text for text, _ in read({"time": STAMP, "message": ""})] == [""]
    assert list(JsonLinesReader(LogClock()).close()) == []


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "1" + "0" * 400, "true"])
def test_a_number_that_is_no_time(number: str) -> None:
    ((text, at),) = read(f'{{"ts": {number}, "message": "x"}}')
    assert text == "x"
    assert at is None or at.year == 1970


def test_half_a_character_is_written_out_wherever_it_stands() -> None:
    (first, second) = read(r'{"target": "a\ud800", "message": "b\ud800", "exc_info": "c\ud800"}')
    assert (first[0], second[0]) == (r" INFO a\ud800: b\ud800", r"c\ud800")

"""Logs that a collector or the engine itself writes as one JSON object a line, each in fields of its own."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bot.core.entries import read_text
from bot.core.log_times import read_seconds
from bot.core.transcript_rows import Row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bot.core.log_times import LogClock

TEXTS = ("message", "msg", "log", "textPayload", "line", "MESSAGE", "event", "body")
_INNER = ("fields", "jsonPayload", "record", "attributes")  # objects that hold the text in their stead
_TRACES = ("exc_info", "exception", "stack_trace", "stack")
_TIMES = ("timestamp", "time", "asctime", "@timestamp", "ts", "date")
_MOST_SECONDS = 1e11  # greater numbers count milliseconds, or less
_LARGEST = 1e21  # nanoseconds; what is more is no time


class JsonLinesReader:
    def __init__(self, clock: LogClock) -> None:
        self._clock = clock

    def read(self, raw: bytes) -> Iterable[Row]:
        line = read_text(raw.rstrip(b"\r"))
        entry = _parse(line)
        text = None if entry is None else _text(entry)
        if entry is None or text is None:
            yield Row(line)
            return
        at = self._time(entry)
        for each in text.rstrip("\r\n").split("\n"):
            yield Row(each, at)

    def close(self) -> Iterable[Row]:
        return ()

    def _time(self, entry: dict[str, Any]) -> datetime | None:
        stamp = next((entry[name] for name in _TIMES if name in entry), None)
        if isinstance(stamp, int | float):
            return _read_number(stamp)
        at = self._clock.read(stamp) if isinstance(stamp, str) else None
        return at.astimezone(UTC) if at is not None else None


def _read_number(number: float) -> datetime | None:
    while _MOST_SECONDS < number <= _LARGEST:
        number /= 1000
    return read_seconds(str(number)) if number <= _LARGEST else None


def _parse(line: str) -> dict[str, Any] | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _text(entry: dict[str, Any]) -> str | None:
    """What was said, behind the stamp Rust's tracing would have given it, and its traceback."""
    inner: dict[str, Any] = next((entry[name] for name in _INNER if isinstance(entry.get(name), dict)), {})
    told = [each[name] for each in (entry, inner) for name in TEXTS if isinstance(each.get(name), str)]
    if not told:
        return None
    text = next(filter(None, told), "")
    if _is_text(entry.get("target")):
        text = _traced(entry, text)
    trace = next((each[name] for each in (entry, inner) for name in _TRACES if _is_text(each.get(name))), "")
    whole = f"{text}\n{trace}" if trace else text
    return read_text(whole.encode("utf-8", "backslashreplace"))  # half a character may be escaped in it


def _traced(entry: dict[str, Any], text: str) -> str:
    span = entry.get("span")
    rank = span.get("rank") if isinstance(span, dict) else None
    first, newline, rest = text.partition("\n")
    whose = f" rank={rank}" if rank is not None else ""
    return f"{entry.get('level', 'INFO')!s:>5} {entry['target']}: {first}{whose}{newline}{rest}"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)

"""journalctl's verbose output: a line with the time and the cursor, then one field a line, indented."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bot.core.entries import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bot.core.events import LogLine
    from bot.core.journal import Decoder
    from bot.core.log_times import LogClock

VERBOSE_HEADER = re.compile(
    r"[A-Z][a-z]{2} (?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})?(?: [+-]\d\d(?:\d\d)?)?)"
    r"(?: [A-Z]{1,5})? \[(?P<cursor>s=[^\]]{1,300})\]$"
)
_FIELD = re.compile(r" {4}(?P<name>_{0,2}[A-Z][A-Z0-9_]{0,63})=(?P<value>.*)", re.DOTALL)


class VerboseReader:
    def __init__(self, clock: LogClock, decoder: Decoder) -> None:
        self._clock = clock
        self._decoder = decoder
        self._entry: dict[str, list[str]] = {}
        self._value: list[str] | None = None  # of the field that was read last: a long one goes on
        self._indent = ""  # before its further lines

    def read(self, raw: bytes) -> Iterable[LogLine]:
        line = read_text(raw)
        header = VERBOSE_HEADER.fullmatch(line.rstrip())
        if header is not None:
            done = list(self.close())
            self._begin(header)
            return done
        field = _FIELD.fullmatch(line)
        if field is not None:
            self._indent = " " * field.start("value")
            self._value = [field["value"]]
            self._entry.setdefault(field["name"], self._value)
        elif self._value is not None and line.startswith(" "):
            self._value.append(line.removeprefix(self._indent))
        return ()

    def close(self) -> Iterable[LogLine]:
        entry = {name: "\n".join(value) for name, value in self._entry.items()}
        self._entry, self._value = {}, None
        return self._decoder.take(entry) if "MESSAGE" in entry else ()

    def _begin(self, header: re.Match[str]) -> None:
        at = self._clock.read(header["stamp"])
        self._entry = {"__CURSOR": [header["cursor"]]}
        if at is not None:
            self._entry["__REALTIME_TIMESTAMP"] = [str(int(at.timestamp() * 1_000_000))]

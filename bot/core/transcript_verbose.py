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
    r"[A-Z][a-z]{2} (?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})?)(?: [A-Z]{1,5}| [+-]\d\d)?"
    r" \[(?P<cursor>s=[^\]]{1,300})\]$"
)
_FIELD = re.compile(r" {4}(?P<name>_{0,2}[A-Z][A-Z0-9_]{0,63})=(?P<value>.*)", re.DOTALL)


class VerboseReader:
    def __init__(self, clock: LogClock, decoder: Decoder) -> None:
        self._clock = clock
        self._decoder = decoder
        self._entry: dict[str, object] = {}
        self._name = ""  # of the field that was read last: a long value goes on

    def read(self, raw: bytes) -> Iterable[LogLine]:
        line = read_text(raw)
        header = VERBOSE_HEADER.fullmatch(line.rstrip())
        if header is not None:
            done = list(self.close())
            self._begin(header)
            return done
        field = _FIELD.fullmatch(line)
        if field is not None:
            self._name = field["name"]
            self._entry.setdefault(self._name, field["value"])
        elif self._name and line.startswith(" "):
            self._entry[self._name] = f"{self._entry[self._name]}\n{line.strip()}"
        return ()

    def close(self) -> Iterable[LogLine]:
        entry, self._entry, self._name = self._entry, {}, ""
        return self._decoder.take(entry) if "MESSAGE" in entry else ()

    def _begin(self, header: re.Match[str]) -> None:
        at = self._clock.read(header["stamp"])
        self._entry = {"__CURSOR": header["cursor"]}
        if at is not None:
            self._entry["__REALTIME_TIMESTAMP"] = str(int(at.timestamp() * 1_000_000))

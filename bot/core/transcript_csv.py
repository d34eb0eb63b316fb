"""What a cloud's log service gives for download: `timestamp,message`, with control characters escaped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bot.core.entries import read_text
from bot.core.log_times import read_seconds
from bot.core.transcript_rows import Row

if TYPE_CHECKING:
    from collections.abc import Iterable

CSV_ROW = re.compile(r"(?P<milliseconds>\d{13}),")
CSV_MOST = 8 << 20  # characters of one message
_TITLES = re.compile(r"(?i)\"?timestamp\"?,\"?message\"?$")
_ESCAPED = re.compile(r"#(0[0-3][0-7]|177)")


def unescape(text: str) -> str:
    """Undoes the octal escapes of rsyslog. A bar drawn in ASCII has no `#0`: its last cell counts from 1."""
    if "#" not in text:
        return text
    return _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), text)


class CsvReader:
    def __init__(self) -> None:
        self._held: str | None = None  # a row whose quotation goes on

    def read(self, raw: bytes) -> Iterable[Row]:
        line = read_text(raw.rstrip(b"\r"))
        if self._held is None:
            if CSV_ROW.match(line) is None:
                return [] if _TITLES.match(line) else [Row(unescape(line))]
            self._held = line
        else:
            self._held += f"\n{line}"
        goes_on = self._held.count('"') % 2 and ',"' in self._held[:15] and len(self._held) < CSV_MOST
        return () if goes_on else self.close()

    def close(self) -> Iterable[Row]:
        held, self._held = self._held, None
        return () if held is None else _rows(held)


def _rows(held: str) -> list[Row]:
    milliseconds, _, field = held.partition(",")
    if field.startswith('"'):
        field = field[1:].removesuffix('"').replace('""', '"')
    at = read_seconds(str(int(milliseconds) / 1000))
    return [Row(unescape(each).rstrip("\r\n"), at) for each in field.split("\n")]

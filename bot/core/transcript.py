"""Saved logs of any shape, to the same log lines the journal gives."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.core.bars import read_bar, split_bar, split_glued
from bot.core.entries import read_text
from bot.core.events import LogLine, Origin
from bot.core.journal import Decoder
from bot.core.line_splitter import LineSplitter
from bot.core.log_times import LogClock
from bot.core.manager_lines import read_manager_line
from bot.core.secret_patterns import MASK
from bot.core.transcript_formats import Format, find_outer, recognise
from bot.core.transcript_readers import open_reader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bot.core.redact import KeyBlock, Redactor
    from bot.core.transcript_readers import Reader
    from bot.core.transcript_rows import Row

__all__ = ["Format", "Transcript"]

LINE_MOST = 64 << 20  # bytes
HEAD = 200  # lines looked at before the first is given out: the format, and the year where some lines lack it
_COLOUR = re.compile(  # whose escape character a web page swallowed, and at times the bracket with it
    r"(?:ESC|\^\[|\\x1b|\\033|[\ufffd␛←])?\[(?:\d{1,3}(?:;\d{1,3}){0,4})?m|(?<![\w.;])\d\d?(?:;\d\d?)?m(?=\()|(?<=\))0m"
)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Transcript:
    """Decodes one saved log. `year`: of its times where neither they nor the lines beside them name one."""

    def __init__(self, redactor: Redactor, *, kind: Format | None = None, year: int | None = None) -> None:
        self.kind = kind
        self._redactor = redactor
        self._clock = LogClock(year)
        self._splitter = LineSplitter(LINE_MOST)
        self._head: list[bytes] | None = []
        self._reader: Reader | None = None
        self._outer: re.Pattern[bytes] | None = None
        self._blocks: dict[str, KeyBlock] = {}

    def feed(self, data: bytes) -> list[LogLine]:
        return self._take(self._splitter.feed(data))

    def close(self) -> list[LogLine]:
        """The end of the log: what was held back comes out."""
        rest = self._splitter.close()
        lines = self._take([rest] if rest is not None else [])
        if self._head is not None:
            lines += self._begin()
        if self._reader is not None:
            lines += self._lines(self._reader.close())
        return lines

    def _take(self, raws: list[bytes]) -> list[LogLine]:
        if self._head is None:
            return self._read(raws)
        self._head += raws
        return self._begin() if len(self._head) >= HEAD else []

    def _begin(self) -> list[LogLine]:
        raws, self._head = self._head or [], None
        if raws:
            raws[0] = raws[0].removeprefix(_BYTE_ORDER_MARK)
        texts = [read_text(raw) for raw in raws[:HEAD]]
        if self.kind is None:
            self._outer = find_outer(texts)
            texts = [read_text(self._peel(raw)) for raw in raws[:HEAD]]
            self.kind = recognise(texts)
        self._clock.learn(texts)
        self._reader = open_reader(self.kind, clock=self._clock, decoder=Decoder(self._redactor))
        return self._read(raws)

    def _read(self, raws: list[bytes]) -> list[LogLine]:
        reader = self._reader
        if reader is None:
            return []
        return [line for raw in raws for line in self._lines(reader.read(self._peel(raw)))]

    def _peel(self, raw: bytes) -> bytes:
        found = self._outer.match(raw) if self._outer is not None else None
        return raw if found is None else raw[found.end() :]

    def _lines(self, rows: Iterable[Row | LogLine]) -> list[LogLine]:
        lines: list[LogLine] = []
        for row in rows:
            if isinstance(row, LogLine):
                lines.append(row)
            else:
                lines += self._decode(row)
        return lines

    def _decode(self, row: Row) -> list[LogLine]:
        text, masked, block = self._redactor.redact_in(self._blocks.pop(row.stream, None), row.text)
        if block is not None:
            self._blocks[row.stream] = block
        parts = [part for piece in split_bar(text) for part in split_glued(piece)]
        if len(parts) == 1:
            return [self._line(row, text, masked)]
        return [self._line(row, part, part.count(MASK) if masked else 0) for part in parts]

    def _line(self, row: Row, text: str, masked: int) -> LogLine:
        reading = read_bar(text)
        if "[0m" in reading or "[0;0m" in reading or "m(" in reading[:8] or ")0m" in reading:
            reading = _COLOUR.sub("", reading)
        reading = reading.removesuffix("^M")  # as `cat -v` writes the end of a line
        if row.origin is None:
            row = _judged(row, reading)
        return LogLine(
            text,
            reading,
            at=row.at or self._clock.read_engine(reading),
            pid=row.pid,
            origin=row.origin or Origin.SERVICE,
            masked=masked,
            fields=row.fields,
        )


def _judged(row: Row, reading: str) -> Row:
    """Without a carrier's word for it, only what systemd alone says of a unit is systemd's."""
    told = read_manager_line(reading) if ".service" in reading else None
    return row if told is None else replace(row, origin=Origin.MANAGER, fields=row.fields | told)

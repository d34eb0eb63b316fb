"""A log file as the host hands it over, frame by frame, to the same log lines the journal gives.

The host sends lines of text, each a frame (`clients/ssh_log_file` has the script that writes them):

    z +0200                             the zone of the host's clock: engines stamp their lines in it
    d INODE OFFSET SECONDS BASE64       bytes of the file from that offset on, just written
    b INODE OFFSET SECONDS BASE64       the same, written before anybody looked
    t                                   the file was cut or begun anew: what comes begins a line
    m                                   that was done while nobody looked, and the rest of the old one is gone
    .                                   nothing new

A file has no entries to name, so a place in it is an inode and an offset: an inode survives being renamed.
The place is that of the oldest line whose end has not come; a private key that is open there goes with it, or
the rest of the key would be read without its beginning.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bot.core.bars import read_bar, split_bar
from bot.core.entries import read_text
from bot.core.events import LogLine, Origin
from bot.core.line_splitter import LineSplitter
from bot.core.log_times import LogClock
from bot.core.redact import KeyBlock, Redactor
from bot.core.secret_patterns import MASK

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FRAME_MOST = 4 << 20  # characters of one frame; the script sends a tenth of that at once
LINE_MOST = 8 << 20  # bytes of one line; a longer one comes in parts
ANNOUNCED_MOST = 256 << 10  # bytes of an unfinished line that are shown again as it grows

_ZONE = re.compile(rb"z ([+-])(\d\d)(\d\d)")
_FRAME = re.compile(rb"([db]) (\d{1,20}) (\d{1,20}) (\d{1,12})(?:\.(\d{1,9}))?N? ([A-Za-z0-9+/=]*)")
_JUST_NOW = 5  # seconds since somebody looked last: what was written since was written now
_AHEAD = timedelta(seconds=5)  # a stamp may be that far in the host's future: clocks of containers differ


@dataclass(frozen=True, slots=True)
class FilePosition:
    """Where to go on. `inode` 0: in whatever file has the name, `offset` bytes before its end.

    `seen`: the host's clock when this was read. `key`: a private key is open at this place.
    """

    inode: int = 0
    offset: int = 0
    seen: int = 0
    key: KeyBlock | None = None


class LogFileDecoder:
    """Decodes the frames of one file. After a lost link a new one goes on from `position`, without `close`.

    Where only the end of a file is read, it begins within a line, which is left out.
    """

    def __init__(self, redactor: Redactor, *, position: FilePosition | None = None) -> None:
        self.malformed = 0
        self.opened = False  # the file is there and is being read
        self.missed: datetime | None = None  # the host's clock: since then bytes were lost
        self.position = position or FilePosition()
        self._redactor = redactor
        self._frames = LineSplitter(FRAME_MOST)
        self._rest = b""  # of the line whose end has not come
        self._key = self.position.key
        self._cut = False
        self._begun = self.position.inode > 0
        self._clock = LogClock()
        self._zone = timedelta()
        self._at: datetime | None = None

    def feed(self, data: bytes) -> list[LogLine]:
        lines: list[LogLine] = []
        for frame in self._frames.feed(data):
            lines += self._read(frame)
        return lines

    def close(self) -> list[LogLine]:
        """The end of the file: a line without its end comes out."""
        return self._begin_anew()

    def _read(self, frame: bytes) -> list[LogLine]:
        if frame in {b".", b""}:
            return []
        if frame in {b"t", b"m"}:
            if frame == b"m" and self.position.seen:
                self.missed = datetime.fromtimestamp(self.position.seen, UTC)
            return self._begin_anew()
        if zone := _ZONE.fullmatch(frame):
            self.opened = True
            away = timedelta(hours=int(zone[2]), minutes=int(zone[3]))
            self._zone = -away if zone[1] == b"-" else away
            return []
        found = _FRAME.fullmatch(frame)
        try:
            data = base64.b64decode(found[6], validate=True) if found else None
        except binascii.Error:
            data = None
        if found is None or data is None:
            self.malformed += 1
            return []
        return self._take(found, data)

    def _take(self, found: re.Match[bytes], data: bytes) -> list[LogLine]:
        inode, offset, seconds = int(found[2]), int(found[3]), int(found[4])
        micros = int((found[5] or b"0")[:6].ljust(6, b"0"))
        read = datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=micros)
        self._cut = self._cut or (not self._begun and offset > 0)
        self._begun = True
        fresh = found[1] == b"d" or 0 <= seconds - self.position.seen <= _JUST_NOW
        lines = self._split(data, now=read if fresh else None, read=read)
        place = offset + len(data) - len(self._rest)
        self.position = FilePosition(inode, max(place, 0), seconds, self._key)
        if b"\r" in self._rest and len(self._rest) <= ANNOUNCED_MOST:
            lines.append(self._announce(read))
        return lines

    def _split(self, data: bytes, *, now: datetime | None, read: datetime) -> list[LogLine]:
        *raws, rest = (self._rest + data).split(b"\n")
        while len(rest) > LINE_MOST:
            raws.append(rest[:LINE_MOST])
            rest = rest[LINE_MOST:]
        self._rest = rest
        if self._cut and raws:
            self._cut = False
            raws = raws[1:]
        return [line for raw in raws for line in self._decode(raw, now=now, read=read)]

    def _begin_anew(self) -> list[LogLine]:
        rest, self._rest = self._rest, b""
        if not rest or self._cut:
            return []
        return list(self._decode(rest, now=None, read=self._at))

    def _announce(self, at: datetime) -> LogLine:
        """A bar that is being redrawn: it ends only when it is done."""
        text, masked = self._redactor.redact_beginning(read_text(self._rest), block=self._key)
        return LogLine(text, read_bar(text), at=at, partial=True, masked=masked)

    def _decode(self, raw: bytes, *, now: datetime | None, read: datetime | None) -> Iterable[LogLine]:
        masked_text, masked, self._key = self._redactor.redact_in(self._key, read_text(raw.rstrip(b"\r")))
        if not masked_text:
            return
        parts = split_bar(masked_text) if "\r" in masked_text else (masked_text,)
        for part in parts:
            reading = read_bar(part)
            places = masked if len(parts) == 1 else part.count(MASK) if masked else 0
            at = self._at = self._time(reading, now=now, read=read)
            yield LogLine(part, reading, at=at, origin=Origin.SERVICE, masked=places)

    def _time(self, reading: str, *, now: datetime | None, read: datetime | None) -> datetime | None:
        """Of a line just written, now; of an older one what its stamp says, else what the one before had."""
        if now is not None:
            return now
        stamp = self._clock.read_engine(reading)
        if stamp is None or read is None:
            return self._at
        stamp -= self._zone
        return stamp if stamp <= read + _AHEAD else self._at


def since(lines: Sequence[LogLine], began: datetime | None) -> list[LogLine]:
    """The lines from `began` on; all of them where their times do not tell."""
    if began is None:
        return list(lines)
    found: list[LogLine] = []
    inside = False
    for line in lines:
        if line.at is not None:
            inside = line.at >= began.replace(microsecond=0)
        if inside:
            found.append(line)
    return found or list(lines)


def merge(first: Sequence[LogLine], second: Sequence[LogLine]) -> list[LogLine]:
    """Both in the order of their times; a line without one stays behind the line before it."""
    return [line for _, line in sorted((*_timed(first), *_timed(second)), key=lambda each: each[0])]


def _timed(lines: Sequence[LogLine]) -> Iterable[tuple[float, LogLine]]:
    at = float("-inf")
    for line in lines:
        at = max(at, line.at.timestamp()) if line.at is not None else at
        yield at, line

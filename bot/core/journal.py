"""Bytes of `journalctl -o json --all`, cut anywhere, to redacted log lines, with the place to go on from.

One entry is one line, with four exceptions. journald cuts a long line at `LineMax=`, and a line whose writer
was interrupted by another process at that point; such pieces are joined by stream and pid. A bar and the text
written behind it are two lines. Whoever speaks to journald directly, not through standard output, may say
several lines in one entry. And a private key reaches over several entries, so masking must remember it.

All of it can be repeated: `Decoder.position` names the entry before the oldest unfinished line, and whoever
goes on from there reads the same entries once more and gets nothing that was already given.
"""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

from bot.core.bars import read_bar, split_bar
from bot.core.entries import (
    OUTPUT_FIELDS,
    Entry,
    read_message,
    read_stamp,
    read_text,
    read_time,
    read_word,
)
from bot.core.events import Cursor, LogLine, Origin
from bot.core.line_splitter import LineSplitter
from bot.core.redact import KeyBlock
from bot.core.secret_patterns import MASK
from bot.core.tail import TailFile, render_tail
from bot.core.writer import Writers, make_line, read_shared

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bot.core.redact import Redactor

__all__ = ["OUTPUT_FIELDS", "Decoder", "Position", "TailFile", "read_bar", "render_tail"]

ENTRY_MOST = 64 << 20  # bytes of JSON: a piece of 48 KiB is at most 240 KB of byte values
JOINED_MOST = 8 << 20  # bytes of one joined line; a longer one comes in parts
ANNOUNCED_MOST = 256 << 10  # bytes of an unfinished line that are shown again with each piece
OVERLAP = 4096  # characters kept back when a part goes out, so that no secret is parted
HELD_ENTRIES = 512  # entries for which an unfinished line or key is waited for
LINE_MAX = 48 << 10  # journald's default
STRIPPED = 64  # bytes; more blanks than that at a cut are not made good

# All that one line differs in from the next of its process, and what tells who wrote it.
_read_told = itemgetter("MESSAGE", "__CURSOR", "__REALTIME_TIMESTAMP", "_TRANSPORT")

_decode = json.JSONDecoder().raw_decode

_Stream = tuple[str | None, str | None]  # _STREAM_ID, _PID


@dataclass(frozen=True, slots=True)
class Position:
    """Where to go on: follow with `--cursor=cursor`; the entries in `seen` were given already.

    journald 252 drops an entry with `--after-cursor`, so the entry of `cursor` itself is read again; a new
    Decoder that is told the position drops it, and repeats what it must of `seen` without giving it twice.
    `over` are those of `seen` whose line was given unfinished, or whose key was not closed, after long
    waiting: they begin none again.
    """

    cursor: Cursor | None
    seen: tuple[Cursor, ...] = ()
    over: tuple[Cursor, ...] = ()


@dataclass(slots=True)
class _Unfinished:
    """A line whose end has not come."""

    since: int  # number of its first entry
    entry: Entry  # the newest, for whoever must finish it without another
    cursor: Cursor | None
    entries: list[Cursor] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, piece: bytes) -> None:
        if self.cursor is not None:
            self.entries.append(self.cursor)
        self.pieces.append(piece)
        self.size += len(piece)


@dataclass(slots=True)
class _OpenKey:
    since: int
    block: KeyBlock
    entries: tuple[Cursor, ...]  # of the line it began in


class Decoder:
    """Decodes one journal stream. After a lost link a new one goes on from `position`, without `close`."""

    def __init__(self, redactor: Redactor, *, position: Position | None = None) -> None:
        self.malformed = 0
        self._redactor = redactor
        self._splitter = LineSplitter(ENTRY_MOST)
        self._resume = position.cursor if position else None
        self._given = dict.fromkeys(position.seen if position else ())
        self._over = dict.fromkeys(position.over if position else ())
        self._last: Cursor | None = self._resume
        self._before: Cursor | None = None  # the entry before the last
        self._number = 0  # of the last entry
        self._trail: list[Cursor | None] = []  # of an unfinished line: the entry before it, and all since
        self._trail_from = 0  # the number of the entry after _trail[0]
        self._unfinished: dict[_Stream, _Unfinished] = {}  # in the order they began
        self._keys: dict[_Stream, _OpenKey] = {}
        self._writers = Writers(redactor)
        self._known = self._writers.known

    @property
    def position(self) -> Position:
        """Safe to resume from: nothing before it is unfinished."""
        held = self._held()
        if not held:
            return Position(self._last, tuple(self._given), tuple(self._over))
        begin = min(one.since for one in held) - self._trail_from
        again = [cursor for cursor in self._trail[begin + 1 :] if cursor is not None]
        return Position(self._trail[begin], (*again, *self._given), tuple(self._over))

    def feed(self, data: bytes) -> list[LogLine]:
        lines: list[LogLine] = []
        for raw in self._splitter.feed(data):
            entry = _parse(raw)
            line = self._take_plain(entry) if entry is not None else None
            if line is not None:
                lines.append(line)
            else:
                lines += self._take_any(entry) if entry is not None else self._reread(raw)
        return lines

    def close(self) -> list[LogLine]:
        """The end of the stream: unfinished lines and a half entry come out."""
        lines = self.feed(b"\n")
        for stream in tuple(self._unfinished):
            lines += self._finish(stream)
        self._keys.clear()
        self._forget()
        return lines

    def take(self, entry: Entry) -> list[LogLine]:
        """One entry that is parsed already."""
        line = self._take_plain(entry)
        return self._take_any(entry) if line is None else [line]

    def _take_plain(self, entry: Entry) -> LogLine | None:
        """Nearly every entry: a whole line of a process that is known, with nothing in it to be done about.

        None where it is anything else. What this reads, `_take_any` reads the same way.
        """
        try:
            message, cursor, stamp, transport = _read_told(entry)
            shared = read_shared(entry)
            writer = self._known.get(shared[0])
        except (KeyError, TypeError):  # one is missing, or has a value that is no string
            return None
        if (
            writer is None
            or writer.shared != shared
            or transport != "stdout"
            or type(message) is not str
            or type(cursor) is not str
            or "_LINE_BREAK" in entry
            or "MESSAGE_ID" in entry
            or self._is_busy()
            or not self._redactor.plain(message)  # nor is what has several lines
        ):
            return None
        self._before, self._last = self._last, Cursor(cursor)
        self._number += 1
        return make_line(message, message, read_stamp(stamp), self._last, writer)

    def _is_busy(self) -> bool:
        """Something is unfinished, or was read before."""
        return bool(self._trail or self._given or self._over) or self._resume is not None

    def _take_any(self, entry: Entry) -> list[LogLine]:
        cursor = entry.get("__CURSOR")
        if not isinstance(cursor, str):
            return self._take(entry, None)
        resumed, self._resume = self._resume, None
        if cursor == resumed:
            return []
        self._before, self._last = self._last, Cursor(cursor)
        self._number += 1
        if self._trail:
            self._trail.append(self._last)
        lines = self._pass_over(entry) if cursor in self._over else self._take(entry, self._last)
        if self._trail:
            lines += self._let_go()
        if self._given and cursor in self._given:
            del self._given[Cursor(cursor)]
            return []
        return lines

    def _pass_over(self, entry: Entry) -> list[LogLine]:
        """Of a line that was waited for in vain, all that counts is whether its stream ended with it."""
        return self._end_stream(_stream_of(entry)) if entry.get("_LINE_BREAK") == "eof" else []

    def _reread(self, raw: bytes) -> list[LogLine]:
        """What the quick parse refused: blanks around an entry, or no entry at all."""
        if not raw.strip():
            return []
        try:
            entry = json.loads(raw.decode("utf-8", "backslashreplace").strip())
        except (ValueError, RecursionError):
            entry = None
        if isinstance(entry, dict):
            return self.take(entry)
        self.malformed += 1
        text, masked = self._redactor.redact(read_text(raw))
        return [LogLine(text, read_bar(text), origin=Origin.OTHER, masked=masked)]

    def _take(self, entry: Entry, cursor: Cursor | None) -> list[LogLine]:
        message = entry.get("MESSAGE", "")
        ending = entry.get("_LINE_BREAK")
        stream = _stream_of(entry)
        unfinished = self._unfinished.get(stream)
        if unfinished is None:
            if ending is None and type(message) is str and self._is_plain(message, stream):
                return [make_line(message, message, read_time(entry), cursor, self._writers.of(entry))]
            if ending not in ("line-max", "pid-change"):
                lines = self._lines(entry, cursor, stream, read_text(read_message(message)))
                return lines + self._end_stream(stream) if ending == "eof" else lines
            unfinished = self._unfinished[stream] = _Unfinished(self._hold(cursor), entry, cursor)
        unfinished.entry, unfinished.cursor = entry, cursor
        return self._add(stream, unfinished, ending)

    def _is_plain(self, message: str, stream: _Stream) -> bool:
        return stream not in self._keys and self._redactor.plain(message)

    def _add(self, stream: _Stream, unfinished: _Unfinished, ending: object) -> list[LogLine]:
        piece = read_message(unfinished.entry.get("MESSAGE", ""))
        if ending == "line-max" and LINE_MAX - STRIPPED <= len(piece) < LINE_MAX:
            piece = piece.ljust(LINE_MAX)  # journald strips the blanks before a cut
        unfinished.add(piece)
        if ending not in ("line-max", "pid-change"):
            lines = self._finish(stream)
            return lines + self._end_stream(stream) if ending == "eof" else lines
        lines = self._part(stream, unfinished) if unfinished.size > JOINED_MOST else []
        if ending == "pid-change" and unfinished.size <= ANNOUNCED_MOST:
            lines.append(self._announce(stream, unfinished))
        return lines

    def _end_stream(self, ended: _Stream) -> list[LogLine]:
        """A closed stream brings no rest to any writer's unfinished line."""
        streams = [stream for stream in self._unfinished if stream[0] is not None and stream[0] == ended[0]]
        return [line for stream in streams for line in self._finish(stream)]

    def _announce(self, stream: _Stream, unfinished: _Unfinished) -> LogLine:
        key = self._keys.get(stream)
        begun = read_text(b"".join(unfinished.pieces))
        text, masked = self._redactor.redact_beginning(begun, block=key.block if key else None)
        return self._line(unfinished.entry, unfinished.cursor, text, masked, partial=True)

    def _part(self, stream: _Stream, unfinished: _Unfinished) -> list[LogLine]:
        """All of an overlong line but its end, cut where no secret is."""
        decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        text = decoder.decode(b"".join(unfinished.pieces))
        at = self._redactor.cut_before(text, len(text) - OVERLAP) or len(text)
        unfinished.pieces = [text[at:].encode(), decoder.getstate()[0]]
        unfinished.size = sum(map(len, unfinished.pieces))
        return self._lines(unfinished.entry, unfinished.cursor, stream, text[:at], whole=unfinished)

    def _finish(self, stream: _Stream) -> list[LogLine]:
        done = self._unfinished.pop(stream)
        text = read_text(b"".join(done.pieces))
        return self._lines(done.entry, done.cursor, stream, text, whole=done)

    def _lines(
        self,
        entry: Entry,
        cursor: Cursor | None,
        stream: _Stream,
        text: str,
        *,
        whole: _Unfinished | None = None,
    ) -> list[LogLine]:
        """`whole`: what was joined to this line, which else is one entry."""
        key = self._keys.get(stream)
        masked_text, masked, block = self._redactor.redact_in(key.block if key else None, text)
        if block is None:
            self._keys.pop(stream, None)
        elif key is None or block.lines == 0:  # it begins, or anew: what came before does not matter any more
            since = self._hold(cursor) if whole is None else whole.since
            entries = whole.entries if whole is not None else [cursor] if cursor is not None else []
            self._keys[stream] = _OpenKey(since, block, tuple(entries))
        else:
            key.block = block
        parts = [part for line in _split_lines(masked_text) for part in _split_bars(line)]
        if len(parts) == 1:
            return [self._line(entry, cursor, parts[0], masked)]
        return [self._line(entry, cursor, part, part.count(MASK) if masked else 0) for part in parts]

    def _line(
        self, entry: Entry, cursor: Cursor | None, text: str, masked: int, *, partial: bool = False
    ) -> LogLine:
        writer = self._writers.of(entry)
        return make_line(
            text, read_bar(text), read_time(entry), cursor, writer, masked=masked, partial=partial
        )

    def _hold(self, cursor: Cursor | None) -> int:
        """From the entry at hand on, entries may have to be read again; its number."""
        if not self._trail:
            self._trail = [self._last] if cursor is None else [self._before, cursor]
            self._trail_from = self._number + (cursor is None)
        return self._number + (cursor is None)

    def _let_go(self) -> list[LogLine]:
        """Ends what was waited for too long, and forgets the trail where nothing is held."""
        if (self._unfinished or self._keys) and self._number - self._trail_from < HELD_ENTRIES:
            return []  # the trail begins no later than the oldest
        lines: list[LogLine] = []
        for stream in self._overdue(self._unfinished):
            self._over.update(dict.fromkeys(self._unfinished[stream].entries))
            lines += self._finish(stream)
        for stream in self._overdue(self._keys):
            self._over.update(dict.fromkeys(self._keys.pop(stream).entries))
        held = self._held()
        if not held:
            self._forget()
        elif len(self._trail) > 2 * HELD_ENTRIES:
            oldest = min(one.since for one in held)
            del self._trail[: oldest - self._trail_from]
            self._trail_from = oldest
        return lines

    def _forget(self) -> None:
        self._trail = []
        if not self._given:
            self._over.clear()

    def _held(self) -> list[_Unfinished | _OpenKey]:
        return [*self._unfinished.values(), *self._keys.values()]

    def _overdue(self, held: Mapping[_Stream, _Unfinished | _OpenKey]) -> Iterable[_Stream]:
        return [stream for stream, one in held.items() if self._number - one.since >= HELD_ENTRIES]


def _split_lines(text: str) -> Iterable[str]:
    """An empty one says nothing, but where there is nothing else."""
    return [line for line in text.split("\n") if line.strip("\r")] or [text] if "\n" in text else (text,)


def _split_bars(line: str) -> Iterable[str]:
    return split_bar(line) if "\r" in line else (line,)


def _stream_of(entry: Entry) -> _Stream:
    return read_word(entry, "_STREAM_ID"), read_word(entry, "_PID")


def _parse(raw: bytes) -> Entry | None:
    """One entry and nothing else; None for anything that needs a closer look."""
    try:
        text = raw.decode()
        entry, end = _decode(text)
    except (ValueError, RecursionError):
        return None
    return entry if end == len(text) and type(entry) is dict else None

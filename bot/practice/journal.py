"""An in-memory journal: what journald keeps of a unit's output and of systemd's lines about it.

The rules of journald 252 and 257 that matter to a reader are kept: a record ends at a newline, at a NUL, at
48 KiB, at end of file, and when another process writes into an unfinished line; a carriage return ends
nothing; trailing white space goes, leading stays; `<3>` in front is a priority.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.clock import Clock

LINE_MAX = 48 * 1024
FIELD_LIMIT = 4096  # `-o json` without `--all` shows null from here on, name and "=" included

_LEVEL_PREFIX = re.compile(rb"<([0-7])>")
_LINE_END = re.compile(rb"[\n\0]")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_KIBI = 1024
_WHITESPACE = b" \t\n\r"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_CURSOR_KEYS = frozenset("sibmtx")

MESSAGE_IDS: Mapping[str, str] = {
    "starting": "7d4958e842da4a758f6c1cdc7b36dcc5",
    "started": "39f53479d3a045ac8e11786248231fbf",
    "stopping": "de5b426a63be47a7b6ac3eaac82e2f6f",
    "stopped": "9d1aaa27d60140bd96365438aad20286",
    "failed_to_start": "be02cf6855d2428ba40df7e9d022f03d",
    "process_exit": "98e322203f7a4ed290d09fe03c09fe15",
    "failed": "d9b373ed55a64feb8242e02dbe79a49c",
    "success": "7ad2d189f7e94e70a38c781354912448",
    "restart_scheduled": "5eb03494b6584870a536b337290809b3",
    "out_of_memory": "fe6faa94e7774663a0da52717891d8ef",
    "resources": "ae8f7b866b0347b9af31fe1c80b127c0",
    "suppressed": "a596d6fe7bfa4994828e72309e95d61e",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One record. Times are microseconds, since the epoch and since boot."""

    number: int
    cursor: str
    boot: str
    realtime: int
    monotonic: int
    fields: Mapping[str, bytes]

    def text(self, field: str) -> str:
        return self.fields.get(field, b"").decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Place:
    """A parsed cursor."""

    source: str | None = None
    number: int | None = None
    boot: str | None = None
    monotonic: int | None = None
    realtime: int | None = None


def parse_cursor(text: str) -> Place:
    """What `sd_journal_seek_cursor` accepts; ValueError where journalctl says "Invalid argument"."""
    found: dict[str, str] = {}
    for word in text.split(";"):
        key, equals, value = word.partition("=")
        if not equals or len(key) != 1 or not value:
            raise ValueError(text)
        if key in _CURSOR_KEYS:
            found[key] = value
    if not (found.keys() >= {"s", "i"} or found.keys() >= {"b", "m"} or "t" in found):
        raise ValueError(text)
    return Place(
        source=found.get("s"),
        number=_hex(found.get("i")),
        boot=found.get("b"),
        monotonic=_hex(found.get("m")),
        realtime=_hex(found.get("t")),
    )


def _hex(text: str | None) -> int | None:
    return None if text is None else int(text, 16)


class Journal:
    """Records in order of arrival, over boots."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.source = secrets.token_hex(16)
        self.machine = secrets.token_hex(16)
        self.entries: list[Entry] = []
        self.boot = secrets.token_hex(16)
        self.booted = clock.now() - timedelta(days=12)
        self._waiting: set[asyncio.Future[None]] = set()

    def reboot(self) -> None:
        """A new boot: another boot id, monotonic time from zero."""
        self.boot = secrets.token_hex(16)
        self.booted = self.clock.now()

    def append(self, fields: Mapping[str, bytes], *, at: datetime | None = None) -> Entry:
        """Add a record; `at` dates back what happened before the practice began."""
        number = len(self.entries) + 1
        realtime = ((at or self.clock.now()) - _EPOCH) // _MICROSECOND
        monotonic = self.monotonic(at)
        cursor = (
            f"s={self.source};i={number:x};b={self.boot};m={monotonic:x};t={realtime:x};"
            f"x={secrets.token_hex(8)}"
        )
        host = {"_BOOT_ID": self.boot.encode(), "_MACHINE_ID": self.machine.encode()}
        entry = Entry(number, cursor, self.boot, realtime, monotonic, {**fields, **host})
        self.entries.append(entry)
        self._wake()
        return entry

    def monotonic(self, at: datetime | None = None) -> int:
        """Microseconds since boot."""
        return max(0, ((at or self.clock.now()) - self.booted) // _MICROSECOND)

    def seek(self, place: Place) -> int:
        """Index of the entry the cursor names, else of the closest later one, as journald seeks."""
        if place.source == self.source and place.number is not None:
            return min(max(place.number - 1, 0), len(self.entries))
        for index, entry in enumerate(self.entries):
            if _reached(entry, place):
                return index
        return len(self.entries)

    async def grown(self, count: int) -> None:
        """Return once there are more than `count` entries."""
        while len(self.entries) <= count:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(future)
            try:
                await future
            finally:
                self._waiting.discard(future)

    @property
    def is_watched(self) -> bool:
        """Somebody has read everything and waits for more."""
        return bool(self._waiting)

    async def watched(self) -> None:
        """Return once it is."""
        while not self._waiting:  # noqa: ASYNC110 - a turn of the loop, not a time
            await asyncio.sleep(0)

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)


def _reached(entry: Entry, place: Place) -> bool:
    if place.boot == entry.boot and place.monotonic is not None:
        return entry.monotonic >= place.monotonic
    if place.realtime is not None:
        return entry.realtime >= place.realtime
    return True


class Stream:
    """The socket that stdout and stderr of one start share."""

    def __init__(self, journal: Journal, fields: Mapping[str, bytes]) -> None:
        self._journal = journal
        self._fields = {
            **fields,
            "_TRANSPORT": b"stdout",
            "_STREAM_ID": secrets.token_hex(16).encode(),
            "SYSLOG_FACILITY": b"3",
        }
        self._pending = b""
        self._writer: tuple[int, str] | None = None

    def write(self, data: bytes, *, pid: int, comm: str, at: datetime | None = None) -> None:
        """What one process wrote in one go."""
        writer = (pid, comm)
        if self._pending and self._writer != writer:
            self._emit(self._take(len(self._pending)), break_at="pid-change", at=at)
        self._writer = writer
        self._pending += data
        self._split(at)

    def close(self) -> None:
        """The last writer is gone."""
        if self._pending:
            self._emit(self._take(len(self._pending)), break_at="eof", at=None)

    def _split(self, at: datetime | None) -> None:
        while True:
            end = _LINE_END.search(self._pending, 0, LINE_MAX + 1)
            if end is not None:
                line = self._take(end.end())
                self._emit(line[:-1], break_at="nul" if line.endswith(b"\0") else None, at=at)
            elif len(self._pending) > LINE_MAX:
                self._emit(self._take(LINE_MAX), break_at="line-max", at=at)
            else:
                return

    def _take(self, size: int) -> bytes:
        taken, self._pending = self._pending[:size], self._pending[size:]
        return taken

    def _emit(self, line: bytes, *, break_at: str | None, at: datetime | None) -> None:
        if self._writer is None or not line:
            return
        pid, comm = self._writer
        level = _LEVEL_PREFIX.match(line)
        text = line[level.end() :] if level else line
        fields = {
            **self._fields,
            "PRIORITY": level[1] if level else b"6",
            "_PID": str(pid).encode(),
            "_COMM": comm[:15].encode(),
            # A line of nothing but blanks is kept as it is; else the blanks at its end go.
            "MESSAGE": text.rstrip(_WHITESPACE) or text,
        }
        if break_at is not None:
            fields["_LINE_BREAK"] = break_at.encode()
        self._journal.append(fields, at=at)


def render_json(entry: Entry, *, all_fields: bool, output_fields: Collection[str] | None = None) -> str:
    """One line of `journalctl -o json`."""
    shown: dict[str, object] = {
        "__CURSOR": entry.cursor,
        "__REALTIME_TIMESTAMP": str(entry.realtime),
        "__MONOTONIC_TIMESTAMP": str(entry.monotonic),
        "_BOOT_ID": entry.boot,
    }
    for name, value in entry.fields.items():
        if name not in shown and (output_fields is None or name in output_fields):
            shown[name] = _json_value(name, value, all_fields=all_fields)
    return json.dumps(shown, ensure_ascii=False)


def _json_value(name: str, value: bytes, *, all_fields: bool) -> str | list[int] | None:
    if not all_fields and len(name) + 1 + len(value) >= FIELD_LIMIT:
        return None
    return value.decode() if is_printable(value) else list(value)


def is_printable(value: bytes) -> bool:
    """`utf8_is_printable`: tab and newline are, every other control character and bad UTF-8 are not."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return False
    return _UNPRINTABLE.search(text) is None


def render_short(entry: Entry, *, all_fields: bool) -> str:
    """One line as plain `journalctl` shows it to a person, blob data and all."""
    message = entry.fields.get("MESSAGE", b"")
    if not all_fields:
        message = re.sub(rb"\r+(?=\n|$)|\x1b\[[0-9;]*m", b"", message).replace(b"\t", b" " * 8)
    at = _EPOCH + timedelta(microseconds=entry.realtime)
    who = f"{entry.text('SYSLOG_IDENTIFIER')}[{entry.text('_PID')}]"
    plain = all_fields or is_printable(message)
    shown = message.decode(errors="replace") if plain else f"[{_size(len(message))} blob data]"
    return f"{at:%b %d %H:%M:%S} {entry.text('_HOSTNAME')} {who}: {shown}"


def _size(count: int) -> str:
    return f"{count}B" if count < _KIBI else f"{count / _KIBI:.1f}K"


def kernel_fields(message: str) -> dict[str, bytes]:
    """The fields of a line of the kernel."""
    named = {
        "MESSAGE": message,
        "PRIORITY": "3",
        "SYSLOG_IDENTIFIER": "kernel",
        "SYSLOG_FACILITY": "0",
        "_TRANSPORT": "kernel",
        "_HOSTNAME": "llm-two",
    }
    return {name: value.encode() for name, value in named.items()}


def manager_fields(
    message: str, *, unit: str, user: bool, invocation: str | None, extra: Mapping[str, str]
) -> dict[str, bytes]:
    """The fields of a line that systemd itself writes about a unit."""
    named = {
        "MESSAGE": message,
        "PRIORITY": "6",
        "SYSLOG_IDENTIFIER": "systemd",
        "SYSLOG_FACILITY": "3",
        "_TRANSPORT": "journal",
        "_PID": "880" if user else "1",
        "_COMM": "systemd",
        "_UID": "1000" if user else "0",
        "USER_UNIT" if user else "UNIT": unit,
        "_SYSTEMD_UNIT": "user@1000.service" if user else "init.scope",
        **extra,
    }
    if invocation is not None:
        named["USER_INVOCATION_ID" if user else "INVOCATION_ID"] = invocation
    return {name: value.encode() for name, value in named.items()}

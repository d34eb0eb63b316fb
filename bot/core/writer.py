"""Who wrote an entry of the journal, and the line it becomes; what a process's lines share is read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING

from bot.core.entries import Entry, read_fields, read_invocation, read_origin, read_pid
from bot.core.events import Cursor, InvocationId, LogLine, Origin

if TYPE_CHECKING:
    from bot.core.redact import Redactor

_MOST = 512  # writers that are remembered

_SHARED_FIELDS = ("SYSLOG_IDENTIFIER", "_COMM", "_HOSTNAME")
# Alike in all lines of a process.
read_shared = itemgetter("_PID", "_SYSTEMD_INVOCATION_ID", "_BOOT_ID", *_SHARED_FIELDS)


@dataclass(frozen=True, slots=True)
class Writer:
    """What an entry tells beside its message: the same for every line of a process."""

    shared: tuple[object, ...]  # the values it was read from
    pid: int | None
    origin: Origin
    invocation: InvocationId | None
    boot: str | None
    fields: dict[str, str]


@dataclass(slots=True)
class _Draft:
    """A LogLine being filled in: as frozen as that is, each of its fields would cost a call.

    The fields are the same, so that the draft becomes the line; a line costs a quarter of what it did.
    """

    text: str
    reading: str
    at: datetime | None
    cursor: Cursor | None
    pid: int | None
    origin: Origin
    invocation: InvocationId | None
    boot: str | None
    partial: bool
    masked: int
    fields: Mapping[str, str]


class Writers:
    """`of` an entry: who wrote it; that of a service's lines is remembered."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.known: dict[object, Writer] = {}  # by _PID: hashing all that is shared would cost more

    def of(self, entry: Entry) -> Writer:
        origin = read_origin(entry)
        if origin is not Origin.SERVICE or "MESSAGE_ID" in entry:
            return _describe(entry, origin, self._masked_fields(entry))
        try:
            shared = read_shared(entry)
            known = self.known.get(shared[0])
        except (KeyError, TypeError):  # one is missing, or has a value that is no string
            return _describe(entry, origin, self._masked_fields(entry))
        return known if known is not None and known.shared == shared else self._remember(shared, entry)

    def _remember(self, shared: tuple[object, ...], entry: Entry) -> Writer:
        if len(self.known) >= _MOST:
            self.known.clear()
        fields = self._masked_fields({name: entry[name] for name in _SHARED_FIELDS})
        writer = _describe(entry, Origin.SERVICE, fields, shared)
        self.known[shared[0]] = writer
        return writer

    def _masked_fields(self, entry: Entry) -> dict[str, str]:
        return {name: self._redactor.redact(word)[0] for name, word in read_fields(entry).items()}


def make_line(
    text: str,
    reading: str,
    at: datetime | None,
    cursor: Cursor | None,
    writer: Writer,
    *,
    masked: int = 0,
    partial: bool = False,
) -> LogLine:
    draft = _Draft(
        text,
        reading,
        at,
        cursor,
        writer.pid,
        writer.origin,
        writer.invocation,
        writer.boot,
        partial,
        masked,
        writer.fields,
    )
    draft.__class__ = LogLine  # type: ignore[assignment]
    return draft  # type: ignore[return-value]


def _describe(
    entry: Entry, origin: Origin, fields: dict[str, str], shared: tuple[object, ...] = ()
) -> Writer:
    boot = entry.get("_BOOT_ID")
    invocation = read_invocation(entry, origin)
    boot = boot if isinstance(boot, str) else None
    return Writer(shared, read_pid(entry), origin, invocation, boot, fields)

"""What a cursor of journald tells by itself, and whether the journal still holds what was written after it.

journalctl goes to the closest later entry, without a word, where the one that a cursor names was vacuumed
away, or lost at a reboot with a journal that was kept in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.core.events import Cursor

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Place:
    """Which entry it is; all of it is None for what journald did not write."""

    source: str | None = None  # whose count `number` is
    number: int | None = None
    boot: str | None = None
    at: datetime | None = None  # the host's clock


@dataclass(frozen=True, slots=True)
class Gap:
    """What the journal does not hold any more, by the host's clock; `until` None: it holds nothing since."""

    since: datetime
    until: datetime | None


def read_cursor(cursor: Cursor | str) -> Place:
    """`s=…;i=…;b=…;m=…;t=…;x=…`, numbers in hexadecimal, times in microseconds."""
    words = dict(word.partition("=")[::2] for word in cursor.split(";"))
    micros = _hex(words.get("t"))
    try:
        at = None if micros is None else _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        at = None
    return Place(words.get("s"), _hex(words.get("i")), words.get("b"), at)


def find_gap(asked: Cursor, found: Cursor | None) -> Gap | None:
    """`found`: the entry that journalctl comes to when it is asked for `asked`, whichever unit wrote it.

    Only that the named entry itself is gone proves anything: a service that was quiet has no entries either.
    Where the next number follows at once, that one entry is all that is gone, and it had been read.
    """
    place = read_cursor(asked)
    if place.at is None or found == asked:
        return None
    if found is None:
        return Gap(place.at, None)
    other = read_cursor(found)
    counted = place.source == other.source and place.number is not None and other.number is not None
    if counted and (other.number or 0) <= (place.number or 0) + 1:
        return None
    if other.at is None or other.at <= place.at:
        return None
    return Gap(place.at, other.at)


def _hex(text: str | None) -> int | None:
    try:
        return None if text is None else int(text, 16)
    except ValueError:
        return None

"""Where each stream of a member stands, as an operation's record keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from bot.core.events import Member
from bot.core.journal import Position
from bot.core.log_file import FilePosition
from bot.sources import KERNEL, LOG_FILE, LOG_START

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.sources import Link

_JOURNAL = TypeAdapter(Position)
_FILE = TypeAdapter(FilePosition)


def write_place(member: Member, stream: str, place: Position | FilePosition) -> tuple[Member, str]:
    """Under which name, and as what, the place is kept."""
    name = Member(f"{member}{stream}")
    if isinstance(place, FilePosition):
        return name, _FILE.dump_json(place).decode()
    return name, _JOURNAL.dump_json(place).decode()


def places_of(link: Link) -> list[tuple[Member, str]]:
    """All that is known; what is not stays out of the record."""
    places = (
        ("", link.position),
        (KERNEL, link.kernel),
        (LOG_FILE, link.log),
        (LOG_START, link.log_start),
    )
    return [write_place(link.member, stream, place) for stream, place in places if place is not None]


def restore_places(link: Link, kept: Mapping[Member, str]) -> None:
    """Raises ValueError for what is no place."""

    def find(stream: str) -> str | None:
        return kept.get(Member(f"{link.member}{stream}"))

    journal, kernel, log, start = map(find, ("", KERNEL, LOG_FILE, LOG_START))
    link.position = _JOURNAL.validate_json(journal) if journal else None
    link.kernel = _JOURNAL.validate_json(kernel) if kernel else None
    link.log = _FILE.validate_json(log) if log else None
    link.log_start = _FILE.validate_json(start) if start else None

"""Where streams stand is kept in an operation's record and found again."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from bot.core.events import Cursor, Member
from bot.core.journal import Position
from bot.core.log_file import FilePosition
from bot.core.redact import KeyBlock
from bot.places import places_of, restore_places, write_place
from bot.sources import LOG_FILE, Link
from tests.support.carriers import MEMBER, UNIT, MemoryHost

if TYPE_CHECKING:
    from bot.clients.ssh import Host


def make_link() -> Link:
    return Link(MEMBER, UNIT, "system", cast("Host", MemoryHost([])))


def test_all_that_is_known_is_found_again() -> None:
    link = make_link()
    link.position = Position(Cursor("one"), (Cursor("two"),))
    link.kernel = Position(Cursor("three"))
    link.log = FilePosition(7, 100, 5, KeyBlock(3, 1))
    link.log_start = FilePosition(7, 50)
    other = make_link()
    restore_places(other, dict(places_of(link)))
    assert (other.position, other.kernel) == (link.position, link.kernel)
    assert (other.log, other.log_start) == (link.log, link.log_start)


def test_what_is_not_known_stays_unknown() -> None:
    link = make_link()
    assert places_of(link) == []
    link.log = FilePosition(1, 2)
    restore_places(link, {})
    assert places_of(link) == []


def test_each_stream_has_a_name_of_its_own() -> None:
    name, _ = write_place(MEMBER, LOG_FILE, FilePosition())
    assert name == Member(f"{MEMBER}#log")
    name, _ = write_place(MEMBER, "", Position(None))
    assert name == MEMBER


def test_what_is_no_place_is_refused() -> None:
    with pytest.raises(ValueError, match="inode"):
        restore_places(make_link(), {Member(f"{MEMBER}#log"): '{"inode": "x"}'})

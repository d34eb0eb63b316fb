"""What a cursor tells, and what proves that something is gone from a journal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bot.core.cursor import Gap, Place, find_gap, read_cursor
from bot.core.events import Cursor

# As journald 252 writes them.
ASKED = Cursor(
    "s=1820e59a8c8843a0b110a8d0aec54ec7;i=c8;b=ebffdcdcb4464980ab697d8e1a83f511;m=2c44e73cc;"
    "t=6616e5a628a4e;x=5f75a018cbc6ca2a"
)
LATER = Cursor(
    "s=1820e59a8c8843a0b110a8d0aec54ec7;i=204;b=fb0cd75b9fbb40a58de894843f9b86f7;m=2c5429cce;"
    "t=6616e5b56b352;x=7465203f7484600b"
)
AT = datetime(2026, 11, 29, 18, 20, 50, 968142, tzinfo=UTC)
UNTIL = datetime(2026, 11, 29, 18, 21, 6, 969426, tzinfo=UTC)


def change(cursor: Cursor, **parts: str) -> Cursor:
    words = dict(word.split("=") for word in cursor.split(";"))
    return Cursor(";".join(f"{key}={value}" for key, value in (words | parts).items()))


def test_a_cursor_names_its_entry_its_boot_and_its_time() -> None:
    source, boot = "1820e59a8c8843a0b110a8d0aec54ec7", "ebffdcdcb4464980ab697d8e1a83f511"
    assert read_cursor(ASKED) == Place(source, 0xC8, boot, AT)


@pytest.mark.parametrize("cursor", ["", "end", "s;i;t", "s=1;i=zz;t=-", f"t={'f' * 30}", "c1"])
def test_what_is_no_cursor_of_journald_tells_nothing(cursor: str) -> None:
    assert read_cursor(cursor).at is None
    assert find_gap(Cursor(cursor), LATER) is None
    assert find_gap(Cursor(cursor), None) is None


def test_an_entry_that_is_gone_leaves_a_gap_up_to_the_next_one_there_is() -> None:
    assert find_gap(ASKED, LATER) == Gap(AT, UNTIL)


def test_a_journal_without_anything_later() -> None:
    assert find_gap(ASKED, None) == Gap(AT, None)


@pytest.mark.parametrize(
    "found",
    [
        ASKED,
        change(ASKED, x="0"),  # the same number of the same count
        change(LATER, i="c9"),  # the very next one: what the cursor named had been read
        change(LATER, t="6616e5a628a4e"),  # no time went by
        change(LATER, s="0" * 32, t="1"),  # clocks went back
        Cursor("rubbish"),
    ],
)
def test_what_proves_no_gap(found: Cursor) -> None:
    assert find_gap(ASKED, found) is None


def test_another_count_proves_one_all_the_same() -> None:
    """A journal that was kept in memory begins to count anew with each boot."""
    found = change(LATER, s="0" * 32, i="1")
    assert find_gap(ASKED, found) == Gap(AT, UNTIL)
    assert timedelta(seconds=16) < UNTIL - AT

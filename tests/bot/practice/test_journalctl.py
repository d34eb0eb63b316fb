"""The practice `journalctl` in the forms the bot uses."""

from __future__ import annotations

import asyncio
import json
import shlex
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from bot.clock import Clock
from bot.practice.journal import Journal
from bot.practice.journalctl import Reader, Refused, parse_query, parse_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

UNIT = "a.service"


def new_journal(messages: int = 15) -> Journal:
    """Lines 0, 1, … of the unit; after each one of another unit."""
    journal = Journal(Clock())
    for index in range(messages):
        say(journal, str(index))
        say(journal, f"other {index}", unit="b.service", invocation="2")
    return journal


def say(journal: Journal, text: str, *, unit: str = UNIT, invocation: str = "1", **more: str) -> str:
    fields = {
        "MESSAGE": text,
        "_SYSTEMD_UNIT": unit,
        "_SYSTEMD_INVOCATION_ID": invocation,
        "_PID": "7",
        **more,
    }
    return journal.append({name: value.encode() for name, value in fields.items()}).cursor


def said_by_manager(journal: Journal, text: str, *, invocation: str = "1") -> None:
    fields = {"MESSAGE": text, "UNIT": UNIT, "INVOCATION_ID": invocation, "_PID": "1"}
    journal.append({name: value.encode() for name, value in fields.items()})


def reading(journal: Journal, words: str) -> AsyncIterator[str]:
    return Reader(parse_query(shlex.split(words)), journal).read()


async def read(journal: Journal, words: str) -> list[str]:
    chunks = [chunk async for chunk in reading(journal, f"-o cat {words}")]
    return "".join(chunks).splitlines()


async def seen(journal: Journal, words: str, *, then: str | None = None) -> list[str]:
    """What a follower printed until it waited; with `then`, a line is logged and what came is added."""
    shown: list[str] = []
    reader = Reader(parse_query(shlex.split(f"-f -o cat {words}")), journal)

    async def follow() -> None:
        async with aclosing(reader.read()) as chunks:
            async for chunk in chunks:
                shown.extend(chunk.splitlines())

    task = asyncio.create_task(follow())
    await journal.watched()
    if then is not None:
        say(journal, then)
        await asyncio.sleep(0)
        await journal.watched()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return shown


class TestReading:
    async def test_all_entries_of_a_unit(self) -> None:
        assert await read(new_journal(3), f"-u {UNIT}") == ["0", "1", "2"]

    async def test_the_last_ones(self) -> None:
        journal = new_journal(5)
        for form in ("-n 2", "-n2", "--lines=2", "--lines 2"):
            assert await read(journal, f"-u {UNIT} {form}") == ["3", "4"]
        assert await read(journal, f"-u {UNIT} -n all") == ["0", "1", "2", "3", "4"]
        assert await read(new_journal(12), f"-u {UNIT} -n") == [str(index) for index in range(2, 12)]

    async def test_the_cursor_of_the_end(self) -> None:
        journal = new_journal(2)
        last = journal.entries[-1].cursor
        assert await read(journal, "-n 0 --show-cursor") == ["-- No entries --", f"-- cursor: {last}"]
        assert await read(journal, "-q -n 0 --show-cursor") == [f"-- cursor: {last}"]
        assert await read(Journal(Clock()), "-n 0 --show-cursor") == ["-- No entries --"]

    async def test_from_a_cursor_on(self) -> None:
        journal = new_journal(4)
        own = journal.entries[2].cursor
        assert await read(journal, f"-u {UNIT} --cursor='{own}'") == ["1", "2", "3"]
        assert await read(journal, f"-u {UNIT} --after-cursor='{own}'") == ["2", "3"]
        assert await read(journal, f"-u {UNIT} --after-cursor='{own}' -n 1") == ["2"]

    async def test_after_a_cursor_that_does_not_match_one_entry_is_lost(self) -> None:
        journal = new_journal(4)
        foreign = journal.entries[1].cursor
        assert await read(journal, f"-u {UNIT} --cursor='{foreign}'") == ["1", "2", "3"]
        assert await read(journal, f"-u {UNIT} --after-cursor='{foreign}'") == ["2", "3"]

    async def test_one_start_by_both_fields(self) -> None:
        journal = new_journal(1)
        said_by_manager(journal, "Stopped")
        say(journal, "later", invocation="3")
        said_by_manager(journal, "Started", invocation="3")
        words = "_SYSTEMD_INVOCATION_ID={0} + INVOCATION_ID={0}"
        assert await read(journal, words.format(1)) == ["0", "Stopped"]
        assert await read(journal, words.format(3)) == ["later", "Started"]
        assert await read(journal, f"-u {UNIT}") == ["0", "Stopped", "later", "Started"]

    async def test_matches_of_one_field_are_alternatives_and_of_several_all_hold(self) -> None:
        journal = new_journal(1)
        assert await read(journal, "_SYSTEMD_INVOCATION_ID=1 _SYSTEMD_INVOCATION_ID=2") == ["0", "other 0"]
        assert await read(journal, "_SYSTEMD_INVOCATION_ID=1 _SYSTEMD_UNIT=b.service") == ["-- No entries --"]

    async def test_since(self) -> None:
        journal = Journal(Clock())
        now = journal.clock.now()
        for minutes in (30, 20, 10):
            journal.append({"MESSAGE": str(minutes).encode()}, at=now - timedelta(minutes=minutes))
        assert await read(journal, "--since=-1500s") == ["20", "10"]
        assert await read(journal, "-S now") == ["-- No entries --"]

    async def test_units_of_a_user(self) -> None:
        journal = new_journal(1)
        say(journal, "mine", unit="user@1000.service", _SYSTEMD_USER_UNIT=UNIT)
        assert await read(journal, f"--user-unit={UNIT}") == ["mine"]
        assert await read(journal, f"--user -u {UNIT}") == ["mine"]

    async def test_the_kernels_own(self) -> None:
        journal = new_journal(1)
        journal.append({"MESSAGE": b"Out of memory", "_TRANSPORT": b"kernel"})
        assert await read(journal, "-k") == ["Out of memory"]

    async def test_json_and_its_fields(self) -> None:
        journal = new_journal(1)
        chunks = [chunk async for chunk in reading(journal, f"-o json --output-fields=MESSAGE -u {UNIT}")]
        entry = json.loads("".join(chunks))
        assert entry["MESSAGE"] == "0"
        assert entry["__CURSOR"] == journal.entries[0].cursor
        assert "_PID" not in entry

    async def test_the_look_for_people(self) -> None:
        (line,) = [chunk async for chunk in reading(new_journal(1), f"-u {UNIT}")]
        assert line.endswith(": 0\n")


class TestFollowing:
    async def test_ten_old_entries_then_what_comes(self) -> None:
        journal = new_journal(15)
        assert await seen(journal, f"-u {UNIT}", then="new") == [*map(str, range(5, 15)), "new"]

    @pytest.mark.parametrize("words", ["-n all", "--no-tail", "--lines=all"])
    async def test_all_old_entries_when_asked_for(self, words: str) -> None:
        assert await seen(new_journal(15), f"-u {UNIT} {words}") == [str(index) for index in range(15)]

    async def test_none_of_the_old(self) -> None:
        assert await seen(new_journal(3), f"-u {UNIT} -n 0", then="new") == ["new"]

    async def test_after_a_cursor_only_ten_come_before_something_new(self) -> None:
        journal = new_journal(15)
        words = f"-u {UNIT} --cursor='{journal.entries[0].cursor}'"
        assert await seen(journal, words) == [str(index) for index in range(10)]
        assert await seen(journal, words, then="new") == [*map(str, range(15)), "new"]
        assert await seen(journal, f"{words} -n all") == [*map(str, range(15)), "new"]

    async def test_other_boots_are_left_out(self) -> None:
        journal = new_journal(2)
        journal.reboot()
        say(journal, "after")
        assert await seen(journal, f"-u {UNIT} -n all") == ["after"]
        assert await read(journal, f"-u {UNIT}") == ["0", "1", "after"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--frobnicate", "unrecognized option '--frobnicate'"),
        ("-o yaml", "Unknown output format 'yaml'."),
        ("x", "Failed to add match 'x': Invalid argument"),
        ("-n x", "Failed to add match 'x': Invalid argument"),
        ("--lines=x", "Failed to parse lines 'x'"),
        ("-u", "requires an argument"),
        ("--since=now --cursor=t=1", "Please specify only one of --since=, --cursor=, and --after-cursor=."),
    ],
)
def test_arguments_that_make_no_sense(words: str, complaint: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse_query(shlex.split(words))
    assert complaint in str(refusal.value)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--cursor=nonsense", "Failed to seek to cursor: Invalid argument"),
        ("--since=yesteryear", "Failed to parse timestamp: yesteryear"),
    ],
)
async def test_places_that_cannot_be_found(words: str, complaint: str) -> None:
    with pytest.raises(Refused, match=complaint):
        await read(new_journal(1), words)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("now", 0), ("-90s", 90), ("-10m", 600), ("2 hours ago", 7200), ("-1d", 86400), ("@1780098587", 13)],
)
def test_times(text: str, seconds: int) -> None:
    now = datetime(2026, 5, 29, 23, 50, tzinfo=UTC)
    assert now - parse_time(text, now) == timedelta(seconds=seconds)


def test_a_written_date_is_utc() -> None:
    now = datetime(2026, 5, 29, tzinfo=UTC)
    assert parse_time("2026-05-28 23:59:00 UTC", now) == datetime(2026, 5, 28, 23, 59, tzinfo=UTC)

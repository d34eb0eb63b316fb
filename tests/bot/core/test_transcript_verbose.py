"""journalctl's verbose output, entry by entry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from time import process_time

import pytest

from bot.core.events import LogLine, Origin
from bot.core.journal import Decoder
from bot.core.log_times import LogClock
from bot.core.redact import Redactor
from bot.core.transcript_verbose import VerboseReader

ENTRY = """\
Fri 2026-05-29 23:49:47.123456 UTC [s=ab;i=1;b=1;m=2;t=3;x=4]
    _TRANSPORT=stdout
    SYSLOG_IDENTIFIER=sglang
    MESSAGE=one
              two
    _PID=7
    _SYSTEMD_UNIT=kimi.service
"""
MANAGER = """\
Fri 2026-05-29 23:49:48.000000 UTC [s=ab;i=2;b=1;m=2;t=3;x=4]
    _PID=1
    SYSLOG_IDENTIFIER=systemd
    UNIT=kimi.service
    MESSAGE=Started kimi.service - Kimi.
"""


def read(text: str) -> list[LogLine]:
    reader = VerboseReader(LogClock(), Decoder(Redactor()))
    return [line for raw in text.split("\n") for line in reader.read(raw.encode())] + list(reader.close())


def test_an_entry_ends_where_the_next_begins() -> None:
    first, *more, second = read(ENTRY + MANAGER)
    assert (first.text, first.pid, first.origin) == ("one", 7, Origin.SERVICE)
    assert [line.text for line in more] == ["  two"]
    assert first.at == datetime(2026, 5, 29, 23, 49, 47, 123456, UTC)
    assert (second.text, second.origin) == ("Started kimi.service - Kimi.", Origin.MANAGER)


def test_what_journalctl_says_itself_is_no_entry() -> None:
    assert [line.text for line in read("-- Boot 0123 --\n" + MANAGER)] == ["Started kimi.service - Kimi."]
    assert read("no entry") == []
    assert read(ENTRY.partition("    MESSAGE")[0]) == []


@pytest.mark.parametrize("zone", ["+0545", "+02"])
def test_a_zone_without_a_name_is_told_by_its_hours(zone: str) -> None:
    (line,) = read(MANAGER.replace("UTC", zone))
    assert line.at is not None
    assert line.at.utcoffset() == timedelta(0)
    assert line.at == datetime.fromisoformat(f"2026-05-29T23:49:48{zone}")


def test_a_message_of_very_many_lines_takes_no_longer_than_its_size() -> None:
    began = process_time()
    lines = read(ENTRY.replace("two\n", "two\n" + ("            " + "x" * 40 + "\n") * 100_000))
    assert len(lines) == 100_002
    assert process_time() - began < 10

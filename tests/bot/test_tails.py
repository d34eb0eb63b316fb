"""The log of a start, fetched from its hosts or told from memory."""

from __future__ import annotations

import base64
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

import pytest
from structlog.testing import capture_logs

from bot.core.events import LogLine, Member, UnitName
from bot.core.log_file import FilePosition
from bot.core.redact import Redactor
from bot.core.tail import TailFile, render_tail
from bot.errors import HostError, HostUnreachable
from bot.sources import Link
from bot.tails import read_latest, read_start
from tests.support.carriers import MEMBER, NEW, SECRET, UNIT, MemoryHost
from tests.support.journal_entries import make_entry, write_entries

if TYPE_CHECKING:
    from bot.clients.ssh import Host

pytestmark = pytest.mark.looptime
GONE = HostUnreachable("llm-two", "llm-two: no connection: refused")
OTHER = Member("llm-three/sglang.service")


def make_redactor() -> Redactor:
    return Redactor((SECRET,))


def make_link(
    member: Member = MEMBER, *, log: bytes | None = b"", heard: str = ""
) -> tuple[MemoryHost, Link]:
    host = MemoryHost([], log=log)
    link = Link(member, UnitName(UNIT), "system", cast("Host", host))
    if heard:
        link.remember([LogLine(heard, heard)])
    return host, link


async def test_every_line_of_the_start_comes_masked_member_after_member() -> None:
    one_host, one = make_link(log=write_entries(make_entry(1, "first"), make_entry(2, f"key {SECRET}")))
    _, two = make_link(OTHER, log=write_entries(make_entry(3, "third")))
    tail = await read_start({MEMBER: one, OTHER: two}, {MEMBER: NEW, OTHER: NEW}, make_redactor=make_redactor)
    _, *rows = tail.text.splitlines()
    assert [row.rpartition(": ")[2].split()[0] for row in rows] == ["first", "key", "third"]
    assert (tail.lines, tail.masked) == (3, 1)
    assert SECRET not in tail.text
    assert one_host.reads == [
        {"unit": UNIT, "scope": "system", "invocation": NEW, "lines": None, "since": None}
    ]


@pytest.mark.parametrize("error", [GONE, None])
async def test_what_the_host_does_not_hand_over_is_told_from_memory(error: HostError | None) -> None:
    host, link = make_link(log=None, heard="remembered")
    host.read_error = error
    with capture_logs() as logs:
        tail = await read_start({MEMBER: link}, {MEMBER: NEW}, make_redactor=make_redactor)
    assert tail.text.splitlines()[-1].endswith("remembered")
    assert [(entry["event"], entry["lines"]) for entry in logs] == [("tail_from_memory", 1)]


async def test_a_long_log_is_written_where_it_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def render(lines: list[LogLine]) -> TailFile:
        threads.append(threading.current_thread())
        return render_tail(lines)

    monkeypatch.setattr("bot.tails.render_tail", render)
    _, link = make_link(log=write_entries(make_entry(1, "first")))
    await read_start({MEMBER: link}, {MEMBER: NEW}, make_redactor=make_redactor)
    await read_latest(link, make_redactor=make_redactor, lines=1)
    assert len(threads) == 2
    assert threading.main_thread() not in threads


async def test_a_member_that_never_started_is_what_was_heard_of_it() -> None:
    host, link = make_link(log=write_entries(make_entry(1, "of another start")), heard="Stopping it")
    tail = await read_start({MEMBER: link}, {MEMBER: None}, make_redactor=make_redactor)
    assert (tail.lines, host.reads) == (1, [])
    assert "Stopping it" in tail.text


async def test_a_half_line_at_the_end_is_kept() -> None:
    data = write_entries(make_entry(1, "whole"), make_entry(2, "cut short", _LINE_BREAK="line-max"))
    _, link = make_link(log=data)
    tail = await read_start({MEMBER: link}, {MEMBER: NEW}, make_redactor=make_redactor)
    assert "cut short" in tail.text


async def test_the_latest_lines_are_asked_for_as_the_person_said() -> None:
    host, link = make_link(log=write_entries(make_entry(1, "loading")))
    tail = await read_latest(link, make_redactor=make_redactor, lines=50, since=timedelta(minutes=5))
    assert tail.lines == 1
    assert (host.reads[0]["lines"], host.reads[0]["since"]) == (50, timedelta(minutes=5))


async def test_the_latest_lines_of_a_host_that_refuses_or_hangs_are_an_error() -> None:
    host, link = make_link(log=None, heard="remembered")
    with pytest.raises(HostError, match="not handed over within 60 s; ask for fewer lines"):
        await read_latest(link, make_redactor=make_redactor, lines=50)
    host.read_error = GONE
    with pytest.raises(HostUnreachable):
        await read_latest(link, make_redactor=make_redactor, lines=50)


def frames(*texts: str) -> bytes:
    body = base64.b64encode("".join(text + "\n" for text in texts).encode()).decode()
    return f"z +0000\nb 7 0 1780000100.5 {body}\n".encode()


async def test_a_unit_with_a_log_file_is_told_from_it_with_systemds_own_words_between() -> None:
    host, link = make_link(log=write_entries(make_entry(1_000_000, "systemd's word")))
    link.log_file, link.log_start = "/var/log/kimi.log", FilePosition(7, 5)
    before, after = "[2026-05-28 20:26:39 TP0] before", "[2026-05-28 20:26:45 TP0] after"
    host.file = frames("[2026-05-28 20:00:00] of the run before", before, after)
    begun = datetime(2026, 5, 28, 20, 26, 39, 500_000, tzinfo=UTC)
    tail = await read_start({MEMBER: link}, {MEMBER: NEW}, make_redactor=make_redactor, begun={MEMBER: begun})
    _, *rows = tail.text.splitlines()
    assert [row.split()[-1] for row in rows] == ["before", "word", "after"]
    assert host.log_reads == [("/var/log/kimi.log", FilePosition(7, 5))]


async def test_the_last_lines_and_the_last_minutes_of_a_log_file() -> None:
    host, link = make_link()
    link.log_file = "/var/log/kimi.log"
    host.file = frames("[2026-05-28 20:00:00] long ago", "[2026-05-28 20:28:00] just now", "its kin")
    tail = await read_latest(link, make_redactor=make_redactor, lines=2)
    assert [row.split()[-1] for row in tail.text.splitlines()[1:]] == ["now", "kin"]
    tail = await read_latest(link, make_redactor=make_redactor, since=timedelta(minutes=5))
    assert [row.split()[-1] for row in tail.text.splitlines()[1:]] == ["now", "kin"]

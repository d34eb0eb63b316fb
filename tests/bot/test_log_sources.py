"""The kernel's lines and a log file's on the queue, and what becomes of them when they cannot be read."""

from __future__ import annotations

import asyncio
import base64
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import pytest
from structlog.testing import capture_logs

from bot.core.events import Cursor, HostLost, HostRestored, LineRead, LogMissed, Origin
from bot.core.journal import Position
from bot.core.log_file import FilePosition
from bot.core.redact import Redactor
from bot.errors import HostUnreachable, PermissionRefused
from bot.log_sources import WATCHED_MOST, follow_kernel, follow_log_file
from bot.sources import KERNEL, LOG_FILE, Inbox, Link, Piece
from tests.support.carriers import MEMBER, SECRET, UNIT, MemoryHost
from tests.support.journal_entries import make_cursor, make_entry, write_entries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bot.clients.ssh import Host

pytestmark = pytest.mark.looptime
GONE = HostUnreachable("llm-two", "llm-two: no connection: reset")
REFUSED = PermissionRefused("llm-two", "llm-two: kimi may not read it")
KILLED = "Out of memory: Killed process 77 (sglang::schedul) total-vm:1kB"
PATH = "/var/log/kimi.log"


@dataclass
class Wire:
    host: MemoryHost
    link: Link
    inbox: Inbox
    task: asyncio.Task[None]

    async def next(self) -> Piece:
        async with asyncio.timeout(3600):
            return await self.inbox.get()


@asynccontextmanager
async def following(follow: Any, **changes: Any) -> AsyncIterator[Wire]:
    host = MemoryHost([])
    link = Link(MEMBER, UNIT, "system", cast("Host", host), log_file=PATH, **changes)
    inbox: Inbox = asyncio.Queue()
    task = asyncio.create_task(follow(link, inbox, redactor=Redactor((SECRET,))))
    try:
        yield Wire(host, link, inbox, task)
    finally:
        task.cancel()
        await asyncio.wait({task})


def kernel(number: int, text: str) -> bytes:
    return write_entries(make_entry(number, text, _TRANSPORT="kernel", _STREAM_ID=None, _PID=None))


def frame(text: str, offset: int = 0) -> bytes:
    return f"z +0000\nd 7 {offset} 1780000000.5 {base64.b64encode(text.encode()).decode()}\n".encode()


async def test_only_the_kernels_lines_that_matter_come() -> None:
    async with following(follow_kernel, kernel=Position(Cursor("here"))) as wire:
        wire.host.kernel.put_nowait(kernel(1, "usb 1-1: new device") + kernel(2, KILLED))
        piece = await wire.next()
    [event] = piece.events
    assert isinstance(event, LineRead)
    assert (event.line.reading, event.line.origin) == (KILLED, Origin.KERNEL)
    assert (piece.member, piece.stream) == (MEMBER, KERNEL)
    assert isinstance(piece.position, Position)
    assert piece.position.cursor == make_cursor(2)
    assert wire.host.kernel_follows == [Position(Cursor("here"))]
    assert [line.reading for line in wire.link.ring] == [KILLED]


async def test_what_the_service_says_of_memory_is_no_line_of_the_kernel() -> None:
    async with following(follow_kernel) as wire:
        wire.host.kernel.put_nowait(write_entries(make_entry(1, KILLED)) + kernel(2, KILLED))
        [event] = (await wire.next()).events
    assert isinstance(event, LineRead)
    assert event.line.cursor == make_cursor(2)


async def test_a_host_that_refuses_its_kernels_lines_is_done_without() -> None:
    async with following(follow_kernel) as wire:
        wire.host.kernel.put_nowait(REFUSED)
        with capture_logs() as logs:
            await asyncio.wait_for(wire.task, 60)
    assert wire.inbox.empty()
    assert [entry["event"] for entry in logs] == ["kernel_refused"]


async def test_a_lost_kernel_is_taken_up_where_it_stood_without_a_word() -> None:
    async with following(follow_kernel) as wire:
        wire.host.kernel.put_nowait(kernel(1, KILLED))
        await wire.next()
        wire.host.kernel.put_nowait(GONE)
        wire.host.kernel.put_nowait(kernel(1, KILLED) + kernel(2, KILLED))
        piece = await wire.next()
    assert len(piece.events) == 1
    last = wire.host.kernel_follows[-1]
    assert last is not None
    assert last.cursor == make_cursor(1)


async def test_lines_of_a_file_come_masked_with_their_place() -> None:
    start = FilePosition(7, 0, 1_780_000_000)
    async with following(follow_log_file, log=start) as wire:
        wire.host.frames.put_nowait(frame(f"one\nkey {SECRET}\n"))
        piece = await wire.next()
    lines = [event.line for event in piece.events if isinstance(event, LineRead)]
    assert [line.reading.split()[0] for line in lines] == ["one", "key"]
    assert SECRET not in lines[1].text
    assert (piece.member, piece.stream) == (MEMBER, LOG_FILE)
    assert piece.position == wire.link.log == FilePosition(7, 8 + 1 + len(SECRET), 1_780_000_000)
    assert wire.host.log_follows == [(PATH, start)]
    assert len(wire.link.ring) == 2


async def test_a_watch_looks_for_its_start_in_the_end_of_the_file() -> None:
    async with following(follow_log_file) as wire:
        wire.host.frames.put_nowait(frame("one\n"))
        await wire.next()
    assert wire.host.log_follows == [(PATH, FilePosition(offset=WATCHED_MOST))]


async def test_a_file_that_cannot_be_read_is_told_and_tried_again() -> None:
    async with following(follow_log_file, log=FilePosition(7, 0, 1_780_000_000)) as wire:
        wire.host.frames.put_nowait(REFUSED)
        lost = await wire.next()
        assert lost.events == (HostLost(MEMBER, str(REFUSED)),)
        wire.host.frames.put_nowait(b".\n")  # it is waited for, no more
        wire.host.frames.put_nowait(frame("one\n"))
        restored, line = await wire.next(), await wire.next()
        assert restored.events == (HostRestored(MEMBER),)
        assert isinstance(line.events[0], LineRead)
        wire.host.frames.put_nowait(None)
        ended = await wire.next()
        assert isinstance(ended.events[0], HostLost)
        assert PATH in ended.events[0].error


async def test_a_host_out_of_sight_is_not_back_because_its_file_is() -> None:
    async with following(follow_log_file, log=FilePosition(7, 0, 1_780_000_000)) as wire:
        wire.link.lost = wire.link.log_lost = True
        wire.host.frames.put_nowait(frame("one\n"))
        piece = await wire.next()
    assert isinstance(piece.events[0], LineRead)
    assert not wire.link.log_lost


async def test_what_a_file_lost_is_a_fact_before_what_it_says_now() -> None:
    async with following(follow_log_file, log=FilePosition(5, 0, 1_780_000_000)) as wire:
        wire.host.frames.put_nowait(b"z +0000\nm\nt\n" + frame("one\n"))
        wire.host.frames.put_nowait(frame("two\n", 4))
        missed, line, other = await wire.next(), await wire.next(), await wire.next()
    assert missed.events == (LogMissed(MEMBER, datetime.fromtimestamp(1_780_000_000, UTC), None, PATH),)
    assert isinstance(line.events[0], LineRead)
    assert isinstance(other.events[0], LineRead)

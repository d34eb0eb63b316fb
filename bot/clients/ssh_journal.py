"""Reads a unit's journal over SSH: bytes as journalctl writes them, for as long as the link lives."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING

import asyncssh

from bot.clients import ssh_errors
from bot.core.events import Cursor, InvocationId, UnitName
from bot.core.journal import OUTPUT_FIELDS, Position

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from datetime import timedelta

    from bot.clients.ssh_channels import Session
    from bot.clients.ssh_link import Link

_CHUNK = 64 << 10
_COMPLAINT_LIMIT = 4096
_END_SECONDS = 5.0  # for a remote journalctl to end when it was told to
_KERNEL_LINES = 200  # where nothing tells since when
_NOTHING = b"-- No entries --"

# --all: without it fields over 4096 bytes come out as null. `-n all`: systemd 252 shows no more than ten old
# entries after a cursor and then blocks. The cursor is --cursor, whose first entry the decoder drops:
# --after-cursor loses an entry there when the cursor is not one of the unit's own.
JSON = ("journalctl", "--no-pager", "-o", "json", "--all", f"--output-fields={','.join(OUTPUT_FIELDS)}")

_PLACE = ("journalctl", "--no-pager", "-n", "1", "-o", "json", "--output-fields=_BOOT_ID")
_CURSOR = re.compile(r'"__CURSOR" ?: ?"([^"\\]+)"')


def match_unit(unit: UnitName, *, scope: str) -> tuple[str, ...]:
    """What the unit writes and what systemd says about it.

    Without `--user`: that would open the user's own journal files only, and hosts that keep their journal in
    memory have none of those.
    """
    return (f"--user-unit={unit}",) if scope == "user" else (f"--unit={unit}",)


def match_invocation(invocation: InvocationId, *, scope: str) -> tuple[str, ...]:
    """One start: the service's own lines, or systemd's lines about it."""
    about = "USER_INVOCATION_ID" if scope == "user" else "INVOCATION_ID"
    return (f"_SYSTEMD_INVOCATION_ID={invocation}", "+", f"{about}={invocation}")


def follow_arguments(
    unit: UnitName, *, scope: str, position: Position | None, invocation: InvocationId | None
) -> tuple[str, ...]:
    """From a position (all of what is there when its cursor is None), else of one start, else from now on."""
    if position is not None:
        cursor = (f"--cursor={position.cursor}",) if position.cursor else ()
        return (*JSON, "-f", "-n", "all", *cursor, *match_unit(unit, scope=scope))
    if invocation is not None:
        return (*JSON, "-f", "-n", "all", *match_invocation(invocation, scope=scope))
    return (*JSON, "-f", "-n", "0", *match_unit(unit, scope=scope))


def kernel_arguments(*, position: Position | None) -> tuple[str, ...]:
    """What the kernel says from a position on, else the last it said and what comes."""
    if position is not None and position.cursor:
        return (*JSON, "-k", "-f", "-n", "all", f"--cursor={position.cursor}")
    return (*JSON, "-k", "-f", "-n", str(_KERNEL_LINES))


def read_arguments(
    unit: UnitName,
    *,
    scope: str,
    invocation: InvocationId | None,
    since: timedelta | None,
    lines: int | None,
) -> tuple[str, ...]:
    match = match_invocation(invocation, scope=scope) if invocation else match_unit(unit, scope=scope)
    age = (f"--since=-{max(1, round(since.total_seconds()))}s",) if since else ()
    count = ("-n", str(lines)) if lines is not None else ()
    return (*JSON, *age, *count, *match)


def rest_arguments(unit: UnitName, *, scope: str, cursor: Cursor) -> tuple[str, ...]:
    """All that is there from a cursor on, over every boot since; `-f` shows the present boot alone."""
    return (*JSON, f"--cursor={cursor}", *match_unit(unit, scope=scope))


async def read_at(link: Link, cursor: Cursor, *, scope: str) -> Cursor | None:
    """The entry that a cursor names, of whatever unit, else the next one there is; None: there is none.

    Of a journalctl that cannot say, the cursor itself: nothing is proven then.
    """
    await _check_access(link, scope=scope)
    finished = await link.run((*_PLACE, f"--cursor={cursor}"))
    if finished.status:
        return cursor
    shown = _CURSOR.search(finished.out)
    return Cursor(shown[1]) if shown else None


async def read_end(link: Link, *, scope: str) -> Cursor | None:
    """The cursor of the journal's last entry; None while it has none."""
    connection = await link.connection()
    finished = await link.run(("journalctl", "--no-pager", "-n", "0", "--show-cursor"), connection=connection)
    complaint = finished.err
    if finished.status or ssh_errors.is_journal_refusal(complaint, scope=scope):
        link.outdate(connection)
        raise ssh_errors.journal_failure(complaint, name=link.name, scope=scope, section=link.section)
    shown = re.search(r"^-- cursor: (\S+)", finished.out, re.MULTILINE)
    return Cursor(shown[1]) if shown else await _read_last(link)


async def _read_last(link: Link) -> Cursor | None:
    """For a journalctl that shows no cursor where it shows no entry."""
    finished = await link.run((*JSON, "-n", "1"))
    shown = _CURSOR.search(finished.out)
    return Cursor(shown[1]) if shown else None


async def follow(link: Link, arguments: Sequence[str], *, scope: str) -> AsyncGenerator[bytes, None]:
    """Bytes until the link or journalctl ends, which is always an error; closing ends the remote process."""
    async with contextlib.aclosing(_stream(link, arguments, scope=scope, patience=None)) as stream:
        async for data in stream:
            yield data
    raise ssh_errors.journal_failure("", name=link.name, scope=scope, section=link.section)


async def read(link: Link, arguments: Sequence[str], *, scope: str) -> AsyncGenerator[bytes, None]:
    """Bytes until the journal's end; a host that stops sending for the command time-out is an error."""
    patience = link.command_timeout
    async with contextlib.aclosing(_stream(link, arguments, scope=scope, patience=patience)) as stream:
        async for data in stream:
            if not data.startswith(_NOTHING):
                yield data


async def _stream(
    link: Link, arguments: Sequence[str], *, scope: str, patience: float | None
) -> AsyncGenerator[bytes, None]:
    await _check_access(link, scope=scope)
    process = await link.open(arguments)
    complaint = asyncio.create_task(_listen(process), name="journalctl stderr")
    try:
        while data := await _read(link, process, patience=patience):
            yield data
        await _wait_for_end(process, complaint)
        _judge(link, process, complaint.result() if complaint.done() else "", scope=scope)
    finally:
        complaint.cancel()
        process.hang_up()


async def _check_access(link: Link, *, scope: str) -> None:
    """Once a connection: a user's groups are those of the login, whatever became of them since.

    A user without the right sees some entries, silently: with `-o json` journalctl keeps its hint to itself.
    """
    connection = await link.connection()
    if link.reads_journal is not connection:
        await read_end(link, scope=scope)
        link.reads_journal = connection


async def _read(link: Link, process: Session, *, patience: float | None) -> bytes:
    """The next bytes; none at the end."""
    try:
        async with asyncio.timeout(patience):
            return await process.stdout.read(_CHUNK)
    except TimeoutError as error:
        raise ssh_errors.command_timed_out(link.name, during="journalctl", seconds=patience or 0) from error
    except (OSError, asyncssh.Error) as error:
        raise ssh_errors.link_lost(link.name, during="journalctl") from error


async def _listen(process: Session) -> str:
    """Standard error, read beside the output so that neither waits for the other; its beginning is kept."""
    kept = ""
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await process.stderr.read(_COMPLAINT_LIMIT):
            kept = (kept + data.decode(errors="replace"))[:_COMPLAINT_LIMIT]
    return kept


async def _wait_for_end(process: Session, complaint: asyncio.Task[str]) -> None:
    with contextlib.suppress(TimeoutError, OSError, asyncssh.Error):
        async with asyncio.timeout(_END_SECONDS):
            await asyncio.shield(complaint)
            await process.wait_closed()


def _judge(link: Link, process: Session, complaint: str, *, scope: str) -> None:
    """At the end of the output: was that all, or a failure?"""
    if process.returncode is None:
        raise ssh_errors.link_lost(link.name, during="journalctl")
    if process.returncode or ssh_errors.is_journal_refusal(complaint, scope=scope):
        raise ssh_errors.journal_failure(complaint, name=link.name, scope=scope, section=link.section)

"""A journal followed over SSH: every byte, no faster than it is read, no silence where there is no right."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from bot.clients import ssh_journal, ssh_lines
from bot.clients.ssh import Host
from bot.core.events import Cursor, InvocationId, UnitName
from bot.core.journal import OUTPUT_FIELDS, Position
from bot.errors import CommandTimedOut, HostUnreachable, PermissionRefused
from tests.support.ssh import Process, Said, SshServer, connect, serve
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

UNIT = UnitName("sglang-kimi.service")
CURSOR = Cursor("s=aa;i=1f;b=bb;m=1;t=2;x=3")
INVOCATION = InvocationId("0f3c1d2e4b5a69788796a5b4c3d2e1f0")
HINT = "Hint: You are currently not seeing messages from other users and the system.\n"
CHECK = "journalctl --no-pager -n 0"
READ = "journalctl --no-pager -o json"


def follow(
    *, scope: str = "system", position: Position | None = None, invocation: InvocationId | None = None
) -> list[str]:
    return list(ssh_journal.follow_arguments(UNIT, scope=scope, position=position, invocation=invocation))


def test_from_a_position() -> None:
    words = follow(position=Position(CURSOR))
    assert words[:6] == [
        "journalctl",
        "--no-pager",
        "-o",
        "json",
        "--all",
        "--output-fields=" + ",".join(OUTPUT_FIELDS),
    ]
    assert words[6:] == ["-f", "-n", "all", f"--cursor={CURSOR}", f"--unit={UNIT}"]


def test_from_the_beginning_where_the_journal_was_empty() -> None:
    assert follow(position=Position(None))[6:] == ["-f", "-n", "all", f"--unit={UNIT}"]


def test_one_start_alone() -> None:
    match = [f"_SYSTEMD_INVOCATION_ID={INVOCATION}", "+", f"INVOCATION_ID={INVOCATION}"]
    assert follow(invocation=INVOCATION)[6:] == ["-f", "-n", "all", *match]


def test_one_start_of_a_users_unit() -> None:
    match = [f"_SYSTEMD_INVOCATION_ID={INVOCATION}", "+", f"USER_INVOCATION_ID={INVOCATION}"]
    assert follow(scope="user", invocation=INVOCATION)[6:] == ["-f", "-n", "all", *match]


def test_from_now_on() -> None:
    assert follow()[6:] == ["-f", "-n", "0", f"--unit={UNIT}"]
    assert follow(scope="user")[6:] == ["-f", "-n", "0", f"--user-unit={UNIT}"]


def test_the_position_counts_more_than_the_start() -> None:
    assert follow(position=Position(CURSOR), invocation=INVOCATION) == follow(position=Position(CURSOR))


@pytest.mark.parametrize(
    ("invocation", "since", "lines", "words"),
    [
        (None, None, None, [f"--unit={UNIT}"]),
        (None, timedelta(minutes=2), None, ["--since=-120s", f"--unit={UNIT}"]),
        (None, timedelta(milliseconds=1), None, ["--since=-1s", f"--unit={UNIT}"]),
        (None, None, 200, ["-n", "200", f"--unit={UNIT}"]),
        (
            INVOCATION,
            None,
            5,
            ["-n", "5", f"_SYSTEMD_INVOCATION_ID={INVOCATION}", "+", f"INVOCATION_ID={INVOCATION}"],
        ),
    ],
)
def test_what_is_there(
    invocation: InvocationId | None, since: timedelta | None, lines: int | None, words: list[str]
) -> None:
    found = ssh_journal.read_arguments(UNIT, scope="system", invocation=invocation, since=since, lines=lines)
    assert list(found[6:]) == words
    assert "-f" not in found


async def test_the_entry_of_a_cursor_is_asked_for_whichever_unit_wrote_it(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        allow(server)
        place = "journalctl --no-pager -n 1 -o json"
        server.answers[place] = Said('{"__CURSOR":"s=aa;i=20;t=9","_BOOT_ID":"bb"}\n')
        assert await host.journal_at(CURSOR, scope="system") == "s=aa;i=20;t=9"
        words = server.commands[-1]
        assert words[-1] == f"--cursor={CURSOR}"
        assert not any("unit" in word or word == "-f" for word in words)
        server.answers[place] = Said("-- No entries --\n")
        assert await host.journal_at(CURSOR, scope="system") is None
        server.answers[place] = Said(err="Failed to seek to cursor: Invalid argument\n", status=1)
        assert await host.journal_at(CURSOR, scope="system") == CURSOR  # nothing is proven


async def test_the_rest_from_a_cursor_on_is_not_followed(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        allow(server)
        server.answers[READ] = Said("{}\n")
        assert await collect(host.read_rest(UNIT, scope="user", cursor=CURSOR)) == b"{}\n"
        assert server.commands[-1][6:] == [f"--cursor={CURSOR}", f"--user-unit={UNIT}"]


async def collect(stream: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in stream])


def allow(server: SshServer) -> None:
    """The user may read the journal."""
    server.answers[CHECK] = Said(f"-- cursor: {CURSOR}\n")


async def test_bytes_as_they_come(tmp_path: Path) -> None:
    more = asyncio.Event()

    async def trickle(_: list[str], process: Process) -> None:
        process.stdout.write(b'{"a":')
        await more.wait()
        process.stdout.write(b"1}\n\xff\x00")
        await asyncio.Event().wait()

    async with serve(tmp_path) as server, connect(server) as host:
        allow(server)
        server.answers[READ] = trickle
        async with aclosing(host.follow_journal(UNIT, scope="system")) as stream:
            assert await anext(stream) == b'{"a":'
            more.set()
            assert await anext(stream) == b"1}\n\xff\x00"


async def test_closing_ends_the_remote_process(tmp_path: Path) -> None:
    async def endless(_: list[str], process: Process) -> None:
        process.stdout.write(b"{}\n")
        await asyncio.Event().wait()

    async with serve(tmp_path) as server, connect(server) as host:
        allow(server)
        server.answers[READ] = endless
        async with aclosing(host.follow_journal(UNIT, scope="system")) as stream:
            await anext(stream)
        async with asyncio.timeout(60):
            await server.ended.wait()
        assert server.logins == 1


async def test_a_cancelled_reader_ends_the_remote_process(tmp_path: Path) -> None:
    async def silent(_: list[str], __: Process) -> None:
        await asyncio.Event().wait()

    async with serve(tmp_path) as server, connect(server) as host:
        allow(server)
        server.answers[READ] = silent
        reading = asyncio.create_task(collect(host.follow_journal(UNIT, scope="system")))
        await until(lambda: any("-f" in words for words in server.commands))
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        async with asyncio.timeout(60):
            await server.ended.wait()


async def test_whoever_does_not_read_makes_the_host_wait(tmp_path: Path) -> None:
    written = 0

    async def flood(_: list[str], process: Process) -> None:
        nonlocal written
        while True:
            process.stdout.write(b"x" * 32768)
            await process.stdout.drain()
            written += 32768

    async with serve(tmp_path) as server, connect(server) as host:
        allow(server)
        server.answers[READ] = flood
        async with aclosing(host.follow_journal(UNIT, scope="system")) as stream:
            await anext(stream)
            await until(lambda: written >= 256 << 10)
            before = -1
            while before != written:  # until the window is full
                before = written
                await host.knock("127.0.0.1", server.port)
            assert written < 2 << 20


async def test_a_lost_link_is_an_error(tmp_path: Path) -> None:
    async def one(_: list[str], process: Process) -> None:
        process.stdout.write(b"{}\n")
        await asyncio.Event().wait()

    async with serve(tmp_path) as server, connect(server) as host:
        allow(server)
        server.answers[READ] = one
        async with aclosing(host.follow_journal(UNIT, scope="system")) as stream:
            assert await anext(stream) == b"{}\n"
            server.cut()
            with pytest.raises(HostUnreachable, match="connection was lost"):
                await anext(stream)


@pytest.mark.parametrize(
    ("said", "part"),
    [
        (Said("{}\n"), "ended: without a word"),
        (Said("{}\n", "Failed to seek to cursor: Invalid argument\n", 1), "Failed to seek to cursor"),
        (Said("{}\n", "", 143), "ended"),
    ],
)
async def test_a_journalctl_that_ends_is_an_error_when_following(
    tmp_path: Path, said: Said, part: str
) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        allow(server)
        server.answers[READ] = said
        async with aclosing(host.follow_journal(UNIT, scope="system")) as stream:
            assert await anext(stream) == b"{}\n"
            with pytest.raises(HostUnreachable, match=part):
                await anext(stream)


async def test_without_the_right_there_is_no_silence(tmp_path: Path) -> None:
    """With `-o json` journalctl keeps its hint to itself and shows nothing: so it is asked in plain first."""
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers[CHECK] = Said(f"-- cursor: {CURSOR}\n", HINT)
        for stream in (host.follow_journal(UNIT, scope="system"), host.read_journal(UNIT, scope="system")):
            with pytest.raises(PermissionRefused, match="usermod -aG systemd-journal kimi"):
                await anext(stream)
        with pytest.raises(PermissionRefused):
            await host.journal_end(scope="system")


async def test_no_journal_file_can_be_opened(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers[CHECK] = Said(
            err="No journal files were opened due to insufficient permissions.\n", status=1
        )
        with pytest.raises(PermissionRefused):
            await anext(host.follow_journal(UNIT, scope="user"))


async def test_a_users_own_unit_needs_no_group(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers[CHECK] = Said(f"-- cursor: {CURSOR}\n", HINT)
        server.answers[READ] = Said("{}\n")
        assert await collect(host.read_journal(UNIT, scope="user")) == b"{}\n"


async def test_the_right_is_asked_for_once_a_connection(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        allow(server)
        server.answers[READ] = Said("{}\n")
        await collect(host.read_journal(UNIT, scope="system"))
        await collect(host.read_journal(UNIT, scope="system"))
        await host.close()
        await collect(host.read_journal(UNIT, scope="system"))
        assert [words[2] for words in server.commands] == ["-n", "-o", "-o", "-n", "-o"]


async def test_a_right_that_was_given_later_counts_from_the_next_login_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's groups stay those of the login for as long as the connection lives."""

    async def look(_: list[str], process: Process) -> None:
        if server.logins == 1:
            process.stderr.write(HINT.encode())
        process.stdout.write(f"-- cursor: {CURSOR}\n".encode())
        process.exit(0)

    monkeypatch.setattr(ssh_lines, "_OLD", 0.0)
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers |= {CHECK: look, READ: Said("{}\n")}
        with pytest.raises(PermissionRefused):
            await collect(host.read_journal(UNIT, scope="system"))
        assert await collect(host.read_journal(UNIT, scope="system")) == b"{}\n"
        assert (server.logins, host.connects) == (2, 1)


async def test_reading_ends_with_the_journal(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        allow(server)
        server.answers[READ] = Said("{}\n" * 100_000)
        assert await collect(host.read_journal(UNIT, scope="system")) == b"{}\n" * 100_000


async def test_an_empty_journal_is_no_line(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        allow(server)
        server.answers[READ] = Said("-- No entries --\n")
        assert await collect(host.read_journal(UNIT, scope="system")) == b""


async def test_reading_from_a_host_that_stops_sending(tmp_path: Path) -> None:
    async def stop(_: list[str], process: Process) -> None:
        process.stdout.write(b"{}\n")
        await asyncio.Event().wait()

    async with serve(tmp_path) as server:
        allow(server)
        server.answers[READ] = stop
        host = Host(server.name, server.section(), command_timeout=0.3)
        with pytest.raises(CommandTimedOut):
            await collect(host.read_journal(UNIT, scope="system"))
        await host.close()


async def test_a_complaint_longer_than_any_window_holds_nothing_up(tmp_path: Path) -> None:
    async def complain(_: list[str], process: Process) -> None:
        for _count in range(64):
            process.stderr.write(b"e" * 65536)
            await process.stderr.drain()
        process.stdout.write(b"{}\n")
        process.exit(0)

    async with serve(tmp_path) as server, connect(server) as host:
        allow(server)
        server.answers[READ] = complain
        assert await collect(host.read_journal(UNIT, scope="system")) == b"{}\n"

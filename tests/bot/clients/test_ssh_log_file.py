"""A log file read by the real script over a real SSH connection, through everything logrotate does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from bot.core.log_file import FilePosition, LogFileDecoder
from bot.core.redact import Redactor
from bot.errors import HostError, HostUnreachable, PermissionRefused
from tests.support.ssh import Process, SshServer, connect, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bot.clients.ssh import Host
    from bot.core.events import LogLine

WITHIN = 60.0


class Here:
    """Runs commands on this machine, as a host would; `close` ends what the client left."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[None], asyncio.subprocess.Process] = {}

    async def run(self, words: list[str], process: Process) -> None:
        child = await asyncio.create_subprocess_exec(
            *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, start_new_session=True
        )
        task = asyncio.create_task(_pass_on(child, process))
        self._running[task] = child
        try:
            await asyncio.shield(task)
        finally:
            _kill(child)

    async def close(self) -> None:
        for child in self._running.values():
            _kill(child)
        await asyncio.gather(*self._running)


async def _pass_on(child: asyncio.subprocess.Process, process: Process) -> None:
    assert child.stdout is not None
    assert child.stderr is not None
    while data := await child.stdout.read(4096):
        with contextlib.suppress(OSError):
            process.stdout.write(data)
    complaint = await child.stderr.read()
    status = await child.wait()
    with contextlib.suppress(OSError):
        process.stderr.write(complaint)
        process.exit(status)


def _kill(child: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # what it started too: it holds the pipes


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SshServer]:
    here = Here()
    (tmp_path / "keys").mkdir()
    async with serve(tmp_path / "keys") as server:
        server.answers["sh -c"] = here.run
        yield server
    await here.close()


@pytest.fixture
async def host(server: SshServer) -> AsyncIterator[Host]:
    async with connect(server) as host:
        yield host


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "kimi.log"


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def rename(log: Path, name: str) -> None:
    log.rename(log.with_name(name))


def put(log: Path, text: str) -> None:
    """All of it anew, in the same file."""
    log.write_text(text)


def add(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def write(log: Path, *lines: str) -> None:
    with log.open("a") as file:
        file.writelines(line + "\n" for line in lines)


class Ear:
    """One follower: what it heard, and where it stands."""

    def __init__(self, position: FilePosition) -> None:
        self.decoder = LogFileDecoder(Redactor(), position=position)
        self.lines: list[LogLine] = []
        self.heard = asyncio.Event()
        self.data = b""

    @property
    def texts(self) -> list[str]:
        return [line.text for line in self.lines if not line.partial]

    async def listen(self, host: Host, log: Path) -> None:
        async with aclosing(host.follow_log(str(log), position=self.decoder.position)) as stream:
            async for data in stream:
                self.data += data
                self.lines += self.decoder.feed(data)
                self.heard.set()

    async def until(self, text: str) -> None:
        async with asyncio.timeout(WITHIN):
            while text not in self.texts:
                self.heard.clear()
                await self.heard.wait()

    async def until_shown(self, text: str) -> None:
        async with asyncio.timeout(WITHIN):
            while not any(text in line.reading for line in self.lines):
                self.heard.clear()
                await self.heard.wait()


@asynccontextmanager
async def following(host: Host, log: Path, position: FilePosition | None = None) -> AsyncIterator[Ear]:
    ear = Ear(position or FilePosition())
    task = asyncio.create_task(ear.listen(host, log))
    try:
        yield ear
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_what_is_there_and_what_comes(host: Host, log: Path) -> None:
    write(log, "one", "two")
    async with following(host, log) as ear:
        await ear.until("two")
        write(log, "three")
        await ear.until("three")
    assert ear.texts == ["one", "two", "three"]
    assert replace(ear.decoder.position, seen=0) == replace(await host.log_end(str(log)), seen=0)
    assert ear.decoder.malformed == 0


async def test_only_what_comes_after_the_end(host: Host, log: Path) -> None:
    write(log, "old")
    async with following(host, log, await host.log_end(str(log))) as ear:
        write(log, "new")
        await ear.until("new")
    assert ear.texts == ["new"]
    assert ear.lines[0].at is not None


async def test_a_renamed_file_is_read_to_its_end_before_the_new_one(host: Host, log: Path) -> None:
    write(log, "one")
    with log.open("a") as file:
        async with following(host, log) as ear:
            await ear.until("one")
            rename(log, "kimi.log.1")
            file.write("to the old file\n")
            file.flush()
            await ear.until("to the old file")
            write(log, "to the new file")
            await ear.until("to the new file")
    assert ear.texts == ["one", "to the old file", "to the new file"]


async def test_a_file_that_was_copied_and_cut_loses_nothing(host: Host, log: Path) -> None:
    first = "the first line of a file that is not short"
    write(log, first)
    async with following(host, log) as ear:
        await ear.until(first)
        write(log, "two", "three")  # between the last look and the cut
        shutil.copy(log, log.with_name("kimi.log.1"))
        put(log, "")
        write(log, "four")
        await ear.until("four")
    assert ear.texts == [first, "two", "three", "four"]


async def test_a_file_begun_anew_is_not_mixed_with_an_older_copy(host: Host, log: Path) -> None:
    write(log.with_name("kimi.log.1"), *(f"ancient {number}" for number in range(100)))
    write(log, "a first line", "a second line")
    position = replace(await host.log_end(str(log)), seen=4_000_000_000)
    put(log, "anew\n")
    async with following(host, log, position) as ear:
        await ear.until("anew")
    assert ear.texts == ["anew"]


async def test_rotated_twice_while_nobody_looked(host: Host, log: Path) -> None:
    write(log, "one")
    async with following(host, log) as ear:
        await ear.until("one")
    write(log, "two")
    rename(log, "kimi.log.2")
    write(log, "three")
    rename(log, "kimi.log.1")
    write(log, "four")
    async with following(host, log, ear.decoder.position) as later:
        await later.until("four")
    assert later.texts == ["two", "three", "four"]


async def test_a_file_that_is_gone_for_good_is_gone(host: Host, log: Path) -> None:
    write(log, "what there is")
    async with following(host, log, FilePosition(inode=1, offset=999, seen=1_700_000_000)) as ear:
        await ear.until("what there is")
    assert ear.texts == ["what there is"]
    assert ear.decoder.missed == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


async def test_a_file_that_was_cut_while_nobody_looked_has_lost_something(host: Host, log: Path) -> None:
    write(log, "a first line", "a second line")
    position = await host.log_end(str(log))
    put(log, "anew\n")
    for seen, lost in ((position.seen - 60, True), (position.seen, False)):
        async with following(host, log, replace(position, seen=seen)) as ear:
            await ear.until("anew")
            await asyncio.sleep(0)
        assert ear.texts == ["anew"]
        assert (ear.decoder.missed is not None) == lost


async def test_a_file_that_is_cut_while_it_is_followed_has_lost_nothing(host: Host, log: Path) -> None:
    write(log, "a first line that is not short")
    position = replace(await host.log_end(str(log)), offset=0, seen=1_700_000_000)
    async with following(host, log, position) as ear:
        await ear.until("a first line that is not short")
        put(log, "anew\n")
        await ear.until("anew")
    assert ear.decoder.missed is None


async def test_a_line_whose_end_has_not_come_is_read_again(host: Host, log: Path) -> None:
    put(log, "whole\nhalf a")
    async with following(host, log) as ear:
        await ear.until("whole")
    add(log, " line\n")
    async with following(host, log, ear.decoder.position) as later:
        await later.until("half a line")
    assert later.texts == ["half a line"]


async def test_a_bar_is_seen_while_it_is_drawn(host: Host, log: Path) -> None:
    put(log, "begin\n")
    async with following(host, log) as ear:
        await ear.until("begin")
        add(log, "\rLoading:  10% | 1/10 [00:01<00:09,  1.00s/it]")
        await ear.until_shown("1/10")
        add(log, "\rLoading: 100% | 10/10 [00:10<00:00,  1.00s/it]\n")
        await ear.until_shown("10/10")
    assert [line.partial for line in ear.lines] == [False, True, False]


async def test_a_file_that_comes_later_is_waited_for(host: Host, log: Path) -> None:
    assert await host.log_end(str(log)) == FilePosition()
    async with following(host, log) as ear:
        async with asyncio.timeout(WITHIN):
            await ear.heard.wait()
        write(log, "at last")
        await ear.until("at last")
    assert ear.texts == ["at last"]


async def test_the_end_of_a_long_file_begins_with_a_whole_line(host: Host, log: Path) -> None:
    write(log, *(f"line {number:05d}" for number in range(100_000)))
    ear = Ear(FilePosition(offset=95))
    async with aclosing(host.read_log(str(log), position=FilePosition(offset=95))) as stream:
        async for data in stream:
            ear.lines += ear.decoder.feed(data)
    assert ear.texts == [f"line {number:05d}" for number in range(99_992, 100_000)]
    whole = Ear(FilePosition())
    async with aclosing(host.read_log(str(log), position=FilePosition())) as stream:
        async for data in stream:
            whole.lines += whole.decoder.feed(data)
    assert len(whole.texts) == 100_000


async def test_a_file_that_is_not_there_is_named(host: Host, log: Path) -> None:
    with pytest.raises(HostError, match=r"no file .*kimi\.log; check the service's log_file"):
        async with aclosing(host.read_log(str(log), position=FilePosition())) as stream:
            [data async for data in stream]


async def test_what_is_no_file_may_not_be_read(host: Host, tmp_path: Path) -> None:
    with pytest.raises(PermissionRefused, match=r"kimi may not read .*setfacl"):
        await host.log_end(str(tmp_path))
    with pytest.raises(PermissionRefused):
        async with aclosing(host.follow_log(str(tmp_path), position=FilePosition())) as stream:
            [data async for data in stream]


async def test_a_path_is_no_word_of_a_shell(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "a log; touch 'b' $(touch c).log"
    write(log, "safe")
    async with following(host, log) as ear:
        await ear.until("safe")
    assert names(tmp_path) == {log.name, "keys"}


async def test_a_lost_link_is_an_error(server: SshServer, host: Host, log: Path) -> None:
    write(log, "one")
    async with aclosing(host.follow_log(str(log), position=FilePosition())) as stream:
        await anext(stream)
        server.cut()
        with pytest.raises(HostUnreachable):
            [data async for data in stream]

"""Unix sockets here that come out at the host."""

from __future__ import annotations

import asyncio
import stat
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from bot.errors import HostUnreachable
from tests.support.ssh import connect, serve
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@asynccontextmanager
async def echo_server() -> AsyncIterator[int]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            writer.write(b"said " + await reader.readline())

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(echo(reader, writer))
        heard.append(task)
        task.add_done_callback(lambda _: writer.close())

    heard: list[asyncio.Task[None]] = []
    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
    for task in heard:
        task.cancel()
    await asyncio.gather(*heard, return_exceptions=True)


async def say(path: Path, words: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(path))
    with suppress(ConnectionError):
        writer.write(words)
        await writer.drain()
    try:
        heard = await reader.read()
    except ConnectionError:
        heard = b""
    writer.close()
    return heard


async def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host, echo_server() as port:
        path = await host.tunnel("127.0.0.1", port)
        assert await say(path, b"hello\n") == b"said hello\n"
        assert await say(path, b"again\n") == b"said again\n"


async def test_it_is_kept_and_each_port_has_its_own(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host, echo_server() as port:
        first, second = await asyncio.gather(host.tunnel("127.0.0.1", port), host.tunnel("127.0.0.1", port))
        assert first == second
        assert await host.tunnel("127.0.0.1", port + 1) != first
        assert server.logins == 1


async def test_nobody_else_can_reach_it(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host, echo_server() as port:
        path = await host.tunnel("127.0.0.1", port)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_it_goes_on_after_the_link_was_lost(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host, echo_server() as port:
        path = await host.tunnel("127.0.0.1", port)
        connection = await host._link.connection()
        server.cut()
        await connection.wait_closed()
        assert await say(path, b"hello\n") == b"said hello\n"
        assert await host.tunnel("127.0.0.1", port) == path
        assert server.logins == 2


async def test_a_link_lost_midway_hangs_up(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host, echo_server() as port:
        reader, writer = await asyncio.open_unix_connection(str(await host.tunnel("127.0.0.1", port)))
        writer.write(b"half")
        await until(lambda: server.forwarded)
        server.cut()
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()


async def test_a_link_lost_at_the_moment_of_connecting_hangs_up(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host, echo_server() as port:
        path = await host.tunnel("127.0.0.1", port)
        await server.stop()
        async with asyncio.timeout(60):
            assert await say(path, b"hello\n") == b""


@pytest.mark.parametrize("turns", [1, 2, 3])
async def test_a_connection_just_accepted_ends_with_the_tunnel(tmp_path: Path, turns: int) -> None:
    async with serve(tmp_path) as server, connect(server) as host, echo_server() as port:
        reader, writer = await asyncio.open_unix_connection(str(await host.tunnel("127.0.0.1", port)))
        for _ in range(turns):  # of the loop: closed at each step of accepting
            await asyncio.sleep(0)
        await host.close()
        async with asyncio.timeout(60):
            with suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()
        assert server.logins == 1


async def test_much_in_both_directions(tmp_path: Path) -> None:
    async def mirror(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    content = bytes(range(256)) * 16_000
    far = await asyncio.start_server(mirror, "127.0.0.1", 0)
    async with far, serve(tmp_path) as server, connect(server) as host:
        path = await host.tunnel("127.0.0.1", far.sockets[0].getsockname()[1])
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(content)
        writer.write_eof()
        assert await reader.read() == content
        writer.close()


async def test_a_folder_that_was_swept_away(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host, echo_server() as port:
        path = await host.tunnel("127.0.0.1", port)
        path.unlink()
        path.parent.rmdir()
        assert await say(await host.tunnel("127.0.0.1", port), b"x\n") == b"said x\n"


async def test_nobody_listens_there(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        assert await say(await host.tunnel("127.0.0.1", 1), b"hello\n") == b""


async def test_closing_leaves_nothing(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host, echo_server() as port:
        path = await host.tunnel("127.0.0.1", port)
        await host.close()
        await host.close()
        assert not path.parent.exists()
        assert await say(await host.tunnel("127.0.0.1", port), b"x\n") == b"said x\n"


async def test_a_host_that_is_gone(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        await server.stop()
        with pytest.raises(HostUnreachable):
            await host.tunnel("127.0.0.1", 1)


@pytest.mark.parametrize("first_half", [True, False])
async def test_who_has_gone_leaves_nothing_open_at_an_engine_that_hangs(
    tmp_path: Path, *, first_half: bool
) -> None:
    """A hung engine closes nothing by itself, and is probed for hours."""
    held: list[asyncio.StreamWriter] = []

    async def hang_on(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    far = await asyncio.start_server(hang_on, "127.0.0.1", 0)
    async with far, serve(tmp_path) as server, connect(server) as host:
        path = await host.tunnel("127.0.0.1", far.sockets[0].getsockname()[1])
        _, writer = await asyncio.open_unix_connection(str(path))
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await until(lambda: held)
        assert host._tunnels._carrying
        if first_half:
            writer.write_eof()
            await asyncio.sleep(0.1)
            assert host._tunnels._carrying, "an answer may still come"
        writer.close()
        await until(lambda: not host._tunnels._carrying)
        for each in held:
            each.close()

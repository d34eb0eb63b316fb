"""Unix sockets here that come out at the host."""

from __future__ import annotations

import asyncio
import stat
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from bot.errors import HostUnreachable
from tests.support.ssh import connect, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@asynccontextmanager
async def echo_server() -> AsyncIterator[int]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"said " + await reader.readline())
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def say(path: Path, words: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(words)
    heard = await reader.read()
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


async def test_it_is_opened_anew_after_the_connection_was(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host, echo_server() as port:
        first = await host.tunnel("127.0.0.1", port)
        connection = await host._link.connection()
        server.cut()
        await connection.wait_closed()
        second = await host.tunnel("127.0.0.1", port)
        assert second != first
        assert not first.exists()
        assert await say(second, b"hello\n") == b"said hello\n"


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

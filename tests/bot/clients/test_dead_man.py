"""Pings to a real server; the address stands in no log."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web
from structlog.testing import capture_logs

from bot.clients.dead_man import DeadMan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PATH = "/ping/hush-hush-4711"


@asynccontextmanager
async def switch(statuses: list[int]) -> AsyncIterator[str]:
    """Answers each ping with the next status; its address."""
    heard = iter(statuses)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=next(heard))

    app = web.Application()
    app.add_routes([web.get(PATH, answer)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}{PATH}"
    finally:
        await runner.cleanup()


async def test_a_ping_that_fails_is_told_once_until_one_succeeds() -> None:
    async with switch([200, 500, 404, 204, 503]) as url:
        dead_man = DeadMan(url)
        with capture_logs() as logs:
            answers = [await dead_man.ping() for _ in range(5)]
        await dead_man.close()
    assert answers == [True, False, False, True, False]
    assert dead_man.counts == {"answered": 2, "failed": 3}
    assert [fact["event"] for fact in logs] == [
        "dead_man_not_reached",
        "dead_man_reached_again",
        "dead_man_not_reached",
    ]


async def test_nobody_there_is_a_failure_whose_log_does_not_hold_the_address() -> None:
    dead_man = DeadMan("http://127.0.0.1:9/hush-hush-4711")
    with capture_logs() as logs:
        assert await dead_man.ping() is False
    await dead_man.close()
    [fact] = logs
    assert fact["problem"] == "ConnectError"
    assert "hush" not in str(logs)
    assert "127.0.0.1" not in str(logs)


async def test_what_was_never_used_may_be_closed() -> None:
    await DeadMan("http://127.0.0.1:9/").close()


async def test_an_answer_without_an_end_is_an_answer() -> None:
    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        with contextlib.suppress(OSError):
            while True:
                writer.write(bytes(1 << 16))
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(hear, "127.0.0.1", 0) as server:
        dead_man = DeadMan(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{PATH}")
        assert await dead_man.ping() is True
        await dead_man.close()


async def test_an_address_that_cannot_be_asked_is_a_failure() -> None:
    dead_man = DeadMan("http://xn--/")
    assert await dead_man.ping() is False
    await dead_man.close()

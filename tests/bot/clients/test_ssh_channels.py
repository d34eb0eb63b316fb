"""Channels whose opener went away leave nothing on the host, at whatever step that was."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.support.ssh import Said, connect, hang, serve
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

ECHO = ("echo", "x")
TURNS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20)  # of the loop


@pytest.mark.parametrize("turns", TURNS)
async def test_a_session_that_nobody_waits_for_is_closed(tmp_path: Path, turns: int) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers |= {"echo": Said("x\n"), "follow": hang}
        await host.run(ECHO)
        opening = asyncio.create_task(host._link.open(("follow",)))
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait({opening})
        if not opening.cancelled():
            opening.result().hang_up()  # it stood already
        await host.run(ECHO)  # the host has heard all that was said before
        await until(lambda: server.sessions == [0])
        [line] = host._link._lines._lines
        await until(lambda: line.idle and not line.standing)
        assert server.logins == 1


@pytest.mark.parametrize("turns", TURNS)
async def test_a_way_that_nobody_waits_for_is_closed(tmp_path: Path, turns: int) -> None:
    here = 0

    async def stay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal here
        here += 1
        await reader.read()
        here -= 1
        writer.close()

    async with (
        await asyncio.start_server(stay, "127.0.0.1", 0) as engine,
        serve(tmp_path) as server,
        connect(server) as host,
    ):
        server.answers["echo"] = Said("x\n")
        await host.run(ECHO)
        port = engine.sockets[0].getsockname()[1]
        knocking = asyncio.create_task(host.knock("127.0.0.1", port))
        for _ in range(turns):
            await asyncio.sleep(0)
        knocking.cancel()
        await asyncio.wait({knocking})
        await host.run(ECHO)
        connection = await host._link.connection()
        await until(lambda: not here and not connection._channels)


async def test_an_order_that_was_given_up_before_its_session_stood_is_never_sent(tmp_path: Path) -> None:
    """Else it would go out after everybody was told that it had not."""
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1

    async with serve(tmp_path) as server, connect(server) as host:
        server.answers |= {"echo": Said("x\n"), "order": Said()}
        await host.run(ECHO)
        order = asyncio.create_task(host._link.run(("order",), check=check))
        for _ in range(3):
            await asyncio.sleep(0)
        order.cancel()
        await asyncio.wait({order})
        await host.run(ECHO)
        await until(lambda: server.sessions == [0])
        assert asked == len([command for command in server.commands if command == ["order"]]) == 0

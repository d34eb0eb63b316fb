"""The last look before a call goes out: a lease that ended meanwhile keeps every byte back."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from bot.clients.slack_calls import call, connect_slack
from bot.clients.slack_session import assure, open_session, speak_while
from bot.errors import OwnershipLost
from tests.support.outbox import open_slack, until
from tests.support.outgoing import CHANNEL

METHOD = "chat.postMessage"


class Lease:
    """Ours for so many looks."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def assure(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OwnershipLost("over")


async def test_who_holds_no_lease_may_always_speak() -> None:
    assure()
    async with open_slack() as slack, open_session(timeout=5) as session:
        web = connect_slack(slack.bot_token, slack.api_url)
        web.session = session
        await call(web, METHOD, {"channel": CHANNEL, "text": "hello"})
        assert len(slack.calls) == 1


@pytest.mark.parametrize("looks", [0, 1, 2])
async def test_each_call_looks_before_it_connects_and_once_the_connection_stands(looks: int) -> None:
    heard, ended = 0, 0

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard, ended
        heard += len(await reader.read(1))
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        ended += 1

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    web = connect_slack("xoxb", f"http://127.0.0.1:{port}/")
    async with server, open_session(timeout=5) as session:
        web.session = session
        speak_while(Lease(looks).assure)
        with pytest.raises(OwnershipLost) if looks < 2 else contextlib.suppress(Exception):
            await call(web, METHOD, {"channel": CHANNEL, "text": "hello"})
        await until(lambda: ended == (looks > 0))
    assert heard == (looks == 2)


async def test_what_one_task_may_not_say_another_may() -> None:
    async def speak(looks: int) -> None:
        speak_while(Lease(looks).assure)
        await asyncio.sleep(0)
        assure()

    lost, kept = await asyncio.gather(
        asyncio.create_task(speak(0)), asyncio.create_task(speak(1)), return_exceptions=True
    )
    assert isinstance(lost, OwnershipLost)
    assert kept is None


async def test_no_connection_is_used_twice() -> None:
    ports = set()
    writers = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writers.append(writer)
        ports.add(writer.get_extra_info("peername")[1])
        writer.write(
            b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{"ok": true}'
        )
        await writer.drain()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server, open_session(timeout=5) as session:
        for _ in range(3):
            async with session.get(url) as response:
                await response.read()
        for writer in writers:
            writer.close()
            await writer.wait_closed()
    assert len(ports) == 3

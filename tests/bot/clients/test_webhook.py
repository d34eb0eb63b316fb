"""Other tools are told: signed so that they can check it; what they answer says whether to try again."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import re
import socket
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from bot.clients.store_incidents import Delivery
from bot.clients.webhook import DELIVERY, EVENT, SIGNATURE, TIMESTAMP, Answered, Webhook, sign

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT = Path(__file__).parents[3]
SECRET = "shared-with-the-listener"
PAYLOAD = {"id": "abc-1", "event": "opened", "text": "Käse ist weg"}
TOLD = Delivery(
    id="abc-1", event="opened", body=json.dumps(PAYLOAD, ensure_ascii=False), ordered=datetime.now(UTC)
)


@asynccontextmanager
async def listener(statuses: list[int]) -> AsyncIterator[tuple[str, list[Any]]]:
    """Its address, and what it heard: headers and body."""
    heard: list[Any] = []
    answers = iter(statuses)

    async def hear(request: web.Request) -> web.Response:
        heard.append((dict(request.headers), await request.read()))
        return web.Response(status=next(answers))

    app = web.Application()
    app.add_routes([web.post("/hook", hear)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/hook", heard
    finally:
        await runner.cleanup()


async def test_the_raw_body_is_signed_with_its_time() -> None:
    async with listener([204]) as (url, heard):
        webhook = Webhook(url, SECRET)
        assert await webhook.send(TOLD) == Answered("delivered")
        await webhook.close()
    [(headers, body)] = heard
    told = headers[TIMESTAMP].encode() + b"." + body
    assert headers[SIGNATURE] == "sha256=" + hmac.new(SECRET.encode(), told, hashlib.sha256).hexdigest()
    assert headers[SIGNATURE] == sign(SECRET, headers[TIMESTAMP], body)
    assert (headers[EVENT], headers[DELIVERY]) == ("opened", "abc-1")
    assert json.loads(body) == PAYLOAD


async def test_the_check_in_the_operators_guide_believes_it_and_nothing_else() -> None:
    guide = (ROOT / "docs" / "operators.md").read_text()
    [example] = re.findall(r"```python\n((?:(?!```).)*def is_from_kimi.*?)```", guide, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)  # noqa: S102 - ours
    async with listener([204]) as (url, heard):
        webhook = Webhook(url, SECRET)
        await webhook.send(TOLD)
        await webhook.close()
    [(headers, body)] = heard
    check = names["is_from_kimi"]
    assert check(SECRET, headers, body)
    assert not check("another", headers, body)
    assert not check(SECRET, headers, body + b" ")
    assert not check(SECRET, headers | {TIMESTAMP: str(int(headers[TIMESTAMP]) - 600)}, body)


async def test_without_a_secret_nothing_is_signed() -> None:
    async with listener([200]) as (url, heard):
        webhook = Webhook(url, None)
        assert await webhook.send(TOLD) == Answered("delivered")
        await webhook.close()
    [(headers, _)] = heard
    assert SIGNATURE not in headers


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(500, "failed"), (429, "failed"), (404, "failed"), (302, "failed"), (400, "refused"), (422, "refused")],
)
async def test_what_may_come_right_is_told_from_what_never_will(status: int, outcome: str) -> None:
    async with listener([status]) as (url, _):
        webhook = Webhook(url, SECRET)
        answered = await webhook.send(TOLD)
        await webhook.close()
    assert (answered.outcome, answered.problem) == (outcome, f"HTTP {status}")


async def test_a_listener_that_hangs_is_given_up_after_a_while() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        webhook = Webhook(f"http://127.0.0.1:{silent.getsockname()[1]}/hook", SECRET, within=0.2)
        assert (await webhook.send(TOLD)).outcome == "failed"
        await webhook.close()


async def test_an_answer_without_an_end_is_an_answer() -> None:
    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(TOLD.body.encode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        with contextlib.suppress(OSError):
            while True:
                writer.write(bytes(1 << 16))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    async with server:
        webhook = Webhook(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook", SECRET)
        assert await webhook.send(TOLD) == Answered("delivered")
        await webhook.close()


@pytest.mark.parametrize(
    "url", ["http://xn--/hook", "http://127.0.0.1:9/\n", "http://127.0.0.1:9/" + "a" * 70_000]
)
async def test_an_address_that_cannot_be_asked_has_failed(url: str) -> None:
    webhook = Webhook(url, SECRET)
    answered = await webhook.send(TOLD)
    await webhook.close()
    assert answered.outcome == "failed"


async def test_neither_the_address_nor_the_secret_is_told() -> None:
    webhook = Webhook("http://127.0.0.1:9/hush", SECRET)
    answered = await webhook.send(TOLD)
    await webhook.close()
    assert answered.outcome == "failed"
    assert "hush" not in answered.problem
    assert SECRET not in answered.problem

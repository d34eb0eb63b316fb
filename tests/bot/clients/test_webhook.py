"""Other tools are told: signed so that they can check it, again where it may come right, never for ever."""

from __future__ import annotations

import hashlib
import hmac
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web
from structlog.testing import capture_logs

from bot.clients.webhook import EVENT, SIGNATURE, TIMESTAMP, Webhook, sign

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SECRET = "shared-with-the-listener"
PAYLOAD = {"id": "abc-1", "event": "opened", "text": "Käse ist weg"}


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
        assert await webhook.send(PAYLOAD) is True
        await webhook.close()
    [(headers, body)] = heard
    told = headers[TIMESTAMP].encode() + b"." + body
    assert headers[SIGNATURE] == "sha256=" + hmac.new(SECRET.encode(), told, hashlib.sha256).hexdigest()
    assert headers[SIGNATURE] == sign(SECRET, headers[TIMESTAMP], body)
    assert headers[EVENT] == "opened"
    assert json.loads(body) == PAYLOAD


async def test_without_a_secret_nothing_is_signed() -> None:
    async with listener([200]) as (url, heard):
        webhook = Webhook(url, None)
        assert await webhook.send(PAYLOAD) is True
        await webhook.close()
    assert SIGNATURE not in heard[0][0]


async def test_what_may_come_right_is_tried_again_with_the_same_id() -> None:
    async with listener([503, 429, 200]) as (url, heard):
        webhook = Webhook(url, SECRET, pauses=(0.0, 0.0))
        assert await webhook.send(PAYLOAD) is True
        await webhook.close()
    assert [json.loads(body)["id"] for _, body in heard] == ["abc-1"] * 3
    assert webhook.counts == {"delivered": 1}


async def test_what_is_refused_or_never_comes_right_is_given_up_and_logged_without_the_address() -> None:
    async with listener([400, 500, 500]) as (url, heard):
        webhook = Webhook(url, SECRET, pauses=(0.0,))
        with capture_logs() as logs:
            assert await webhook.send(PAYLOAD) is False
            assert len(heard) == 1
            assert await webhook.send(PAYLOAD) is False
            assert len(heard) == 3
        await webhook.close()
    assert [fact["problem"] for fact in logs] == ["HTTP 400", "HTTP 500"]
    assert "/hook" not in str(logs)
    assert webhook.counts == {"failed": 2}


async def test_nobody_there_is_a_failure() -> None:
    webhook = Webhook("http://127.0.0.1:9/hush", SECRET, pauses=())
    with capture_logs() as logs:
        assert await webhook.send(PAYLOAD) is False
    await webhook.close()
    assert "hush" not in str(logs)

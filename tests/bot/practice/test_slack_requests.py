"""Requests over HTTP, signed as Slack signs them."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response, to_bolt_request
from slack_sdk.signature import SignatureVerifier

from bot.practice.slack_requests import read_answer, sign, write_body
from bot.practice.slack_socket import Envelope
from tests.support.slack_app import ALICE, OPS, bolt_app, practice_slack, web_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from slack_bolt.async_app import AsyncApp


@asynccontextmanager
async def serving(handler: Any) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_post("/slack/events", handler)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/slack/events"
    finally:
        await runner.cleanup()


def through(app: AsyncApp) -> Any:
    async def handle(request: web.Request) -> web.Response:
        return await to_aiohttp_response(await app.async_dispatch(await to_bolt_request(request)))

    return handle


async def test_a_bolt_app_behind_a_request_url_hears_everything() -> None:
    async with practice_slack() as slack:
        app = bolt_app(slack)
        heard: list[str] = []

        @app.command("/kimi")
        async def _kimi(ack: Any, command: dict[str, str]) -> None:
            heard.append(command["text"])
            await ack("hello & <good> day")

        @app.event("app_mention")
        async def _mention(event: dict[str, Any]) -> None:
            heard.append(event["text"])

        @app.action("go")
        async def _go(ack: Any) -> None:
            await ack()
            heard.append("pressed")

        button = {"type": "button", "action_id": "go", "text": {"type": "plain_text", "text": "Go"}}
        async with serving(through(app)) as url:
            assert await slack.use_request_url(url).verify()
            outcome = await slack.slash(ALICE, OPS, "status a&b")
            assert outcome.response == {"text": "hello & <good> day"}
            assert (await slack.mention(ALICE, OPS, "help")).acknowledged
            blocks = [{"type": "actions", "elements": [button]}]
            ts = (await web_client(slack).chat_postMessage(channel=OPS, text="x", blocks=blocks))["ts"]
            assert (await slack.press(ALICE, OPS, ts, "go")).acknowledged
            await slack.wait_for(lambda _s: len(heard) == 3, 60)
        assert heard == ["status a&amp;b", "<@U0KIMIBOT> help", "pressed"]


async def test_a_wrong_signature_is_not_heard() -> None:
    async with practice_slack() as slack:
        app = bolt_app(slack)
        async with serving(through(app)) as url:
            slack.signing_secret = "another"
            slack.use_request_url(url)
            assert (await slack.slash(ALICE, OPS, "status")).error == "dispatch_failed"


async def test_an_app_that_is_slow_or_gone() -> None:
    async with practice_slack(ack_timeout=0.1) as slack:

        async def hang(_request: web.Request) -> web.Response:
            await asyncio.sleep(5)
            return web.Response()

        async with serving(hang) as url:
            slack.use_request_url(url)
            assert (await slack.slash(ALICE, OPS, "status")).error == "operation_timeout"
        assert (await slack.slash(ALICE, OPS, "status")).error == "dispatch_failed"


async def test_an_unacknowledged_event_is_told_again_with_its_number() -> None:
    async with practice_slack() as slack:
        numbers: list[str | None] = []

        async def refuse_once(request: web.Request) -> web.Response:
            numbers.append(request.headers.get("X-Slack-Retry-Num"))
            return web.Response(status=500 if len(numbers) == 1 else 200)

        async with serving(refuse_once) as url:
            slack.use_request_url(url)
            assert (await slack.mention(ALICE, OPS, "help")).acknowledged
        assert numbers == [None, "1"]


def test_the_signature_is_the_one_the_sdk_verifies() -> None:
    body = "payload=%7B%7D"
    verifier = SignatureVerifier("secret")
    assert sign("secret", 1_700_000_000, body.encode()) == verifier.generate_signature(
        timestamp="1700000000", body=body
    )


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [
        ("slash_commands", "application/x-www-form-urlencoded"),
        ("interactive", "application/x-www-form-urlencoded"),
        ("events_api", "application/json"),
    ],
)
def test_each_kind_has_its_body(kind: str, content_type: str) -> None:
    body, sent = write_body(Envelope(kind, {"a": "b c"}))
    assert sent == content_type
    expected = {
        "slash_commands": b"a=b+c",
        "interactive": b"payload=%7B%22a%22%3A+%22b+c%22%7D",
        "events_api": json.dumps({"a": "b c"}).encode(),
    }
    assert body == expected[kind]


def test_an_answer_is_nothing_text_or_json() -> None:
    assert read_answer("", "text/plain") is None
    assert read_answer("hi", "text/plain") == {"text": "hi"}
    assert read_answer('{"text": "hi"}', "application/json") == {"text": "hi"}
    assert read_answer("[]", "application/json") is None

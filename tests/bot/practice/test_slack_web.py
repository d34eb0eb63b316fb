"""The Web API over real HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError

from bot.practice.slack_rates import Rate
from bot.practice.slack_state import Refusal
from tests.support.slack_app import OPS, practice_slack, web_client


async def refusal(call: Any) -> str:
    with pytest.raises(SlackApiError) as error:
        await call
    return str(error.value.response["error"])


async def test_a_method_slack_does_not_have() -> None:
    async with practice_slack() as slack:
        assert await refusal(web_client(slack).api_call("bookmarks.add")) == "unknown_method"
        assert slack.refusals == [Refusal("bookmarks.add", "unknown_method", "req_method=bookmarks.add")]


async def test_tokens_are_checked() -> None:
    async with practice_slack() as slack:
        assert await refusal(web_client(slack, "xoxb-other").auth_test()) == "invalid_auth"
        assert await refusal(web_client(slack, slack.app_token).auth_test()) == "not_allowed_token_type"
        opening = web_client(slack).apps_connections_open(app_token=slack.bot_token)
        assert await refusal(opening) == "not_allowed_token_type"
        async with aiohttp.ClientSession() as session, session.post(f"{slack.api_url}auth.test") as response:
            assert await response.json() == {"ok": False, "error": "not_authed"}


async def test_a_scope_that_was_not_granted() -> None:
    async with practice_slack(scopes={"users:read"}) as slack:
        with pytest.raises(SlackApiError) as error:
            await web_client(slack).chat_postMessage(channel=OPS, text="x")
        assert error.value.response["error"] == "missing_scope"
        assert error.value.response["needed"] == "chat:write"
        assert (await web_client(slack).auth_test()).headers["x-oauth-scopes"] == "users:read"


async def test_who_the_token_belongs_to() -> None:
    async with practice_slack() as slack:
        answer = await web_client(slack).auth_test()
        assert (answer["user_id"], answer["team_id"], answer["bot_id"]) == (
            "U0KIMIBOT",
            "T0PRACTICE",
            "B0KIMI",
        )


async def test_the_sixth_message_at_once_is_told_to_wait() -> None:
    async with practice_slack() as slack:
        client = web_client(slack)
        for number in range(5):
            await client.chat_postMessage(channel=OPS, text=str(number))
        with pytest.raises(SlackApiError) as error:
            await client.chat_postMessage(channel=OPS, text="too soon")
        assert error.value.response.status_code == 429
        assert error.value.response["error"] == "ratelimited"
        assert error.value.response.headers["Retry-After"] == "1"
        assert slack.refusals[-1].error == "ratelimited"
        assert len(slack.channel_messages(OPS)) == 5


async def test_rates_may_be_set() -> None:
    async with practice_slack(rates={"chat.update": Rate(60, 1)}) as slack:
        client = web_client(slack)
        ts = (await client.chat_postMessage(channel=OPS, text="x"))["ts"]
        await client.chat_update(channel=OPS, ts=ts, text="y")
        assert await refusal(client.chat_update(channel=OPS, ts=ts, text="z")) == "ratelimited"


async def test_a_reset_after_acceptance_leaves_the_message_there() -> None:
    async with practice_slack() as slack:
        slack.faults.add("chat.postMessage", slack.faults.reset_after_accept())
        with pytest.raises(aiohttp.ClientError):
            await web_client(slack).chat_postMessage(channel=OPS, text="once")
        assert [message.text for message in slack.channel_messages(OPS)] == ["once"]
        assert slack.refusals == []


async def test_a_reset_before_acceptance_leaves_nothing() -> None:
    async with practice_slack() as slack:
        slack.faults.add("chat.postMessage", slack.faults.reset_before_accept())
        with pytest.raises(aiohttp.ClientError):
            await web_client(slack).chat_postMessage(channel=OPS, text="lost")
        assert slack.channel_messages(OPS) == []


@pytest.mark.parametrize("accept", [True, False])
async def test_an_error_may_hide_an_accepted_message(accept: bool) -> None:
    async with practice_slack() as slack:
        slack.faults.add("chat.postMessage", slack.faults.error("internal_error", accept=accept))
        assert await refusal(web_client(slack).chat_postMessage(channel=OPS, text="x")) == "internal_error"
        assert len(slack.channel_messages(OPS)) == int(accept)
        assert slack.refusals == []


@pytest.mark.parametrize("http_ok", [True, False])
async def test_an_ordered_rate_limit(http_ok: bool) -> None:
    async with practice_slack() as slack:
        slack.faults.add("chat.postMessage", slack.faults.rate_limited(7, http_ok=http_ok))
        with pytest.raises(SlackApiError) as error:
            await web_client(slack).chat_postMessage(channel=OPS, text="x")
        assert error.value.response.status_code == (200 if http_ok else 429)
        assert error.value.response.headers["Retry-After"] == "7"
        assert slack.channel_messages(OPS) == []


async def test_a_status_from_something_in_front() -> None:
    async with practice_slack() as slack:
        slack.faults.add("*", slack.faults.status(503), times=None)
        async with aiohttp.ClientSession() as session:
            for _ in range(2):
                async with session.get(f"{slack.api_url}auth.test") as response:
                    assert (response.status, response.content_type) == (503, "text/html")
        slack.faults.clear()
        assert (await web_client(slack).auth_test())["ok"]


@pytest.mark.parametrize("accept", [True, False])
async def test_a_hang_outlasts_the_clients_patience(accept: bool) -> None:
    async with practice_slack() as slack:
        client = web_client(slack)
        slack.faults.add("chat.postMessage", slack.faults.hang(30, accept=accept))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.chat_postMessage(channel=OPS, text="x"), 0.2)
        assert len(slack.channel_messages(OPS)) == int(accept)


async def test_a_hang_that_ends_answers() -> None:
    async with practice_slack() as slack:
        slack.faults.add("auth.test", slack.faults.hang(0.01))
        assert (await web_client(slack).auth_test())["ok"]

"""Whose the tokens are, and what they are good for."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bot.clients.slack_account import Account, look_up_account, open_socket
from bot.clients.slack_calls import connect_slack
from bot.errors import SlackBusy, SlackRefused, SlackUncertain, SlackUnreachable
from bot.practice.slack_state import BOT_SCOPES
from tests.support.slack_app import practice_slack


async def test_the_bot_token_has_a_user_a_team_and_scopes() -> None:
    async with practice_slack() as slack:
        account = await look_up_account(connect_slack(slack.bot_token, slack.api_url))
    assert account.user
    assert account.team
    assert account.scopes == BOT_SCOPES


async def test_scopes_that_were_not_granted_are_not_listed() -> None:
    async with practice_slack(scopes=("chat:write", "commands")) as slack:
        account = await look_up_account(connect_slack(slack.bot_token, slack.api_url))
    assert account.scopes == frozenset({"chat:write", "commands"})


async def test_where_nothing_tells_the_scopes_they_are_unknown() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"ok": True, "user": "kimi", "team": "T"})

    bare = web.Application()
    bare.router.add_route("*", "/api/auth.test", answer)
    async with TestServer(bare) as server:
        account = await look_up_account(connect_slack("xoxb-1", str(server.make_url("/api/"))))
    assert account == Account("kimi", "T", None)


async def test_a_token_of_another_is_refused() -> None:
    async with practice_slack() as slack:
        with pytest.raises(SlackRefused, match="invalid_auth") as caught:
            await look_up_account(connect_slack("xoxb-of-another", slack.api_url))
    assert caught.value.method == "auth.test"


async def test_an_app_token_opens_a_socket_and_another_does_not() -> None:
    async with practice_slack() as slack:
        client = connect_slack(slack.bot_token, slack.api_url)
        assert (await open_socket(client, slack.app_token)).startswith("ws")
        with pytest.raises(SlackRefused) as caught:
            await open_socket(client, "xapp-of-another")
    assert caught.value.method == "apps.connections.open"


async def test_slack_s_troubles_are_told_apart() -> None:
    async with practice_slack() as slack:
        client = connect_slack(slack.bot_token, slack.api_url)
        slack.faults.add("auth.test", slack.faults.rate_limited(7))
        with pytest.raises(SlackBusy) as caught:
            await look_up_account(client)
        assert caught.value.retry_after == 7
        slack.faults.add("apps.connections.open", slack.faults.status(503))
        with pytest.raises(SlackUncertain):
            await open_socket(client, slack.app_token)
    with pytest.raises(SlackUnreachable):
        await look_up_account(client)

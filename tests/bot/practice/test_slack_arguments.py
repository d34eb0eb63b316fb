"""Arguments of the Web API, however they were sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import aiohttp
import pytest

from bot.practice.slack_arguments import Arguments
from bot.practice.slack_state import Refused
from tests.support.slack_app import OPS, practice_slack

if TYPE_CHECKING:
    from bot.practice.slack import PracticeSlack

BLOCKS = [{"type": "divider"}]
JSON = "application/json;charset=utf-8"


async def test_every_way_a_call_may_come_is_read_alike() -> None:
    async with practice_slack(rates={}) as slack, aiohttp.ClientSession() as session:
        url = f"{slack.api_url}chat.postMessage"
        header = {"Authorization": f"Bearer {slack.bot_token}"}
        form = {"channel": OPS, "text": "hi", "blocks": json.dumps(BLOCKS)}
        sent = [
            session.get(url, params=form, headers=header),
            session.post(url, params=form, headers=header),
            session.post(url, data=form, headers=header),
            session.post(url, data={**form, "token": slack.bot_token}),
            session.post(url, json={**form, "blocks": BLOCKS}, headers={**header, "Content-Type": JSON}),
        ]
        for request in sent:
            async with request as response:
                assert (await response.json())["ok"] is True
        assert {message.text for message in slack.channel_messages(OPS)} == {"hi"}
        assert [message.blocks[0]["type"] for message in slack.channel_messages(OPS)] == ["divider"] * 5


@pytest.mark.parametrize(
    ("body", "error"),
    [("{", "invalid_json"), ("[]", "json_not_object")],
)
async def test_broken_json_is_refused(body: str, error: str) -> None:
    async with practice_slack() as slack:
        assert await post(slack, body) == error


async def post(slack: PracticeSlack, body: str) -> str:
    header = {"Authorization": f"Bearer {slack.bot_token}", "Content-Type": JSON}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{slack.api_url}chat.postMessage", data=body, headers=header) as response,
    ):
        return str((await response.json())["error"])


async def test_the_token_shows_up_in_no_record() -> None:
    async with practice_slack() as slack, aiohttp.ClientSession() as session:
        async with session.post(f"{slack.api_url}auth.test", data={"token": slack.bot_token}) as response:
            assert (await response.json())["ok"] is True
        assert slack.calls[0].arguments == {}


def test_flags_are_read_from_forms_and_json() -> None:
    call = Arguments({"a": "1", "b": "true", "c": True, "d": "0", "e": "false", "f": False})
    assert [call.flag(name) for name in "abcdef"] == [True, True, True, False, False, False]
    assert call.flag("g", default=True) is True


def test_a_needed_argument_is_named() -> None:
    with pytest.raises(Refused) as refusal:
        Arguments({"channel": None}).needed("channel")
    assert refusal.value.body() == {
        "ok": False,
        "error": "invalid_arguments",
        "response_metadata": {"messages": ["[ERROR] missing required field: channel"]},
    }


def test_structures_come_as_objects_or_as_text() -> None:
    call = Arguments({"a": {"x": 1}, "b": '{"x": 1}', "c": "", "d": "{"})
    assert call.structure("a", broken="no") == call.structure("b", broken="no") == {"x": 1}
    assert call.structure("c", broken="no") is None
    with pytest.raises(Refused, match="invalid_blocks_format"):
        call.structure("d", broken="invalid_blocks_format")


def test_numbers_are_numbers() -> None:
    assert Arguments({"limit": "5"}).number("limit", 100) == 5
    with pytest.raises(Refused, match="invalid_arguments"):
        Arguments({"limit": "many"}).number("limit", 100)

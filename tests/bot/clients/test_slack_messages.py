"""Messages as Slack takes them: tagged for reading back, shortened in words, found again."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.clients.slack_calls import connect_slack
from bot.clients.slack_messages import (
    CLOCK_SKEW,
    NEWEST_PAGES,
    plain,
    post,
    read_back,
    shorten,
    update,
)
from bot.clients.store_queue import new_attempt
from tests.support.outbox import open_slack
from tests.support.outgoing import CHANNEL, edit, reply, root

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bot.practice.slack import PracticeSlack


@pytest_asyncio.fixture
async def slack() -> AsyncIterator[PracticeSlack]:
    async with open_slack() as slack:
        yield slack


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=400), st.integers(80, 300))
def test_shortening_holds_its_limit_and_tells_what_is_missing(text: str, limit: int) -> None:
    short = shorten(text, limit=limit)
    assert len(short.encode()) <= limit
    if short != text:
        kept, _, note = short.rpartition("\n… ")
        assert text.startswith(kept)
        assert note == f"{len(text) - len(kept)} more characters are left out."
    else:
        assert len(text.encode()) <= limit


@pytest.mark.parametrize("text", ["", "  \n"])
def test_plain_is_never_empty(text: str) -> None:
    assert plain(reply(1, text=text, blocks=())).text


async def test_a_message_names_itself_and_nothing_else(slack: PracticeSlack) -> None:
    web = connect_slack(slack.bot_token, slack.api_url)
    await post(web, root(), None)
    (message,) = slack.channel_messages(CHANNEL)
    assert message.metadata == {
        "event_type": "kimi_message",
        "event_payload": {"operation": "op1", "id": "op1:root"},
    }


async def test_the_same_message_has_the_same_client_id(slack: PracticeSlack) -> None:
    web = connect_slack(slack.bot_token, slack.api_url)
    for message in (root(), root(), reply(1)):
        await post(web, message, None)
    one, same, other = (call.arguments["client_msg_id"] for call in slack.calls)
    assert one == same != other


async def test_a_root_is_found_in_the_channel_and_a_reply_in_its_thread(slack: PracticeSlack) -> None:
    web = connect_slack(slack.bot_token, slack.api_url)
    at = await post(web, root(), None)
    answer = await post(web, reply(1), at.ts)
    attempt = new_attempt(root())
    assert await read_back(web, root(), attempt, channel=CHANNEL, thread_ts=None) == at.ts
    assert await read_back(web, reply(1), attempt, channel=CHANNEL, thread_ts=at.ts) == answer.ts
    assert await read_back(web, reply(2), attempt, channel=CHANNEL, thread_ts=at.ts) is None


async def test_what_is_older_than_the_attempt_is_not_read(slack: PracticeSlack) -> None:
    web = connect_slack(slack.bot_token, slack.api_url)
    attempt = new_attempt(root())
    assert await read_back(web, root(), attempt, channel=CHANNEL, thread_ts=None) is None
    [asked] = [call.arguments for call in slack.calls if call.method == "conversations.history"]
    assert float(asked["oldest"]) == pytest.approx((attempt.at - CLOCK_SKEW).timestamp())


@pytest.mark.parametrize("whose", ["of who made the attempt", "of who looks"])
async def test_a_clock_that_is_ahead_of_slack_s_hides_nothing(
    slack: PracticeSlack, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    web = connect_slack(slack.bot_token, slack.api_url)
    at = await post(web, root(), None)
    answer = await post(web, reply(1), at.ts)
    attempt = new_attempt(root())
    ahead = attempt.at + timedelta(hours=1)
    attempt = attempt.model_copy(update={"at": ahead})
    if whose == "of who looks":
        monkeypatch.setattr("bot.clients.slack_messages.datetime", Mock(now=lambda _: ahead))
    assert await read_back(web, root(), attempt, channel=CHANNEL, thread_ts=None) == at.ts
    assert await read_back(web, reply(1), attempt, channel=CHANNEL, thread_ts=at.ts) == answer.ts
    assert await read_back(web, reply(2), attempt, channel=CHANNEL, thread_ts=at.ts) is None


async def test_without_a_clock_to_go_by_a_channel_is_not_read_to_its_beginning(
    slack: PracticeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.clients.slack_messages.PAGE", 2)
    web = connect_slack(slack.bot_token, slack.api_url)
    for number in range(20):
        await post(web, root(thread=f"op{number}"), None)
    attempt = new_attempt(root())
    attempt = attempt.model_copy(update={"at": attempt.at + timedelta(hours=1)})
    assert await read_back(web, root(), attempt, channel=CHANNEL, thread_ts=None) is None
    assert sum(call.method == "conversations.history" for call in slack.calls) == 1 + NEWEST_PAGES


async def test_an_edit_replaces_text_and_blocks(slack: PracticeSlack) -> None:
    web = connect_slack(slack.bot_token, slack.api_url)
    address = await post(web, root(), None)
    await update(web, edit("healthy"), address)
    (message,) = slack.channel_messages(CHANNEL)
    assert message.text == "healthy"
    assert "healthy" in json.dumps(message.blocks)
    assert slack.refusals == []

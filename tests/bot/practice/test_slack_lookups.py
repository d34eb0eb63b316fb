"""Threads, channels, people and groups, as an app may look them up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from slack_sdk.errors import SlackApiError

from tests.support.slack_app import ALICE, BOB, OPS, practice_slack, web_client

if TYPE_CHECKING:
    from bot.practice.slack import PracticeSlack

METADATA = {"event_type": "kimi_message", "event_payload": {"operation": "op-1", "sequence": 1}}


async def code(slack: PracticeSlack, method: str, **arguments: Any) -> str:
    with pytest.raises(SlackApiError) as error:
        await web_client(slack).api_call(method, http_verb="GET", params=arguments)
    return str(error.value.response["error"])


async def thread(slack: PracticeSlack, replies: int) -> str:
    client = web_client(slack)
    root = await client.chat_postMessage(channel=OPS, text="root", metadata=METADATA)
    for number in range(replies):
        await client.chat_postMessage(channel=OPS, text=str(number), thread_ts=root["ts"])
    return str(root["ts"])


async def test_replies_come_with_metadata_only_when_asked() -> None:
    async with practice_slack() as slack:
        ts = await thread(slack, 1)
        client = web_client(slack)
        plain = await client.conversations_replies(channel=OPS, ts=ts)
        full = await client.conversations_replies(channel=OPS, ts=ts, include_all_metadata=True)
        assert [message["text"] for message in plain["messages"]] == ["root", "0"]
        assert "metadata" not in plain["messages"][0]
        assert full["messages"][0]["metadata"] == METADATA
        assert full["messages"][0]["reply_count"] == 1
        assert full["messages"][1]["thread_ts"] == ts


async def test_a_long_thread_comes_in_pages() -> None:
    async with practice_slack(rates={}) as slack:
        ts = await thread(slack, 4)
        seen: list[str] = []
        async for page in await web_client(slack).conversations_replies(channel=OPS, ts=ts, limit=2):
            seen += [message["text"] for message in page["messages"]]
        assert seen == ["root", "0", "1", "2", "3"]


async def test_history_is_the_channel_newest_first() -> None:
    async with practice_slack() as slack:
        first = await thread(slack, 1)
        second = await thread(slack, 0)
        client = web_client(slack)
        everything = await client.conversations_history(channel=OPS, include_all_metadata=True)
        later = await client.conversations_history(channel=OPS, oldest=first)
        with_it = await client.conversations_history(channel=OPS, oldest=first, inclusive=True)
        assert [message["ts"] for message in everything["messages"]] == [second, first]
        assert [message["ts"] for message in later["messages"]] == [second]
        assert [message["ts"] for message in with_it["messages"]] == [second, first]
        assert everything["has_more"] is False


@pytest.mark.parametrize(
    ("method", "arguments", "error"),
    [
        ("conversations.replies", {"channel": OPS, "ts": "1700000000.000001"}, "thread_not_found"),
        ("conversations.replies", {"channel": OPS, "ts": "x"}, "invalid_ts"),
        ("conversations.history", {"channel": "C0ELSE"}, "not_in_channel"),
        ("conversations.history", {"channel": "C9"}, "channel_not_found"),
        ("conversations.history", {"channel": OPS, "cursor": "!"}, "invalid_cursor"),
        ("conversations.history", {"channel": OPS, "limit": 5000}, "invalid_limit"),
        ("conversations.history", {"channel": OPS, "oldest": "then"}, "invalid_ts_oldest"),
        ("conversations.info", {"channel": "llm-ops"}, "channel_not_found"),
        ("users.info", {"user": "U9"}, "user_not_found"),
        ("usergroups.users.list", {"usergroup": "S9"}, "no_such_subteam"),
    ],
)
async def test_lookups_slack_refuses(method: str, arguments: dict[str, Any], error: str) -> None:
    async with practice_slack() as slack:
        slack.add_channel("C0ELSE", "else", joined=False)
        assert await code(slack, method, **arguments) == error


async def test_reading_back_needs_the_scope_of_the_channels_kind() -> None:
    async with practice_slack() as slack:
        slack.add_channel("C0PRIVATE", "secret", private=True)
        slack.workspace.scopes -= {"groups:history", "groups:read"}
        assert await code(slack, "conversations.history", channel="C0PRIVATE") == "missing_scope"
        assert await code(slack, "conversations.info", channel="C0PRIVATE") == "missing_scope"
        assert (await web_client(slack).conversations_history(channel=OPS))["ok"]


async def test_channels_are_listed_by_kind() -> None:
    async with practice_slack() as slack:
        slack.add_channel("C0PRIVATE", "secret", private=True)
        slack.add_channel("C0HIDDEN", "hidden", private=True, joined=False)
        slack.add_channel("C0OLD", "old").archived = True
        client = web_client(slack)
        public = await client.conversations_list(exclude_archived=True)
        both = await client.conversations_list(types="public_channel,private_channel")
        assert [channel["id"] for channel in public["channels"]] == [OPS]
        assert [channel["id"] for channel in both["channels"]] == [OPS, "C0PRIVATE", "C0OLD"]
        info = (await client.conversations_info(channel=OPS))["channel"]
        assert (info["name"], info["is_member"], info["is_private"]) == ("llm-ops", True, False)


async def test_people_and_groups() -> None:
    async with practice_slack() as slack:
        slack.add_group("S0ONCALL", "oncall", [ALICE])
        client = web_client(slack)
        assert (await client.users_info(user=BOB))["user"]["name"] == "bob"
        assert {member["id"] for member in (await client.users_list())["members"]} >= {ALICE, BOB}
        assert (await client.usergroups_users_list(usergroup="S0ONCALL"))["users"] == [ALICE]
        (group,) = (await client.usergroups_list(include_users=True))["usergroups"]
        assert (group["handle"], group["users"]) == ("oncall", [ALICE])

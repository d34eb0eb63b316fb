"""Messages posted, edited, read back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from slack_sdk.errors import SlackApiError

from bot.practice.slack_state import PostedMessage
from tests.support.slack_app import ALICE, OPS, practice_slack, web_client

if TYPE_CHECKING:
    from bot.practice.slack import PracticeSlack

SECTION = {"type": "section", "text": {"type": "mrkdwn", "text": "x"}}
DIVIDER = {"type": "divider"}
METADATA = {"event_type": "kimi_message", "event_payload": {"operation": "op-1", "sequence": 1}}


async def code(slack: PracticeSlack, method: str, **arguments: Any) -> str:
    """The error code of a refused call."""
    with pytest.raises(SlackApiError) as error:
        await web_client(slack).api_call(method, json=arguments)
    assert slack.refusals[-1].error == error.value.response["error"]
    return str(error.value.response["error"])


async def test_posting_shows_the_message() -> None:
    async with practice_slack() as slack:
        answer = await web_client(slack).chat_postMessage(
            channel=OPS, text="hi", blocks=[SECTION], metadata=METADATA
        )
        (message,) = slack.channel_messages(OPS)
        assert (answer["ts"], answer["channel"]) == (message.ts, OPS)
        assert (message.text, message.blocks[0]["type"], message.metadata) == ("hi", "section", METADATA)
        assert answer["message"]["blocks"][0]["block_id"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"channel": OPS}, "no_text"),
        ({"channel": OPS, "text": ""}, "no_text"),
        ({"text": "x"}, "invalid_arguments"),
        ({"channel": "#llm-ops", "text": "x"}, "channel_not_found"),
        ({"channel": "llm-ops", "text": "x"}, "channel_not_found"),
        ({"channel": "C0PRIVATE", "text": "x"}, "channel_not_found"),
        ({"channel": "C0OLD", "text": "x"}, "is_archived"),
        ({"channel": OPS, "text": "x", "thread_ts": "1"}, "invalid_thread_ts"),
        ({"channel": OPS, "text": "x", "thread_ts": "1700000000.000001"}, "thread_not_found"),
        ({"channel": OPS, "text": "x", "blocks": "{"}, "invalid_blocks_format"),
        ({"channel": OPS, "text": "x", "blocks": [{"type": "section"}]}, "invalid_blocks"),
        ({"channel": OPS, "text": "x", "metadata": {"event_type": "x"}}, "invalid_metadata_schema"),
        ({"channel": OPS, "text": "x", "attachments": [{}] * 101}, "too_many_attachments"),
        ({"channel": "U0NOBODY", "text": "x"}, "channel_not_found"),
    ],
)
async def test_posts_slack_refuses(arguments: dict[str, Any], error: str) -> None:
    async with practice_slack() as slack:
        slack.add_channel("C0PRIVATE", "secret", private=True, joined=False)
        slack.add_channel("C0OLD", "old").archived = True
        assert await code(slack, "chat.postMessage", **arguments) == error
        assert slack.channel_messages(OPS) == []


async def test_a_public_channel_without_the_bot_needs_a_scope() -> None:
    async with practice_slack() as slack:
        slack.add_channel("C0ELSE", "else", joined=False)
        await web_client(slack).chat_postMessage(channel="C0ELSE", text="x")
        slack.workspace.scopes.discard("chat:write.public")
        assert await code(slack, "chat.postMessage", channel="C0ELSE", text="x") == "not_in_channel"


async def test_a_persons_id_means_their_dm() -> None:
    async with practice_slack() as slack:
        answer = await web_client(slack).chat_postMessage(channel=ALICE, text="psst")
        assert answer["channel"] == "D0ALICE"
        assert [message.text for message in slack.channel_messages("D0ALICE")] == ["psst"]


async def test_a_thread_hangs_on_its_root_alone() -> None:
    async with practice_slack() as slack:
        client = web_client(slack)
        root = await client.chat_postMessage(channel=OPS, text="root")
        reply = await client.chat_postMessage(channel=OPS, text="reply", thread_ts=root["ts"])
        wrong = {"channel": OPS, "text": "x", "thread_ts": reply["ts"]}
        assert await code(slack, "chat.postMessage", **wrong) == "thread_not_found"


async def test_a_broadcast_shows_in_the_channel() -> None:
    async with practice_slack() as slack:
        client = web_client(slack)
        root = await client.chat_postMessage(channel=OPS, text="root")
        await client.chat_postMessage(channel=OPS, text="failed", thread_ts=root["ts"], reply_broadcast=True)
        assert [message.text for message in slack.channel_messages(OPS)] == ["root", "failed"]


async def test_long_text_is_cut_in_silence_and_noted() -> None:
    async with practice_slack() as slack:
        await web_client(slack).chat_postMessage(channel=OPS, text="x" * 40_001)
        assert len(slack.channel_messages(OPS)[0].text) == 40_000
        assert [(note.method, note.error) for note in slack.warnings] == [("chat.postMessage", "text_cut")]
        assert slack.refusals == []


async def test_the_same_client_msg_id_posts_twice() -> None:
    async with practice_slack() as slack:
        for _ in range(2):
            await web_client(slack).chat_postMessage(channel=OPS, text="x", client_msg_id="same")
        assert len(slack.channel_messages(OPS)) == 2


async def test_an_edit_without_blocks_removes_them() -> None:
    async with practice_slack() as slack:
        client = web_client(slack)
        ts = (await client.chat_postMessage(channel=OPS, text="x", blocks=[SECTION], metadata=METADATA))["ts"]
        await client.chat_update(channel=OPS, ts=ts, text="plain")
        (message,) = slack.channel_messages(OPS)
        assert (message.text, message.blocks, message.metadata) == ("plain", (), METADATA)
        await client.chat_update(channel=OPS, ts=ts, text="plain", metadata={})
        assert message.metadata is None


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"ts": "1700000000.000001", "text": "x"}, "message_not_found"),
        ({"text": ""}, "no_text"),
        ({"text": "x" * 4001}, "msg_too_long"),
        ({"text": "x", "blocks": [DIVIDER]}, "block_mismatch"),
        ({"text": "x", "blocks": [SECTION] * 51}, "invalid_blocks"),
    ],
)
async def test_edits_slack_refuses(arguments: dict[str, Any], error: str) -> None:
    async with practice_slack() as slack:
        ts = (await web_client(slack).chat_postMessage(channel=OPS, text="x", blocks=[SECTION]))["ts"]
        assert await code(slack, "chat.update", **{"channel": OPS, "ts": ts, **arguments}) == error
        assert slack.channel_messages(OPS)[0].versions == []


async def test_after_the_edit_window_nobody_edits() -> None:
    async with practice_slack() as slack:
        posted = await web_client(slack).chat_postMessage(channel=OPS, text="x")
        slack.workspace.edit_window = 60.0
        await web_client(slack).chat_update(channel=OPS, ts=posted["ts"], text="y")
        slack.workspace.edit_window = 0.0
        edit = {"channel": OPS, "ts": posted["ts"], "text": "z"}
        assert await code(slack, "chat.update", **edit) == "edit_window_closed"
        assert slack.channel_messages(OPS)[0].text == "y"


async def test_a_revoked_token_is_good_for_nothing_until_it_is_good_again() -> None:
    async with practice_slack() as slack:
        slack.workspace.revoked = True
        assert await code(slack, "chat.postMessage", channel=OPS, text="x") == "token_revoked"
        slack.workspace.revoked = False
        await web_client(slack).chat_postMessage(channel=OPS, text="y")
        assert [message.text for message in slack.channel_messages(OPS)] == ["y"]


async def test_only_our_own_messages_can_be_edited_and_deleted() -> None:
    async with practice_slack() as slack:
        theirs = slack.workspace.post(PostedMessage(OPS, slack.workspace.next_ts(), ALICE, "mine"))
        where = {"channel": OPS, "ts": theirs.ts}
        assert await code(slack, "chat.update", text="x", **where) == "cant_update_message"
        assert await code(slack, "chat.delete", **where) == "cant_delete_message"


async def test_an_ephemeral_is_seen_by_one_and_edited_by_nobody() -> None:
    async with practice_slack() as slack:
        answer = await web_client(slack).chat_postEphemeral(channel=OPS, user=ALICE, text="psst")
        assert [message.text for message in slack.ephemerals(ALICE)] == ["psst"]
        assert slack.channel_messages(OPS) == []
        where = {"channel": OPS, "ts": answer["message_ts"]}
        assert await code(slack, "chat.update", text="x", **where) == "message_not_found"
        nobody = {"channel": OPS, "user": "U0NOBODY", "text": "x"}
        assert await code(slack, "chat.postEphemeral", **nobody) == "user_not_in_channel"


async def test_a_deleted_message_is_gone() -> None:
    async with practice_slack() as slack:
        client = web_client(slack)
        ts = (await client.chat_postMessage(channel=OPS, text="x"))["ts"]
        await client.chat_delete(channel=OPS, ts=ts)
        assert slack.channel_messages(OPS) == []
        assert await code(slack, "chat.delete", channel=OPS, ts=ts) == "message_not_found"


async def test_a_permalink_leads_to_the_page() -> None:
    async with practice_slack() as slack:
        client = web_client(slack)
        root = (await client.chat_postMessage(channel=OPS, text="x"))["ts"]
        reply = (await client.chat_postMessage(channel=OPS, text="y", thread_ts=root))["ts"]
        link = (await client.chat_getPermalink(channel=OPS, message_ts=reply))["permalink"]
        assert link == f"{slack.url}/archives/{OPS}/p{reply.replace('.', '')}?thread_ts={root}&cid={OPS}"
        gone = {"channel": OPS, "message_ts": "1700000000.000001"}
        assert await code(slack, "chat.getPermalink", **gone) == "message_not_found"


async def test_a_reaction_needs_its_scope_and_comes_once() -> None:
    async with practice_slack() as slack:
        ts = (await web_client(slack).chat_postMessage(channel=OPS, text="x"))["ts"]
        reaction = {"channel": OPS, "timestamp": ts, "name": "eyes"}
        assert await code(slack, "reactions.add", **reaction) == "missing_scope"
        slack.workspace.scopes.add("reactions:write")
        await web_client(slack).reactions_add(**reaction)
        assert slack.channel_messages(OPS)[0].reactions == {"eyes": [slack.workspace.bot_user]}
        assert await code(slack, "reactions.add", **reaction) == "already_reacted"

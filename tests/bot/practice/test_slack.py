"""The practice Slack as a whole, with Slack's own SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.slack_app import ALICE, BOB, OPS, bolt_app, connected, practice_slack, web_client

if TYPE_CHECKING:
    from bot.practice.slack_state import Change

BUTTON = {
    "type": "actions",
    "elements": [
        {
            "type": "button",
            "action_id": "kimi:stop",
            "value": "{}",
            "text": {"type": "plain_text", "text": "Stop"},
            "confirm": {
                "title": {"type": "plain_text", "text": "Stop?"},
                "text": {"type": "plain_text", "text": "It serves people."},
                "confirm": {"type": "plain_text", "text": "Stop"},
                "deny": {"type": "plain_text", "text": "Leave"},
            },
        },
    ],
}


async def test_a_command_is_heard_answered_and_followed_by_a_thread() -> None:
    async with practice_slack() as slack:
        app = bolt_app(slack)

        @app.command("/kimi")
        async def _kimi(ack: Any, command: dict[str, str], client: Any) -> None:
            await ack("On it.")
            root = await client.chat_postMessage(channel=command["channel_id"], text="restarting")
            await client.chat_postMessage(channel=command["channel_id"], text="weights", thread_ts=root["ts"])
            await client.chat_update(channel=command["channel_id"], ts=root["ts"], text="healthy")

        async with connected(slack, app):
            outcome = await slack.slash(ALICE, OPS, "restart kimi-k2.5")
            assert outcome.acknowledged
            assert outcome.response == {"text": "On it."}
            root = await slack.wait_for(
                lambda s: next((m for m in s.channel_messages(OPS) if m.text == "healthy"), None), 5
            )
        assert [message.text for message in slack.thread(OPS, root.ts)] == ["healthy", "weights"]
        assert root.versions == [("restarting", ())]
        assert [message.text for message in slack.ephemerals(ALICE)] == ["On it."]
        assert slack.ephemerals(BOB) == []
        assert slack.refusals == []


async def test_a_mention_in_a_thread_carries_the_roots_ts() -> None:
    async with practice_slack() as slack:
        app = bolt_app(slack)
        heard: list[dict[str, Any]] = []

        @app.event("app_mention")
        async def _mention(event: dict[str, Any]) -> None:
            heard.append(event)

        async with connected(slack, app):
            posted = await web_client(slack).chat_postMessage(channel=OPS, text="root")
            outcome = await slack.mention(BOB, OPS, "status", posted["ts"])
            event = await slack.wait_for(lambda _s: heard[0] if heard else None, 60)
        assert outcome.acknowledged
        assert outcome.ts == event["ts"]
        assert event["text"] == f"<@{slack.workspace.bot_user}> status"
        assert event["thread_ts"] == posted["ts"]


async def test_a_press_is_told_only_when_the_dialog_is_confirmed() -> None:
    async with practice_slack() as slack:
        app = bolt_app(slack)
        pressed: list[str] = []

        @app.action("kimi:stop")
        async def _stop(ack: Any, action: dict[str, Any], respond: Any) -> None:
            await ack()
            pressed.append(action["value"])
            await respond(text="stopped", replace_original=True)

        async with connected(slack, app):
            posted = await web_client(slack).chat_postMessage(channel=OPS, text="root", blocks=[BUTTON])
            ts = posted["ts"]
            refused = await slack.press(ALICE, OPS, ts, "kimi:stop", accept_confirm=False)
            taken = await slack.press(ALICE, OPS, ts, "kimi:stop")
            await slack.wait_for(lambda s: s.channel_messages(OPS)[0].text == "stopped", 60)
        assert (refused.acknowledged, refused.error) == (False, "cancelled")
        assert taken.acknowledged
        assert pressed == ["{}"]


async def test_an_app_that_does_not_acknowledge_is_shown_as_a_timeout() -> None:
    async with practice_slack(ack_timeout=0.1) as slack:
        app = bolt_app(slack)

        @app.command("/kimi")
        async def _kimi() -> None:
            pass

        async with connected(slack, app):
            outcome = await slack.slash(ALICE, OPS, "status")
        assert (outcome.acknowledged, outcome.error) == (False, "operation_timeout")


async def test_nobody_connected_is_shown_as_dispatch_failed() -> None:
    async with practice_slack() as slack:
        assert (await slack.slash(ALICE, OPS, "status")).error == "dispatch_failed"


async def test_wait_for_ends_in_a_timeout() -> None:
    async with practice_slack() as slack:
        with pytest.raises(TimeoutError):
            await slack.wait_for(lambda s: s.channel_messages(OPS) or None, 0.1)


async def test_listeners_hear_every_change_until_they_leave() -> None:
    async with practice_slack() as slack:
        heard: list[Change] = []
        leave = slack.on_change(heard.append)
        posted = await web_client(slack).chat_postMessage(channel=OPS, text="one")
        await web_client(slack).chat_update(channel=OPS, ts=posted["ts"], text="two")
        leave()
        await web_client(slack).chat_delete(channel=OPS, ts=posted["ts"])
        assert [change.kind for change in heard] == ["posted", "edited"]


async def test_an_upload_lands_in_the_thread() -> None:
    async with practice_slack() as slack:
        client = web_client(slack)
        root = await client.chat_postMessage(channel=OPS, text="root")
        await client.files_upload_v2(
            filename="tail.log",
            content="line\n" * 3,
            title="The tail",
            channel=OPS,
            thread_ts=root["ts"],
            initial_comment="All of it.",
        )
        (file,) = slack.files.values()
        assert (file.name, file.title, file.text) == ("tail.log", "The tail", "line\n" * 3)
        assert (file.channel, file.thread_ts) == (OPS, root["ts"])
        assert slack.thread(OPS, root["ts"])[1].text == "All of it."
        assert slack.refusals == []


async def test_stop_may_be_called_twice() -> None:
    async with practice_slack() as slack:
        await slack.stop()

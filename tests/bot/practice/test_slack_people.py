"""People who type, press and submit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bot.practice.slack_socket import Answer, Envelope
from tests.support.slack_app import ALICE, BOB, OPS, bolt_app, connected, practice_slack, web_client

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from bot.practice.slack import PracticeSlack

MODAL: dict[str, Any] = {
    "type": "modal",
    "callback_id": "why",
    "notify_on_close": True,
    "title": {"type": "plain_text", "text": "Restart"},
    "submit": {"type": "plain_text", "text": "Go"},
    "blocks": [
        {
            "type": "input",
            "block_id": "reason",
            "label": {"type": "plain_text", "text": "Reason"},
            "element": {"type": "plain_text_input", "action_id": "text"},
        },
        {
            "type": "actions",
            "elements": [
                {
                    "type": "static_select",
                    "action_id": "service",
                    "options": [{"text": {"type": "plain_text", "text": "kimi"}, "value": "kimi"}],
                },
            ],
        },
    ],
}


class Courier:
    """Hears everything; acknowledges as told, then always."""

    def __init__(self, *acknowledged: bool) -> None:
        self.heard: list[Envelope] = []
        self._acknowledged = list(acknowledged)

    async def deliver(self, envelope: Envelope) -> Answer:
        self.heard.append(envelope)
        taken = self._acknowledged.pop(0) if self._acknowledged else True
        return Answer(acknowledged=taken, seconds=0, error=None if taken else "operation_timeout")


async def test_a_command_cannot_be_typed_in_a_thread() -> None:
    async with practice_slack() as slack:
        ts = (await web_client(slack).chat_postMessage(channel=OPS, text="root"))["ts"]
        outcome = await slack.say(ALICE, OPS, "/kimi status", ts)
        assert (outcome.acknowledged, outcome.error) == (False, "not_supported_in_threads")


async def test_a_command_slack_does_not_know() -> None:
    async with practice_slack() as slack:
        assert (await slack.say(ALICE, OPS, "/kmi status")).error == "invalid_command"


async def test_a_command_is_no_message_and_plain_words_are_no_command() -> None:
    async with practice_slack() as slack:
        courier = Courier()
        slack.people.courier = courier
        await slack.say(ALICE, OPS, "/kimi status")
        assert slack.channel_messages(OPS) == []
        await slack.say(ALICE, OPS, "good morning")
        assert [message.text for message in slack.channel_messages(OPS)] == ["good morning"]
        assert [envelope.kind for envelope in courier.heard] == ["slash_commands"]


async def test_a_mention_where_the_bot_is_no_member_is_not_told() -> None:
    async with practice_slack() as slack:
        slack.add_channel("C0ELSE", "else", joined=False)
        outcome = await slack.mention(ALICE, "C0ELSE", "status")
        assert (outcome.acknowledged, outcome.error) == (False, "not_in_channel")
        assert outcome.ts is not None


async def test_a_mention_in_a_dm_is_no_app_mention() -> None:
    async with practice_slack() as slack:
        courier = slack.people.courier = Courier()
        dm = slack.workspace.direct(ALICE).id
        assert (await slack.mention(ALICE, dm, "status")).ts == slack.channel_messages(dm)[0].ts
        assert courier.heard == []


async def test_an_event_is_told_again_until_it_is_acknowledged() -> None:
    async with practice_slack() as slack:
        courier = slack.people.courier = Courier(False, False)
        slack.people.retry_delays = (0, 0.01, 0.01)
        assert (await slack.mention(ALICE, OPS, "status")).acknowledged is False
        await slack.wait_for(lambda _s: len(courier.heard) == 3, 60)
        assert [envelope.retry for envelope in courier.heard] == [0, 1, 2]
        assert len({envelope.payload["event_id"] for envelope in courier.heard}) == 1


async def test_a_command_is_never_told_again() -> None:
    async with practice_slack() as slack:
        courier = slack.people.courier = Courier(False)
        assert (await slack.slash(ALICE, OPS, "status")).error == "operation_timeout"
        assert len(courier.heard) == 1


def asking(slack: PracticeSlack, told: list[Any]) -> AsyncApp:
    """An app that opens a modal and writes down what comes of it."""
    app = bolt_app(slack)

    @app.command("/kimi")
    async def _kimi(ack: Any, client: Any, command: dict[str, str]) -> None:
        await ack()
        await client.views_open(trigger_id=command["trigger_id"], view=MODAL)

    @app.view("why")
    async def _why(ack: Any, view: dict[str, Any]) -> None:
        words = view["state"]["values"]["reason"]["text"]["value"]
        told.append(words)
        await (ack() if words else ack(response_action="errors", errors={"reason": "why?"}))

    @app.view_closed("why")
    async def _closed(ack: Any) -> None:
        await ack()
        told.append("closed")

    @app.action("service")
    async def _service(ack: Any, action: dict[str, Any]) -> None:
        await ack()
        told.append(action["selected_option"]["value"])

    return app


async def test_a_modal_is_filled_in() -> None:
    told: list[Any] = []
    async with practice_slack() as slack, connected(slack, asking(slack, told)):
        await slack.slash(ALICE, OPS, "restart")
        modal = await slack.wait_for(lambda s: s.modal(ALICE), 60)
        await slack.people.press_in_view(ALICE, modal, "service", option="kimi")
        refused = await slack.submit(ALICE, {"reason": {"text": ""}})
        assert refused.response == {"response_action": "errors", "errors": {"reason": "why?"}}
        assert slack.modal(ALICE) is modal
        await slack.submit(ALICE, {"reason": {"text": "new weights"}})
        assert slack.modal(ALICE) is None
        assert told == ["kimi", "", "new weights"]
        with pytest.raises(LookupError):
            await slack.submit(ALICE, {})


async def test_a_modal_is_closed() -> None:
    told: list[Any] = []
    async with practice_slack() as slack, connected(slack, asking(slack, told)):
        await slack.slash(ALICE, OPS, "restart")
        await slack.wait_for(lambda s: s.modal(ALICE), 60)
        await slack.people.close_modal(ALICE)
        assert slack.modal(ALICE) is None
        await slack.wait_for(lambda _s: told == ["closed"], 60)


async def test_the_home_tab_is_opened() -> None:
    async with practice_slack() as slack:
        app = bolt_app(slack)

        @app.event("app_home_opened")
        async def _home(event: dict[str, Any], client: Any) -> None:
            view = {"type": "home", "blocks": [{"type": "divider"}]}
            await client.views_publish(user_id=event["user"], view=view)

        async with connected(slack, app):
            assert (await slack.open_home(ALICE)).acknowledged
            await slack.wait_for(lambda s: s.home(ALICE), 60)
            assert slack.home(BOB) is None
        assert slack.refusals == []


async def test_a_message_shortcut_carries_its_message() -> None:
    async with practice_slack() as slack:
        courier = slack.people.courier = Courier()
        ts = (await web_client(slack).chat_postMessage(channel=OPS, text="root"))["ts"]
        await slack.people.shortcut(ALICE, OPS, ts, "kimi_status")
        payload = courier.heard[0].payload
        assert (payload["type"], payload["callback_id"]) == ("message_action", "kimi_status")
        assert payload["message"]["ts"] == ts


async def test_nobody_presses_what_they_do_not_see() -> None:
    async with practice_slack() as slack:
        answer = await web_client(slack).chat_postEphemeral(channel=OPS, user=ALICE, text="psst")
        with pytest.raises(LookupError):
            await slack.press(BOB, OPS, answer["message_ts"], "kimi:stop")
        with pytest.raises(LookupError):
            await slack.press(ALICE, OPS, answer["message_ts"], "kimi:stop")


async def test_an_acknowledgement_beyond_the_limits_is_a_refusal() -> None:
    async with practice_slack() as slack:
        app = bolt_app(slack)

        @app.command("/kimi")
        async def _kimi(ack: Any) -> None:
            await ack(text="x", blocks=[{"type": "section"}])

        async with connected(slack, app):
            await slack.slash(ALICE, OPS, "status")
        assert [(refusal.method, refusal.error) for refusal in slack.refusals] == [("ack", "invalid_blocks")]
        assert slack.ephemerals(ALICE) == []

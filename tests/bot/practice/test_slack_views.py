"""Modals and the Home tab."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from slack_sdk.errors import SlackApiError

from bot.practice.slack_state import Refused
from bot.practice.slack_views import Triggers
from tests.support.slack_app import ALICE, practice_slack, web_client

if TYPE_CHECKING:
    from bot.practice.slack import PracticeSlack

INPUT = {
    "type": "input",
    "block_id": "reason",
    "label": {"type": "plain_text", "text": "Reason"},
    "element": {"type": "plain_text_input", "action_id": "text"},
}
MODAL: dict[str, Any] = {
    "type": "modal",
    "callback_id": "why",
    "title": {"type": "plain_text", "text": "Restart"},
    "submit": {"type": "plain_text", "text": "Go"},
    "blocks": [INPUT],
}
HOME = {"type": "home", "blocks": [{"type": "divider"}]}


async def code(slack: PracticeSlack, method: str, **arguments: Any) -> str:
    with pytest.raises(SlackApiError) as error:
        await web_client(slack).api_call(method, json=arguments)
    return str(error.value.response["error"])


def test_a_trigger_works_once_within_three_seconds() -> None:
    seconds = [0.0]
    triggers = Triggers(now=lambda: seconds[0])
    first, second = triggers.issue(ALICE), triggers.issue(ALICE)
    seconds[0] = 3.0
    assert triggers.use(first) == ALICE
    with pytest.raises(Refused, match="exchanged_trigger_id"):
        triggers.use(first)
    seconds[0] = 3.1
    with pytest.raises(Refused, match="expired_trigger_id"):
        triggers.use(second)
    with pytest.raises(Refused, match="invalid_trigger_id"):
        triggers.use("made.up")


async def test_a_modal_is_opened_for_the_one_who_asked() -> None:
    async with practice_slack() as slack:
        trigger = slack.triggers.issue(ALICE)
        answer = await web_client(slack).views_open(trigger_id=trigger, view=MODAL)
        modal = slack.modal(ALICE)
        assert modal is not None
        assert answer["view"]["id"] == modal.id
        assert await code(slack, "views.open", trigger_id=trigger, view=MODAL) == "exchanged_trigger_id"


async def test_a_broken_view_does_not_use_the_trigger_up() -> None:
    async with practice_slack() as slack:
        trigger = slack.triggers.issue(ALICE)
        broken = {**MODAL, "title": {"type": "plain_text", "text": "x" * 25}}
        assert await code(slack, "views.open", trigger_id=trigger, view=broken) == "invalid_arguments"
        await web_client(slack).views_open(trigger_id=trigger, view=MODAL)


async def test_a_modal_is_updated_unless_it_changed_meanwhile() -> None:
    async with practice_slack() as slack:
        client = web_client(slack)
        opened = (await client.views_open(trigger_id=slack.triggers.issue(ALICE), view=MODAL))["view"]
        longer = {**MODAL, "external_id": "mine"}
        await client.views_update(view_id=opened["id"], hash=opened["hash"], view=longer)
        stale = {"view_id": opened["id"], "hash": opened["hash"], "view": MODAL}
        assert await code(slack, "views.update", **stale) == "hash_conflict"
        await client.views_update(external_id="mine", view=MODAL)
        assert await code(slack, "views.update", view_id="V9", view=MODAL) == "not_found"


async def test_a_home_tab_is_published_and_published_anew() -> None:
    async with practice_slack() as slack:
        client = web_client(slack)
        first = await client.views_publish(user_id=ALICE, view=HOME)
        second = await client.views_publish(user_id=ALICE, view={**HOME, "blocks": []})
        home = slack.home(ALICE)
        assert home is not None
        assert first["view"]["id"] == second["view"]["id"] == home.id
        assert home.content["blocks"] == []
        assert await code(slack, "views.publish", user_id=ALICE, view=MODAL) == "invalid_arguments"
        assert await code(slack, "views.publish", user_id="U9", view=HOME) == "invalid_arguments"


async def test_what_a_submission_may_be_answered_with() -> None:
    async with practice_slack() as slack:
        view = slack.views.put(ALICE, MODAL)
        assert slack.views.respond(view, {"response_action": "errors", "errors": {"reason": "why?"}}) == {
            "reason": "why?",
        }
        slack.views.respond(view, {"response_action": "update", "view": {**MODAL, "callback_id": "next"}})
        assert view.content["callback_id"] == "next"
        slack.views.respond(view, {"response_action": "push", "view": {**MODAL, "callback_id": "top"}})
        top = slack.modal(ALICE)
        assert top is not None
        assert top.content["callback_id"] == "top"
        slack.views.respond(top, {})
        assert slack.modal(ALICE) is view
        slack.views.respond(view, {"response_action": "clear"})
        assert slack.modal(ALICE) is None
        with pytest.raises(Refused, match="invalid_arguments"):
            slack.views.respond(view, {"response_action": "explode"})

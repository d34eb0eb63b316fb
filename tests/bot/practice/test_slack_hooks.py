"""The response_url: how often, and how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from bot.practice.slack_faults import Fault, FaultPlan
from bot.practice.slack_hooks import Hooks
from bot.practice.slack_state import PostedMessage, Refused, User, Workspace
from tests.support.slack_app import ALICE, BOB, OPS, practice_slack

if TYPE_CHECKING:
    from bot.practice.slack import PracticeSlack

SECTION = {"type": "section", "text": {"type": "mrkdwn", "text": "x"}}


async def send(url: str, payload: Any) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.post(url, json=payload) as response:
        return response.status, await response.text()


def message(slack: PracticeSlack, *, seen_by: str | None = None) -> PostedMessage:
    made = PostedMessage(OPS, slack.workspace.next_ts(), "U0KIMIBOT", "original", bot=True, seen_by=seen_by)
    return slack.workspace.whisper(made) if seen_by else slack.workspace.post(made)


async def test_an_answer_is_for_the_person_alone_unless_shared() -> None:
    async with practice_slack() as slack:
        url = slack.hooks.issue(OPS, ALICE)
        assert await send(url, {"text": "psst"}) == (200, "ok")
        assert await send(url, {"text": "all", "response_type": "in_channel", "blocks": [SECTION]}) == (
            200,
            "ok",
        )
        assert [answer.text for answer in slack.ephemerals(ALICE)] == ["psst"]
        assert slack.ephemerals(BOB) == []
        assert [answer.text for answer in slack.channel_messages(OPS)] == ["all"]


async def test_five_answers_and_no_more() -> None:
    async with practice_slack() as slack:
        url = slack.hooks.issue(OPS, ALICE)
        for number in range(5):
            assert (await send(url, {"text": str(number)}))[0] == 200
        status, body = await send(url, {"text": "6"})
        assert (status, "used_url" in body) == (404, True)
        assert slack.refusals[-1].error == "used_url"


def test_thirty_minutes_and_no_longer() -> None:
    seconds = [0.0]
    workspace = Workspace()
    workspace.users["U1"] = User("U1", "alice")
    hooks = Hooks(workspace, FaultPlan(), now=lambda: seconds[0])
    token = hooks.issue("C1", "U1").rpartition("/")[2]
    seconds[0] = 1800.0
    hooks._admit(token)
    seconds[0] = 1800.1
    with pytest.raises(Refused, match="expired_url"):
        hooks._admit(token)


async def test_the_original_is_replaced_or_deleted() -> None:
    async with practice_slack() as slack:
        shared, private = message(slack), message(slack, seen_by=ALICE)
        for original in (shared, private):
            url = slack.hooks.issue(OPS, ALICE, original)
            assert await send(url, {"replace_original": True, "text": "new", "blocks": [SECTION]}) == (
                200,
                "ok",
            )
            assert (original.text, original.blocks[0]["type"]) == ("new", "section")
            assert await send(url, {"delete_original": True}) == (200, "ok")
            assert (await send(url, {"replace_original": True, "text": "x"}))[0] in {200, 400}
        assert slack.channel_messages(OPS) == []
        assert slack.ephemerals(ALICE) == []


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ({}, "no_text"),
        ([], "invalid_payload"),
        ({"text": "x", "blocks": [{"type": "section"}]}, "invalid_blocks"),
    ],
)
async def test_answers_slack_refuses(payload: Any, error: str) -> None:
    async with practice_slack() as slack:
        status, body = await send(slack.hooks.issue(OPS, ALICE), payload)
        assert (status, error in body) == (400, True)
        assert slack.refusals[-1].error == error


async def test_an_address_that_was_never_issued() -> None:
    async with practice_slack() as slack:
        assert (await send(f"{slack.url}/commands/T0/none", {"text": "x"}))[0] == 404


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (FaultPlan.status(500), 500),
        (FaultPlan.rate_limited(3), 429),
        (FaultPlan.error("expired_url"), 404),
    ],
)
async def test_ordered_faults(fault: Fault, status: int) -> None:
    async with practice_slack() as slack:
        slack.faults.add("response_url", fault)
        assert (await send(slack.hooks.issue(OPS, ALICE), {"text": "x"}))[0] == status
        assert slack.ephemerals(ALICE) == []


@pytest.mark.parametrize(("fault", "kept"), [("before", 0), ("after", 1)])
async def test_an_answer_may_be_reset(fault: str, kept: int) -> None:
    async with practice_slack() as slack:
        plan = slack.faults
        plan.add(
            "response_url", plan.reset_before_accept() if fault == "before" else plan.reset_after_accept()
        )
        with pytest.raises(aiohttp.ClientError):
            await send(slack.hooks.issue(OPS, ALICE), {"text": "x"})
        assert len(slack.ephemerals(ALICE)) == kept

"""User groups: asked once in five minutes; nobody, when Slack does not tell."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest_asyncio

from bot.clients.directory import Directory, People
from bot.clients.slack_calls import connect_slack
from bot.core.events import UserId
from bot.practice.slack_faults import FaultPlan
from tests.support.outbox import open_slack
from tests.support.slack_app import web_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bot.practice.slack import PracticeSlack

METHOD = "usergroups.users.list"


@pytest_asyncio.fixture
async def slack() -> AsyncIterator[PracticeSlack]:
    async with open_slack() as slack:
        slack.add_group("S0456", "operators", ["U1", "U2"])
        yield slack


def directory(slack: PracticeSlack, clock: list[float]) -> Directory:
    return Directory(connect_slack(slack.bot_token, slack.api_url, timeout=0.3), now=lambda: clock[0])


async def test_members_are_remembered_for_five_minutes(slack: PracticeSlack) -> None:
    clock = [1000.0]
    people = directory(slack, clock)
    assert await people.members("S0456") == {"U1", "U2"}
    slack.add_group("S0456", "operators", ["U3"])
    clock[0] += 299
    assert await people.members("S0456") == {"U1", "U2"}
    clock[0] += 2
    assert await people.members("S0456") == {"U3"}
    assert len(slack.calls) == 2


async def test_many_ask_at_once_and_slack_is_asked_once(slack: PracticeSlack) -> None:
    people = directory(slack, [0.0])
    answers = await asyncio.gather(*(people.members("S0456") for _ in range(10)))
    assert set(answers) == {frozenset({"U1", "U2"})}
    assert len(slack.calls) == 1


async def test_nobody_when_slack_does_not_tell_and_soon_asked_again(slack: PracticeSlack) -> None:
    clock = [0.0]
    people = directory(slack, clock)
    slack.faults.add(METHOD, FaultPlan.error("internal_error"))
    assert await people.members("S0456") == frozenset()
    clock[0] += 16
    assert await people.members("S0456") == {"U1", "U2"}


async def test_an_unknown_group_has_nobody(slack: PracticeSlack) -> None:
    assert await directory(slack, [0.0]).members("S0NONE") == frozenset()


async def test_people_are_called_what_slack_calls_them(slack: PracticeSlack) -> None:
    slack.add_user("U1", "alice")
    people = People(web_client(slack))
    alice, nobody = UserId("U1"), UserId("U9")
    assert await people.names([alice, nobody, alice]) == {alice: "alice"}
    asked = len(slack.calls)
    assert await people.names([alice]) == {alice: "alice"}
    assert len(slack.calls) == asked


async def test_a_slack_that_does_not_answer_leaves_them_their_ids(slack: PracticeSlack) -> None:
    slack.add_user("U1", "alice")
    slack.faults.add("users.info", FaultPlan.status(500), times=1)
    people = People(web_client(slack))
    assert await people.names([UserId("U1")]) == {}
    assert await people.names([UserId("U1")]) == {UserId("U1"): "alice"}

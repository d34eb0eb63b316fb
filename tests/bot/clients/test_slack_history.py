"""Our own messages, read back page by page; those of others that look like ours are left out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from bot.clients.records import Address
from bot.clients.slack_calls import connect_slack
from bot.clients.slack_history import TRIES, find_roots, read_thread
from bot.clients.slack_messages import post, update
from bot.core.events import MessageTs
from bot.errors import SlackRefused, SlackUncertain
from bot.practice.slack_faults import FaultPlan
from bot.practice.slack_state import PostedMessage
from tests.support.outbox import Stage, open_stage
from tests.support.outgoing import CHANNEL, edit, operation, reply, root, upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from slack_sdk.web.async_client import AsyncWebClient

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
HISTORY, REPLIES = "conversations.history", "conversations.replies"


@pytest_asyncio.fixture
async def stage(redis_url: str) -> AsyncIterator[Stage]:
    async with open_stage(redis_url) as stage:
        yield stage


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.clients.slack_history.PAUSE", 0.001)


def web(stage: Stage) -> AsyncWebClient:
    return connect_slack(stage.slack.bot_token, stage.slack.api_url, timeout=1.0)


async def roots(stage: Stage, oldest: datetime = LONG_AGO) -> list[str]:
    return [found.operation for found in await find_roots(web(stage), CHANNEL, oldest=oldest)]


async def test_roots_are_found_with_what_they_say_now(stage: Stage) -> None:
    at = await post(web(stage), root(tags={"state": "open", "service": "kimi-k2.5"}), None)
    await post(web(stage), reply(1, broadcast=True), at.ts)
    await update(web(stage), edit("healthy", tags={"state": "closed"}), at)
    await post(web(stage), root(thread="op2"), None)
    one, two = await find_roots(web(stage), CHANNEL, oldest=LONG_AGO)
    assert (one.operation, one.id, one.text, one.ts) == ("op1", "op1:root", "healthy", at.ts)
    assert one.tags == {"state": "closed"}
    assert (two.operation, two.tags) == ("op2", {})


async def test_of_a_root_its_first_section_is_read_too(stage: Stage) -> None:
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "down\nCause: none"}}
    await post(web(stage), root(blocks=({"type": "divider"}, section)), None)
    await post(web(stage), root(thread="op2", text="plain"), None)
    one, two = await find_roots(web(stage), CHANNEL, oldest=LONG_AGO)
    assert (one.body, two.body) == ("down\nCause: none", "plain")


async def test_what_replies_tell_is_read_in_their_order(stage: Stage) -> None:
    at = await post(web(stage), root(), None)
    posted = [
        await post(web(stage), reply(number, tags={"tells": word}), at.ts)
        for number, word in enumerate(("over", "again", "over"))
    ]
    await post(web(stage), reply(9), at.ts)
    standing = await read_thread(web(stage), Address(channel=CHANNEL, ts=at.ts))
    assert standing.course == tuple(zip(("over", "again", "over"), (each.ts for each in posted), strict=True))


async def test_pages_are_followed_to_the_end(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.clients.slack_history.PAGE", 3)
    names = [f"op{number}" for number in range(10)]
    for name in names:
        await post(web(stage), root(thread=name), None)
    assert await roots(stage) == names
    assert stage.calls(HISTORY) == 4


async def test_what_is_older_is_left_out(stage: Stage) -> None:
    await post(web(stage), root(), None)
    assert await roots(stage, datetime.now(UTC) - timedelta(minutes=1)) == ["op1"]
    assert await roots(stage, datetime.now(UTC) + timedelta(minutes=1)) == []


def forge(stage: Stage, **changes: Any) -> PostedMessage:
    """As another app may post it."""
    metadata = {"event_type": "kimi_message", "event_payload": {"operation": "op9", "id": "op9:root"}}
    given: dict[str, Any] = {
        "channel": CHANNEL,
        "ts": stage.slack.workspace.next_ts(),
        "user": "U0OTHER",
        "text": "I am kimi",
        "metadata": metadata,
    }
    return stage.slack.workspace.post(PostedMessage(**given | changes))


async def test_who_claims_to_be_us_is_not(stage: Stage) -> None:
    at = await post(web(stage), root(), None)
    forge(stage)
    forge(stage, thread_ts=at.ts)
    assert await roots(stage) == ["op1"]
    assert (await read_thread(web(stage), at)).ids == ("op1:root",)


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"event_type": "another", "event_payload": {"operation": "op9", "id": "x"}},
        {"event_type": "kimi_message", "event_payload": {"sequence": 1}},
    ],
)
async def test_what_says_nothing_of_an_operation_is_no_root(stage: Stage, metadata: Any) -> None:
    forge(stage, user=stage.slack.workspace.bot_user, bot=True, metadata=metadata)
    assert await roots(stage) == []


async def test_a_thread_tells_what_it_holds(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.clients.slack_history.PAGE", 2)
    content = {"op1:2": b"log"}
    await stage.store.save(operation(), [root(), reply(1), upload(2), reply(3), edit("healthy")], content)
    await stage.deliver()
    address = await stage.store.address("op1")
    assert address is not None
    assert (await read_thread(web(stage), address)).ids == ("op1:root", "op1:1", "op1:3")
    pushed = [root(), reply(1), upload(2), reply(3), reply(4), upload(5)]
    assert (await read_thread(web(stage), address)).among(pushed) == {"op1:root", "op1:1", "op1:2", "op1:3"}


@pytest.mark.parametrize(
    "fault",
    [FaultPlan.rate_limited(0), FaultPlan.status(500), FaultPlan.error("internal_error")],
    ids=repr,
)
async def test_a_page_that_fails_is_asked_for_again(stage: Stage, fault: Any) -> None:
    at = await post(web(stage), root(), None)
    for method in ("auth.test", HISTORY, REPLIES):
        stage.slack.faults.add(method, fault, times=2)
    assert await roots(stage) == ["op1"]
    assert (await read_thread(web(stage), at)).ids == ("op1:root",)


async def test_a_page_that_never_comes_is_an_error(stage: Stage) -> None:
    stage.slack.faults.add(HISTORY, FaultPlan.status(500), times=None)
    with pytest.raises(SlackUncertain):
        await roots(stage)
    assert stage.calls(HISTORY) == TRIES


async def test_a_channel_that_may_not_be_read_is_a_refusal(stage: Stage) -> None:
    stage.slack.workspace.channels[CHANNEL].joined = False
    with pytest.raises(SlackRefused, match="not_in_channel"):
        await roots(stage)
    with pytest.raises(SlackRefused, match="not_in_channel"):
        await read_thread(web(stage), Address(channel=CHANNEL, ts=MessageTs("1700000000.000001")))

"""One call: every way it can fail, and what that means."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from bot.clients.slack_calls import MEANINGS, Meaning, call, connect_slack, meaning_of, read_date
from bot.errors import SlackBusy, SlackError, SlackRefused, SlackUncertain, SlackUnreachable, TokenRefused
from bot.practice.slack_faults import FaultPlan
from tests.support.outbox import open_slack
from tests.support.outgoing import CHANNEL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from bot.practice.slack import PracticeSlack
    from bot.practice.slack_faults import Fault

METHOD = "chat.postMessage"
plan = FaultPlan


@pytest_asyncio.fixture
async def slack() -> AsyncIterator[PracticeSlack]:
    async with open_slack() as slack:
        yield slack


async def fail(slack: PracticeSlack, fault: Fault | None = None, *, method: str = METHOD) -> SlackError:
    if fault is not None:
        slack.faults.add(method, fault)
    web = connect_slack(slack.bot_token, slack.api_url, timeout=0.3)
    with pytest.raises(SlackError) as caught:
        await call(web, method, {"channel": CHANNEL, "text": "hello"})
    return caught.value


async def test_an_answer_comes_as_a_mapping(slack: PracticeSlack) -> None:
    web = connect_slack(slack.bot_token, slack.api_url)
    answer = await call(web, METHOD, {"channel": CHANNEL, "text": "hello", "thread_ts": None})
    assert answer["ts"] == slack.channel_messages(CHANNEL)[0].ts


@pytest.mark.parametrize(
    ("headers", "date"),
    [
        ({"Date": "Mon, 30 Nov 2026 03:53:39 GMT"}, datetime(2026, 11, 30, 3, 53, 39, tzinfo=UTC)),
        ({"date": ["Mon, 30 Nov 2026 03:53:39 -0000"]}, datetime(2026, 11, 30, 3, 53, 39, tzinfo=UTC)),
        ({"Date": "yesterday"}, None),
        ({"Server": "Apache"}, None),
    ],
)
def test_an_answer_tells_what_time_it_is_for_slack(headers: Mapping[str, Any], date: datetime | None) -> None:
    assert read_date(headers) == date


def test_the_client_never_retries_by_itself() -> None:
    web = connect_slack("xoxb", "http://127.0.0.1:1/api/")
    assert web.retry_handlers == []
    assert web.base_url == "http://127.0.0.1:1/api/"
    assert connect_slack("xoxb").base_url == "https://slack.com/api/"


@pytest.mark.parametrize("http_ok", [False, True])
async def test_busy_carries_the_seconds(slack: PracticeSlack, http_ok: bool) -> None:
    error = await fail(slack, plan.rate_limited(7, http_ok=http_ok))
    assert isinstance(error, SlackBusy)
    assert (error.method, error.retry_after) == (METHOD, 7.0)


async def test_busy_by_code_alone_has_a_default(slack: PracticeSlack) -> None:
    error = await fail(slack, plan.error("rate_limited"))
    assert isinstance(error, SlackBusy)
    assert error.retry_after == 5.0


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (plan.error("internal_error"), "internal_error"),
        (plan.error("fatal_error"), "fatal_error"),
        (plan.error("request_timeout"), "request_timeout"),
        (plan.status(500), "HTTP status 500"),
        (plan.status(503), "HTTP status 503"),
        (plan.status(200), "HTTP status 200"),
        (plan.reset_after_accept(), "ServerDisconnectedError Server disconnected"),
        (plan.hang(0.5), "nothing in time"),
    ],
    ids=repr,
)
async def test_uncertain(slack: PracticeSlack, fault: Fault, code: str) -> None:
    error = await fail(slack, fault)
    assert isinstance(error, SlackUncertain)
    assert error.code == code


async def test_nobody_there_means_nothing_was_sent(slack: PracticeSlack) -> None:
    await slack.stop()
    assert isinstance(await fail(slack), SlackUnreachable)


@pytest.mark.parametrize(
    ("code", "repairable"), [("channel_not_found", False), ("invalid_blocks", True), ("never_heard_of", True)]
)
async def test_refused(slack: PracticeSlack, code: str, repairable: bool) -> None:
    error = await fail(slack, plan.error(code))
    assert isinstance(error, SlackRefused)
    assert (error.code, error.repairable) == (code, repairable)


@pytest.mark.parametrize("code", ["token_revoked", "invalid_auth", "account_inactive", "not_authed"])
async def test_a_token_that_is_no_longer_good_is_told_apart(slack: PracticeSlack, code: str) -> None:
    error = await fail(slack, plan.error(code))
    assert isinstance(error, TokenRefused)
    assert (error.code, error.repairable) == (code, False)


async def test_an_answer_that_is_not_http_is_uncertain() -> None:
    async def rubbish(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(rubbish, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(SlackUncertain):
            await call(connect_slack("xoxb", f"http://127.0.0.1:{port}/"), METHOD, {})


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        ("ratelimited", Meaning.BUSY),
        ("internal_error", Meaning.UNCERTAIN),
        ("metadata_too_large", Meaning.REPAIRABLE),
        ("edit_window_closed", Meaning.GONE),
        ("message_not_found", Meaning.GONE),
        ("is_archived", Meaning.PERMANENT),
        ("restricted_action_read_only_channel", Meaning.PERMANENT),
        ("file_uploads_disabled", Meaning.PERMANENT),
        ("of_next_year", Meaning.REPAIRABLE),
        ("token_revoked", Meaning.LOCKED),
        ("missing_scope", Meaning.PERMANENT),
    ],
)
def test_meanings(code: str, meaning: Meaning) -> None:
    assert meaning_of(code) is meaning


def test_every_meaning_has_codes() -> None:
    assert set(MEANINGS.values()) == set(Meaning)

"""Hearing Slack: there from the start, coming late, saying no, or gone silent when it is time to go."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
import pytest
from slack_bolt.logger.messages import warning_client_prioritized_and_token_skipped
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from structlog.testing import capture_logs

from bot.clients.slack import connect_slack
from bot.ears import CONNECTIONS, HTTP_PATH, NOT_AUTHORIZED, Ears, Listen
from bot.errors import ConfigurationInvalid, SlackRefused
from bot.practice.slack import PracticeSlack
from config.settings import read_settings
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from slack_bolt.context.ack.async_ack import AsyncAck
    from slack_bolt.context.async_context import AsyncBoltContext

HEARD = (True, f"{CONNECTIONS} of {CONNECTIONS} connections")
DEAF = (False, f"0 of {CONNECTIONS} connections")


@asynccontextmanager
async def ears_for(
    slack: PracticeSlack, *, api_url: str = "", app_token: str = "", listen: Listen | None = None
) -> AsyncIterator[tuple[Ears, list[tuple[str, float]]]]:
    """And what they say of each acknowledgement."""
    settings = read_settings(
        {
            "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_APP_TOKEN": app_token or slack.app_token,
            "SLACK_SIGNING_SECRET": slack.signing_secret,
        }
    )
    acknowledged: list[tuple[str, float]] = []
    client = connect_slack(slack.bot_token, api_url or slack.api_url)
    ears = Ears(
        client, settings, listen=listen, acknowledged=lambda kind, took: acknowledged.append((kind, took))
    )
    try:
        yield ears, acknowledged
    finally:
        await ears.close()
        await ears.close()


@pytest.fixture
async def slack() -> AsyncIterator[PracticeSlack]:
    slack = PracticeSlack()
    slack.add_user("U0ALICE", "alice")
    slack.add_channel("C0OPS", "ops")
    await slack.start()
    yield slack
    await slack.stop()


async def test_it_hears_from_the_start_and_says_how_long_each_acknowledgement_took(
    slack: PracticeSlack,
) -> None:
    async with ears_for(slack) as (ears, acknowledged):

        @ears.app.command("/kimi")
        async def answer(ack: object) -> None:
            await asyncio.sleep(0.05)
            await ack()  # type: ignore[operator]

        await ears.open()
        await heard(ears, HEARD)
        assert (await slack.slash("U0ALICE", "C0OPS", "help")).acknowledged
        [(kind, seconds)] = acknowledged
        assert kind == "command"
        assert 0.05 <= seconds < 3.0


async def test_slack_is_asked_once_who_we_are_however_many_commands_come_at_once(
    slack: PracticeSlack,
) -> None:
    slack.faults.add("auth.test", slack.faults.hang(0.2))
    async with ears_for(slack) as (ears, acknowledged):
        known = []

        @ears.app.command("/kimi")
        async def answer(ack: AsyncAck, context: AsyncBoltContext) -> None:
            known.append((context.bot_user_id, context.user_id, context.bot_token))
            await ack()

        await ears.open()
        await heard(ears, HEARD)
        told = await asyncio.gather(*(slack.slash("U0ALICE", "C0OPS", "help") for _ in range(5)))
        assert all(outcome.acknowledged for outcome in told)
        assert known == [(slack.workspace.bot_user, "U0ALICE", slack.bot_token)] * 5
        assert len(acknowledged) == 5
    assert [call.method for call in slack.calls].count("auth.test") == 1


async def test_slack_is_asked_anew_who_we_are_where_it_did_not_say(slack: PracticeSlack) -> None:
    slack.faults.add("auth.test", slack.faults.rate_limited(1), times=2)
    async with ears_for(slack) as (ears, _):

        @ears.app.command("/kimi")
        async def answer(ack: AsyncAck) -> None:
            await ack("here")

        await ears.open()
        await heard(ears, HEARD)
        await until(lambda: [call.method for call in slack.calls].count("auth.test") == 1)
        first, second = [await slack.slash("U0ALICE", "C0OPS", "help") for _ in range(2)]
        assert NOT_AUTHORIZED in str(first.response)
        assert "here" in str(second.response)


async def heard(ears: Ears, answer: tuple[bool, str]) -> None:
    async with asyncio.timeout(60):
        while await ears.hear() != answer:  # noqa: ASYNC110 - the SDK tells no event
            await asyncio.sleep(0.01)


async def test_a_slack_that_comes_later_is_heard_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.ears._LONGEST_PAUSE", 0.1)
    slack = PracticeSlack()
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    async with ears_for(slack, api_url=f"http://127.0.0.1:{port}/api/") as (ears, _):
        with capture_logs() as logs:
            await ears.open()
        assert "slack_unreachable" in [fact["event"] for fact in logs]
        assert await ears.hear() == DEAF
        running = asyncio.create_task(ears.run())
        await slack.start(port)
        try:
            await heard(ears, HEARD)
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.wait({running})
            await slack.stop()


async def test_a_token_in_the_environment_is_no_reason_to_warn(
    slack: PracticeSlack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", slack.bot_token)
    async with ears_for(slack):
        assert caplog.records == []
        logging.getLogger("slack_bolt.AsyncApp").warning(warning_client_prioritized_and_token_skipped())
    assert len(caplog.records) == 1  # what is said later is told


async def test_a_wrong_token_ends_the_start(slack: PracticeSlack) -> None:
    async with ears_for(slack, app_token="xapp-of-another") as (ears, _):
        with pytest.raises(SlackRefused, match="invalid_auth"):
            await ears.open()
    slack.refusals.clear()


async def test_a_slack_that_answers_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.ears._FIRST_WORD", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/api/"
        async with ears_for(PracticeSlack(), api_url=url) as (ears, _):
            await ears.open()
            assert await ears.hear() == DEAF


async def test_connections_that_nobody_answers_any_more_are_closed_in_bounded_time(
    slack: PracticeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.ears._CLOSE_WITHIN", 0.1)
    close, closed = SocketModeClient.close, []

    async def wait_for_goodbye(client: SocketModeClient) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await close(client)  # type: ignore[no-untyped-call]
            closed.append(client)

    monkeypatch.setattr(SocketModeClient, "close", wait_for_goodbye)
    async with ears_for(slack) as (ears, _):
        await ears.open()
        await heard(ears, HEARD)
        await ears.close()
        await until(lambda: len(closed) == CONNECTIONS)


async def test_over_http_it_is_heard_where_it_listens(slack: PracticeSlack) -> None:
    async with ears_for(slack, listen=Listen("127.0.0.1", 0)) as (ears, _):
        assert (await ears.hear())[0] is False
        with capture_logs() as logs:
            await ears.open()
        [fact] = logs
        assert await ears.hear() == (True, f"listens on 127.0.0.1:{fact['port']}")
        port = fact["port"]
    with socket.create_server(("127.0.0.1", port)):
        pass  # it is free again


@pytest.mark.parametrize("body", [b"{nope", b"[1, 2]", b'"text"', b"null", b"\xff\xfe", b"[" * 100_000])
async def test_what_anybody_may_send_is_refused_and_is_no_fault(slack: PracticeSlack, body: bytes) -> None:
    async with ears_for(slack, listen=Listen("127.0.0.1", 0)) as (ears, _):
        with capture_logs() as logs:
            await ears.open()
        url = f"http://127.0.0.1:{logs[0]['port']}{HTTP_PATH}"
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(url, content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code in {400, 401}
            assert answer.json() == {"error": "invalid request"}
            assert (await client.post(url, json={"type": "event_callback"})).status_code == 401


async def test_a_port_that_is_taken_is_a_fault_of_the_configuration(slack: PracticeSlack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = Listen("127.0.0.1", taken.getsockname()[1])
        async with ears_for(slack, listen=listen) as (ears, _):
            with pytest.raises(ConfigurationInvalid, match="--listen: "):
                await ears.open()


async def test_it_goes_on_until_it_is_ended(slack: PracticeSlack) -> None:
    async with ears_for(slack) as (ears, _):
        await ears.open()
        running = asyncio.create_task(ears.run())
        await until(lambda: all(task.done() for task in ears._connecting))
        await asyncio.sleep(0)
        assert not running.done()
        running.cancel()
        await asyncio.wait({running})

"""Socket Mode: hello, acknowledgements, several connections."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from bot.practice.slack_socket import MOST_CONNECTIONS, Envelope
from tests.support.slack_app import ALICE, OPS, bolt_app, connected, practice_slack, web_client

if TYPE_CHECKING:
    from bot.practice.slack import PracticeSlack

COMMAND = Envelope("slash_commands", {"command": "/kimi"})
EVENT = Envelope("events_api", {"event": {}}, retry=1, retry_reason="http_timeout")


async def address(slack: PracticeSlack) -> str:
    answer = await web_client(slack, slack.app_token).apps_connections_open(app_token=slack.app_token)
    return str(answer["url"])


async def link(slack: PracticeSlack, session: aiohttp.ClientSession) -> aiohttp.ClientWebSocketResponse:
    """A raw connection that has heard hello."""
    connection = await session.ws_connect(await address(slack))
    hello = await connection.receive_json()
    assert hello["type"] == "hello"
    return connection


async def answer(connection: aiohttp.ClientWebSocketResponse, payload: Any = None) -> dict[str, Any]:
    envelope: dict[str, Any] = await connection.receive_json()
    note = {"envelope_id": envelope["envelope_id"]}
    await connection.send_json(note if payload is None else {**note, "payload": payload})
    return envelope


async def test_a_ticket_is_good_for_one_connection() -> None:
    async with practice_slack() as slack, aiohttp.ClientSession() as session:
        url = await address(slack)
        async with session.ws_connect(url) as connection:
            assert (await connection.receive_json())["connection_info"] == {"app_id": "A0KIMI"}
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await session.ws_connect(url)


async def test_an_envelope_goes_to_one_connection_each_in_turn() -> None:
    async with practice_slack() as slack, aiohttp.ClientSession() as session:
        heard = {"a": 0, "b": 0}
        connections = {name: await link(slack, session) for name in heard}
        for _ in range(4):
            waiting = slack.sockets.deliver(COMMAND)
            heard[await first_to_hear(connections, waiting)] += 1
        assert heard == {"a": 2, "b": 2}


async def first_to_hear(connections: dict[str, aiohttp.ClientWebSocketResponse], waiting: Any) -> str:
    task = asyncio.create_task(waiting)
    hearing = {asyncio.create_task(answer(connection), name=name) for name, connection in connections.items()}
    done, rest = await asyncio.wait(hearing, return_when=asyncio.FIRST_COMPLETED)
    for listener in rest:
        listener.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    assert (await task).acknowledged
    return done.pop().get_name()


async def test_an_event_tells_its_retries_and_takes_no_answer() -> None:
    async with practice_slack() as slack, aiohttp.ClientSession() as session:
        connection = await link(slack, session)
        waiting = asyncio.create_task(slack.sockets.deliver(EVENT))
        envelope = await answer(connection, {"text": "ignored"})
        assert (envelope["retry_attempt"], envelope["retry_reason"]) == (1, "http_timeout")
        assert envelope["accepts_response_payload"] is False
        assert (await waiting).payload is None
        assert [note.error for note in slack.warnings] == ["payload_ignored"]


async def test_the_eleventh_connection_is_sent_away() -> None:
    async with practice_slack() as slack, aiohttp.ClientSession() as session:
        held = [await link(slack, session) for _ in range(MOST_CONNECTIONS)]
        async with session.ws_connect(await address(slack)) as connection:
            assert await connection.receive_json() == {"type": "disconnect", "reason": "too_many_websockets"}
        assert len(held) == len(slack.sockets.connections)


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
async def test_an_answer_to_nothing_is_noted(text: str) -> None:
    async with practice_slack() as slack, aiohttp.ClientSession() as session:
        connection = await link(slack, session)
        await connection.send_str(text)
        await slack.wait_for(lambda s: [r.error for r in s.refusals] == ["invalid_envelope"], 60)


async def test_a_late_acknowledgement_changes_nothing() -> None:
    async with practice_slack(ack_timeout=0.05) as slack, aiohttp.ClientSession() as session:
        connection = await link(slack, session)
        taken = await slack.sockets.deliver(COMMAND)
        assert (taken.acknowledged, taken.error) == (False, "operation_timeout")
        await answer(connection)
        slack.sockets.ack_timeout = 3
        waiting = asyncio.create_task(slack.sockets.deliver(COMMAND))
        await answer(connection, {"text": "now"})
        assert (await waiting).payload == {"text": "now"}
        assert slack.refusals == []


@pytest.mark.parametrize("reason", ["warning", "refresh_requested", "link_disabled"])
async def test_a_refreshed_app_hears_the_next_command(reason: str) -> None:
    async with practice_slack() as slack:
        app = bolt_app(slack)

        @app.command("/kimi")
        async def _kimi(ack: Any) -> None:
            await ack()

        async with connected(slack, app):
            await slack.wait_for(lambda s: s.sockets.connections, 60)
            await slack.sockets.disconnect(reason)
            await slack.wait_for(lambda s: s.sockets.opened == 2 and s.sockets.connections, 60)
            assert (await slack.slash(ALICE, OPS, "status")).acknowledged


async def test_a_cut_connection_comes_back() -> None:
    async with practice_slack() as slack:
        app = bolt_app(slack)

        @app.command("/kimi")
        async def _kimi(ack: Any) -> None:
            await ack()

        async with connected(slack, app):
            await slack.wait_for(lambda s: s.sockets.connections, 60)
            slack.sockets.drop()
            assert (await slack.slash(ALICE, OPS, "status")).error == "dispatch_failed"
            await slack.wait_for(lambda s: s.sockets.opened == 2 and s.sockets.connections, 60)
            assert (await slack.slash(ALICE, OPS, "status")).acknowledged


@pytest.mark.parametrize("delivered", [True, False])
async def test_a_socket_dropped_under_an_envelope(delivered: bool) -> None:
    async with practice_slack(ack_timeout=0.2) as slack, aiohttp.ClientSession() as session:
        connection = await link(slack, session)
        slack.faults.add("socket", slack.faults.drop_socket(delivered=delivered))
        assert (await slack.sockets.deliver(COMMAND)).error == "operation_timeout"
        frame = await connection.receive()
        heard = frame.type == aiohttp.WSMsgType.TEXT and json.loads(frame.data)["payload"]
        assert bool(heard) is delivered
        assert slack.sockets.connections == []

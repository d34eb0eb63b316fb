"""The Home tab and what it offers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bot.core.monitor_state import Mute
from bot.core.request import Outage
from bot.practice.slack_state import PostedMessage
from tests.support.configurations import ALICE, MALLORY
from tests.support.handler_room import HOST, Room, make_operation, open_room

if TYPE_CHECKING:
    from tests.support.redis import RedisServer


async def home(room: Room, user: str) -> str:
    await room.slack.open_home(user)
    view = await room.wait_for(lambda: room.slack.home(user))
    return PostedMessage("", "", "", "", blocks=tuple(view.content["blocks"])).plain


async def test_an_operator_sees_each_service(room: Room) -> None:
    told = await home(room, ALICE)
    assert "I listen in <#C0OPS>." in told
    assert "*kimi-k2.5*\nno start on record yet" in told
    assert "Restart…" in told


async def test_others_are_told_where_to_ask_and_nothing_more(room: Room) -> None:
    told = await home(room, MALLORY)
    assert "I listen in <#C0OPS>." in told
    assert "kimi-k2.5" not in told


async def test_what_is_under_way_is_shown(room: Room) -> None:
    await room.hold()
    assert "loading weights 12/64" in await home(room, ALICE)


async def test_the_last_verdict_is_shown(room: Room) -> None:
    operation = make_operation()
    await room.store.save(operation)
    closed = operation.model_copy(update={"closed": operation.began, "verdict": "healthy"})
    await room.store.finish(closed)
    assert "last restart: healthy, begun 2026-05-29 23:49 UTC" in await home(room, ALICE)


async def test_what_is_down_comes_before_how_its_last_start_ended(room: Room) -> None:
    room.incidents.outage = Outage("3f9a2c11", "the host does not answer SSH", timedelta(minutes=4))
    told = await home(room, ALICE)
    assert "*kimi-k2.5*\nincident 3f9a2c11, open for 4m: the host does not answer SSH · no start on" in told


async def test_what_is_muted_is_shown(room: Room) -> None:
    room.incidents.muted = Mute(datetime(2026, 5, 30, 1, 5, tzinfo=UTC), None, "", HOST)
    assert "no start on record yet · muted with its host llm-two until 2026-05-30 01:05 UTC" in await home(
        room, ALICE
    )


async def test_without_redis_the_tab_says_so(own_redis: RedisServer) -> None:
    async with open_room(own_redis.url) as room:
        own_redis.kill()
        assert "Redis does not answer" in await home(room, ALICE)


async def test_another_tab_publishes_nothing(room: Room) -> None:
    from bot.practice.slack_socket import Envelope  # noqa: PLC0415 - only this test speaks in envelopes

    event = {"type": "app_home_opened", "user": MALLORY, "tab": "messages", "channel": "D1"}
    body = {"type": "event_callback", "event": event, "event_id": "Ev1", "team_id": "T1"}
    assert (await room.slack.people.courier.deliver(Envelope("events_api", body))).acknowledged
    await home(room, ALICE)
    assert room.slack.home(MALLORY) is None
    assert json.dumps([call.method for call in room.slack.calls]).count("views.publish") == 1

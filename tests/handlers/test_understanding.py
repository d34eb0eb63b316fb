"""The same words mean what the place and the thread say, and only to whom they may be said."""

from __future__ import annotations

import pytest

from bot.core.access import Denied
from bot.core.command import Command, Word
from bot.core.events import ChannelId, MessageTs, ServiceName, UserId
from bot.core.grammar import Misunderstood
from handlers.turns import Speaker
from handlers.understanding import Understanding
from tests.support.configurations import ALICE, BOB, MALLORY, OPS, configure
from tests.support.handler_room import INCIDENT, Room, open_room
from tests.support.outgoing import holder, operation

OWN = "C0OWN"


def speaker(user: str = ALICE, channel: str | None = OPS, ts: str | None = None) -> Speaker:
    return Speaker(UserId(user), ChannelId(channel) if channel else None, MessageTs(ts) if ts else None)


async def test_a_channel_hears_of_its_own_services_alone(redis_url: str) -> None:
    configuration = configure("a1", "b2", b2={"channel": OWN})
    async with open_room(redis_url, configuration) as room:
        understanding = Understanding(room.parts)
        assert understanding.visible(speaker(channel=OWN)) == ("b2",)
        assert understanding.visible(speaker()) == ("a1", "b2")
        assert understanding.visible(speaker(channel=None)) == ("a1", "b2")
        elsewhere = await understanding.judge(Word.RESTART, ServiceName("a1"), speaker(channel=OWN))
        assert elsewhere is not None
        assert elsewhere.channels == (OPS,)
        assert await understanding.parse("restart", speaker(channel=OWN)) == Command(
            Word.RESTART, ServiceName("b2")
        )
        assert isinstance(await understanding.parse("restart a1", speaker(channel="C0ELSE")), Denied)


async def test_a_thread_says_which_service_and_which_incident_is_meant(redis_url: str) -> None:
    async with open_room(redis_url, configure("a1", "b2")) as room:
        understanding = Understanding(room.parts)
        ts = await room.post_thread(operation(service=ServiceName("b2"), channel=ChannelId(OPS)))
        assert await understanding.parse("restart", speaker(ts=ts)) == Command(
            Word.RESTART, ServiceName("b2")
        )
        assert isinstance(await understanding.parse("restart", speaker()), Misunderstood)
        room.incidents.thread, room.incidents.service = "9.9", ServiceName("a1")
        assert await understanding.parse("ack", speaker(ts="9.9")) == Command(
            Word.ACK, ServiceName("a1"), incident=INCIDENT
        )


@pytest.mark.parametrize(("user", "may"), [(ALICE, True), (BOB, True), (MALLORY, False)])
async def test_who_may_act_is_asked_of_people_and_groups(room: Room, user: str, *, may: bool) -> None:
    denied = await Understanding(room.parts).judge(Word.RESTART, ServiceName("kimi-k2.5"), speaker(user))
    assert (denied is None) is may


async def test_who_started_it_may_let_it_go(room: Room) -> None:
    understanding = Understanding(room.parts)
    name, unwatch = ServiceName("kimi-k2.5"), Command(Word.UNWATCH, ServiceName("kimi-k2.5"))
    assert await understanding.starter(unwatch) is None
    assert await room.store.take(holder(service=name, by=UserId(BOB))) is None
    assert await understanding.starter(unwatch) == BOB
    assert await understanding.starter(Command(Word.RESTART, name)) is None  # for all who may, alike
    assert await understanding.judge(Word.UNWATCH, name, speaker(BOB), starter=UserId(BOB)) is None

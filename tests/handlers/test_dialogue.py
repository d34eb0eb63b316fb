"""What happens when something goes wrong on the way of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.core.events import ChannelId, ServiceName, UserId
from bot.errors import HostUnreachable, StoreUnavailable
from handlers.dialogue import Dialogue, Speaker
from tests.support.configurations import ALICE, OPS, configure
from tests.support.handler_room import Room, open_room

if TYPE_CHECKING:
    from bot.core.blocks import Message
    from tests.support.redis import RedisServer

SPEAKER = Speaker(UserId(ALICE), ChannelId(OPS))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (StoreUnavailable("gone"), "Redis does not answer; nothing was done. Try again in a minute."),
        (HostUnreachable("llm-two", "llm-two does not answer."), "llm-two does not answer."),
        (ValueError("secret detail"), "Something broke inside kimi; its log says what."),
    ],
)
async def test_what_goes_wrong_is_told_in_one_sentence(room: Room, error: Exception, told: str) -> None:
    room.startups.error = error
    answer = await room.slash(ALICE, "restart")
    assert answer is not None
    assert answer.text.startswith(told)
    assert room.slack.channel_messages(OPS) == []


async def test_without_redis_nothing_is_done_and_that_is_told(own_redis: RedisServer) -> None:
    async with open_room(own_redis.url) as room:
        own_redis.kill()
        answer = await room.slash(ALICE, "restart")
        told = answer.text if answer is not None else (await room.whisper(ALICE)).plain
        assert told == "Redis does not answer; nothing was done. Try again in a minute."
        assert not room.startups.requests


class BrokenVoice:
    def __init__(self) -> None:
        self.tried: list[str] = []

    async def tell(self, message: Message) -> None:
        self.tried.append(message.text)
        raise ConnectionResetError


async def test_a_person_who_cannot_be_reached_breaks_nothing(room: Room) -> None:
    voice = BrokenVoice()
    dialogue = Dialogue(room.parts)
    await dialogue.hear("status", token="t1", speaker=SPEAKER, voice=voice)
    assert len(voice.tried) == 2


async def test_the_home_tab_hears_no_logs(room: Room) -> None:
    from bot.core.command import Command, Word  # noqa: PLC0415 - for this one command

    told: list[str] = []

    class Voice:
        async def tell(self, message: Message) -> None:
            told.append(message.text)

    home = Speaker(UserId(ALICE), None)
    command = Command(Word.LOGS, ServiceName("kimi-k2.5"))
    await Dialogue(room.parts).obey(command, token="t2", speaker=home, voice=Voice(), confirmed=True)
    assert told == ["Ask for logs in a channel."]


async def test_a_service_must_be_said_where_several_are(redis_url: str) -> None:
    async with open_room(redis_url, configure("a1", "b2")) as room:
        answer = await room.slash(ALICE, "watch")
        assert answer is not None
        assert answer.text == "Which service? `watch` `a1` or `b2`."

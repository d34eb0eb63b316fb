"""What happens when something goes wrong on the way of a command."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from bot.clients.records import Intent
from bot.core.events import HostName, OperationId, ServiceName, UserId, Verb
from bot.core.request import Busy, Declined, Held, NeedsConfirmation, Outage, RequestAnswer, Started
from bot.errors import HostUnreachable, StoreUnavailable
from handlers.dialogue import Dialogue
from handlers.turns import Turn
from tests.support.configurations import ALICE, BOB, MALLORY, OPS, configure
from tests.support.handler_room import Room, open_room
from tests.support.startup_views import seconds

if TYPE_CHECKING:
    from bot.core.blocks import Message
    from tests.support.redis import RedisServer

HELD = Held(OperationId("op1"), ServiceName("kimi-k2.5"), Verb.RESTART, UserId(BOB), seconds(120))


def intent(**changes: Any) -> Intent:
    asked = {"token": "t1", "owner": "nobody", "at": datetime.now(UTC), "user": ALICE, "channel": OPS}
    return Intent.model_validate(asked | changes)


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
    assert answer.text.startswith(told)
    assert room.slack.channel_messages(OPS) == []


async def test_without_redis_nothing_is_done_and_that_is_told(own_redis: RedisServer) -> None:
    async with open_room(own_redis.url) as room:
        own_redis.kill()
        answer = await room.slash(ALICE, "restart")
        assert answer.text == "Redis does not answer; nothing was done. Try again in a minute."
        assert not room.startups.requests


@pytest.mark.parametrize(
    ("user", "words", "answer", "noted"),
    [
        (ALICE, "restart", Started(OperationId("op1")), ["started"]),
        (ALICE, "restart", Busy(HELD), ["busy"]),
        (ALICE, "stop", Declined("llm-two does not answer."), ["declined"]),
        (ALICE, "stop", NeedsConfirmation("It answers."), ["confirmation asked"]),
        (MALLORY, "start", Started(OperationId("op1")), ["refused"]),
        (ALICE, "unwatch", Started(OperationId("op1")), ["done"]),
        (ALICE, "reload", Started(OperationId("op1")), ["done"]),
        (ALICE, "status", Started(OperationId("op1")), []),
        (ALICE, "restrat", Started(OperationId("op1")), []),
    ],
)
async def test_what_acts_is_noted_with_what_came_of_it(
    room: Room, user: str, words: str, answer: RequestAnswer, noted: list[str]
) -> None:
    room.startups.answer = answer
    await room.slash(user, words)
    await room.settled()
    entries = await room.store.audits(10)
    assert [entry.outcome for entry in entries] == noted
    assert [(entry.user, entry.verb, entry.service) for entry in entries] == [
        (user, words, "kimi-k2.5") for _ in noted
    ]


class BrokenVoice:
    def __init__(self) -> None:
        self.tried: list[str] = []

    async def tell(self, message: Message) -> None:
        self.tried.append(message.text)
        raise ConnectionResetError


async def test_a_person_who_cannot_be_reached_breaks_nothing(room: Room) -> None:
    voice = BrokenVoice()
    await Dialogue(room.parts).answer(Turn(room.parts, intent(words="status"), voice))
    assert len(voice.tried) == 1


class HeardVoice:
    def __init__(self) -> None:
        self.told: list[str] = []

    async def tell(self, message: Message) -> None:
        self.told.append(message.text)


@pytest.mark.parametrize(
    ("words", "early", "final"),
    [
        ("restart", "No restart of `kimi-k2.5` has begun yet; what", "Restarting `kimi-k2.5`"),
        ("logs 10m", "llm-two has not answered for 4s; still trying. What", None),
    ],
)
async def test_a_silent_host_is_told_before_the_answer_with_what_is_known_of_its_outage(
    room: Room, words: str, early: str, final: str | None
) -> None:
    voice = HeardVoice()
    room.startups.silent = (HostName("llm-two"),)
    room.incidents.outage = Outage("3f9a2c11", "llm-two cannot be reached", age=seconds(240))
    await Dialogue(room.parts).answer(Turn(room.parts, intent(words=words), voice))
    assert len(room.startups.requests) == (words == "restart")
    [notice] = [told for told in voice.told if "has not answered for 4s" in told]
    assert early in notice
    assert "llm-two cannot be reached" in notice
    if final is not None:
        assert voice.told[-1].startswith(final)
        assert len(voice.told) == 2


async def test_a_silent_host_is_told_where_redis_went_away_meanwhile(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def outage_of(service: ServiceName) -> Outage | None:
        raise StoreUnavailable(service)

    monkeypatch.setattr(room.incidents, "outage_of", outage_of)
    voice = HeardVoice()
    room.startups.silent = (HostName("llm-two"), HostName("llm-three"))
    await Dialogue(room.parts).answer(Turn(room.parts, intent(words="stop"), voice))
    assert voice.told[0].startswith("llm-two and llm-three have not answered for 4s; still trying. No stop")


@pytest.mark.parametrize(
    ("words", "answer", "told"),
    [
        (
            "stop",
            NeedsConfirmation("It answers requests at present."),
            "Stop `kimi-k2.5`? Its health check passes, ",
        ),
        ("watch", Declined("Nothing is starting."), "Nothing is starting. But "),
    ],
)
async def test_what_a_quick_look_finds_well_is_told_beside_its_outage(
    room: Room, words: str, answer: RequestAnswer, told: str
) -> None:
    room.startups.answer = answer
    room.incidents.outage = Outage("3f9a2c11", "a completion fails", seconds(240), is_down=True)
    said = (await room.slash(ALICE, words)).text
    assert said.startswith(told)
    assert "incident 3f9a2c11 is open, for 4m: a completion fails." in said
    room.incidents.outage = Outage("3f9a2c11", "answers slowly", seconds(240))
    voice = HeardVoice()
    await Dialogue(room.parts).answer(Turn(room.parts, intent(words=words), voice))
    assert "incident" not in voice.told[-1]


async def test_what_cannot_be_begun_says_nothing_of_an_outage(room: Room) -> None:
    room.startups.answer = Declined("kimi-k2.5 does not run: there is nothing to stop.")
    room.incidents.outage = Outage("3f9a2c11", "a completion fails", seconds(240), is_down=True)
    assert (await room.slash(ALICE, "stop")).text == "kimi-k2.5 does not run: there is nothing to stop."


async def test_a_command_nobody_can_read_is_answered(room: Room) -> None:
    voice = HeardVoice()
    turn = Turn(room.parts, intent(command='{"verb": "dance"}'), voice)
    await Dialogue(room.parts).answer(turn)
    await Dialogue(room.parts).decline(turn)
    assert voice.told == ["I cannot read this button any more. Type the command instead."]


async def test_a_service_must_be_said_where_several_are(redis_url: str) -> None:
    async with open_room(redis_url, configure("a1", "b2")) as room:
        answer = await room.slash(ALICE, "watch")
        assert answer.text == "Which service? `watch` `a1` or `b2`."

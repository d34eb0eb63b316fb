"""An answer is kept before it is told, and told whatever becomes of Redis."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from bot.clients.records import Intent
from bot.clock import Clock, Origin
from bot.core.answers import render_sentence
from bot.core.command import Command, Outcome, Word
from bot.core.events import ChannelId, OperationId, ServiceName, UserId
from bot.errors import HostUnreachable, StoreUnavailable
from handlers.turns import Turn, ending
from tests.support.configurations import ALICE, OPS
from tests.support.handler_room import Room, open_room

if TYPE_CHECKING:
    from bot.clients.records import AuditEntry
    from bot.core.blocks import Message
    from tests.support.redis import RedisServer

HELLO = render_sentence("hello")


class Voice:
    def __init__(self) -> None:
        self.told: list[str] = []

    async def tell(self, message: Message) -> None:
        self.told.append(message.text)


async def open_turn(room: Room, word: Word = Word.RESTART) -> tuple[Turn, Voice]:
    voice = Voice()
    intent = Intent(
        token="t1",
        owner=room.intents.owner,
        at=datetime.now(UTC),
        user=UserId(ALICE),
        channel=ChannelId(OPS),
        words=word,
    )
    assert await room.store.intend(intent, 60)
    command = Command(word, ServiceName("kimi-k2.5"), reason="new parser")
    return Turn(room.parts, intent, voice, command), voice


async def audits(room: Room) -> list[AuditEntry]:
    return await room.store.audits(10)


async def test_what_was_decided_is_told_and_noted(room: Room) -> None:
    turn, voice = await open_turn(room)
    await turn.conclude(HELLO, Outcome.STARTED, operation=OperationId("op1"))
    assert voice.told == ["hello"]
    (entry,) = await audits(room)
    assert (entry.user, entry.channel, entry.verb, entry.service) == (ALICE, OPS, "restart", "kimi-k2.5")
    assert (entry.operation, entry.reason, entry.outcome) == ("op1", "new parser", "started")
    (kept,) = await room.store.intents()
    other = Voice()
    await replace(turn, intent=kept, voice=other).repeat(kept.decided)
    assert other.told == ["hello"]


async def test_it_is_noted_by_the_clock_that_times_what_it_is_about(room: Room) -> None:
    turn, _ = await open_turn(room)
    told = datetime.now(UTC) + timedelta(minutes=5)
    clock = Clock(origin=Origin(told, time.monotonic()))
    await replace(turn, parts=replace(turn.parts, clock=clock)).conclude(HELLO, Outcome.STARTED)
    (entry,) = await audits(room)
    assert entry.at >= told


async def test_a_question_leaves_no_trace(room: Room) -> None:
    turn, voice = await open_turn(room, Word.STATUS)
    await turn.conclude(HELLO, Outcome.DONE)
    await turn.note(Outcome.DONE)
    assert voice.told == ["hello"]
    assert await audits(room) == []


async def test_who_lost_the_intent_to_another_process_is_silent(room: Room) -> None:
    turn, voice = await open_turn(room)
    assert await room.store.adopt_intent(turn.intent, "another")
    await turn.conclude(HELLO, Outcome.BUSY)
    assert voice.told == []
    assert await audits(room) == []


async def test_an_intent_that_is_nowhere_is_answered(room: Room) -> None:
    """Redis came back empty."""
    turn, voice = await open_turn(room)
    await room.store.settle_intent(turn.intent.token)
    await turn.conclude(HELLO, Outcome.BUSY)
    assert voice.told == ["hello"]


async def test_without_redis_the_answer_is_told_and_the_audit_is_logged(own_redis: RedisServer) -> None:
    async with open_room(own_redis.url) as room:
        turn, voice = await open_turn(room)
        own_redis.kill()
        await turn.conclude(HELLO, Outcome.STARTED)
        assert voice.told == ["hello"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (StoreUnavailable("gone"), "Redis does not answer; nothing was done. Try again in a minute."),
        (HostUnreachable("llm-two", "llm-two does not answer."), "llm-two does not answer."),
    ],
)
async def test_what_failed_is_noted(room: Room, error: Exception, told: str) -> None:
    turn, voice = await open_turn(room)
    async with ending(turn):
        raise error
    assert voice.told == [told]
    assert [entry.outcome for entry in await audits(room)] == ["failed"]

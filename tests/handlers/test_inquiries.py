"""What is only asked: where logs cannot come, how much of them was meant, and whose services are told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from bot.clients.records import Intent
from bot.core.command import Command, Word
from bot.core.events import ServiceName
from bot.core.request import Outage
from handlers.dialogue import COMMAND, Dialogue
from handlers.turns import Turn
from tests.support.configurations import ALICE, OPS

if TYPE_CHECKING:
    from bot.core.blocks import Message
    from tests.support.handler_room import Room

KIMI = ServiceName("kimi-k2.5")


class Voice:
    def __init__(self) -> None:
        self.told: list[str] = []

    async def tell(self, message: Message) -> None:
        self.told.append(message.text)


async def ask(room: Room, **changes: Any) -> list[str]:
    asked = {"token": "t1", "owner": "nobody", "at": datetime.now(UTC), "user": ALICE, "channel": OPS}
    voice = Voice()
    await Dialogue(room.parts).answer(Turn(room.parts, Intent.model_validate(asked | changes), voice))
    return voice.told


async def test_the_home_tab_hears_no_logs(room: Room) -> None:
    command = COMMAND.dump_json(Command(Word.LOGS, KIMI)).decode()
    assert await ask(room, channel=None, command=command) == ["Ask for logs in a channel."]
    assert room.startups.calls == []


@pytest.mark.parametrize(
    ("words", "told", "lines", "since"),
    [
        ("logs", "the end", None, None),
        ("logs 200", "the last 200 lines", 200, None),
        ("logs 10m", "the last 10m", None, timedelta(minutes=10)),
    ],
)
async def test_how_much_of_a_log_is_meant_is_said_and_asked_for(
    room: Room, words: str, told: str, lines: int | None, since: timedelta | None
) -> None:
    assert await ask(room, words=words) == [f"Fetching {told} of `kimi-k2.5`; the file comes here."]
    [(_, service, asked)] = room.startups.calls
    assert (service, asked["lines"], asked["since"]) == (KIMI, lines, since)


async def test_why_logs_do_not_come_is_told_after_that_they_would(room: Room) -> None:
    room.startups.refused = "llm-two: no answer."
    assert (await ask(room, words="logs"))[1:] == ["llm-two: no answer."]


async def test_of_an_open_outage_what_is_over_is_not_told(room: Room) -> None:
    room.incidents.outage = Outage("3f9a2c11", "it hangs", timedelta(minutes=4))
    room.incidents.before = Outage("beefbeef", "it died", timedelta(days=1), over=timedelta(hours=20))
    [told] = await ask(room, words="why")
    assert "3f9a2c11" in told
    assert "beefbeef" not in told

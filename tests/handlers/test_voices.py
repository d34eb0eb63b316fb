"""Where answers go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bot.core.answers import render_sentence
from bot.practice.slack_faults import Status
from handlers.voices import SlashVoice
from tests.support.configurations import ALICE, OPS

if TYPE_CHECKING:
    from tests.support.handler_room import Room

HELLO = render_sentence("hello")


class Ack:
    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    async def __call__(self, **said: Any) -> None:
        self.calls.append(said)


async def test_a_slash_command_is_acknowledged_once() -> None:
    ack = Ack()
    voice = SlashVoice(ack, None)  # type: ignore[arg-type]
    await voice.tell(HELLO)
    await voice.acknowledge()
    assert [said["text"] for said in ack.calls] == ["hello"]
    silent = Ack()
    voice = SlashVoice(silent, None)  # type: ignore[arg-type]
    await voice.acknowledge()
    await voice.acknowledge()
    assert silent.calls == [{}]


async def test_an_answer_slack_does_not_take_breaks_nothing(room: Room) -> None:
    room.startups.gate.clear()
    assert (await room.slack.slash(ALICE, OPS, "status")).response is None
    room.slack.faults.add("response_url", Status(500))
    room.startups.gate.set()
    await room.settled()
    assert not room.slack.ephemerals(ALICE)

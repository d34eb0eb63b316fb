"""Where answers go."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from bot.clients.records import Intent
from bot.core.answers import render_confirmation, render_sentence
from bot.core.events import ServiceName, UserId, Verb
from bot.core.request import NeedsConfirmation, Request
from bot.practice.slack_faults import ErrorCode, Fault, RateLimited, ResetAfterAccept, Status
from handlers.voices import ModalVoice, SlashVoice, restore_voice
from tests.support.configurations import ALICE, OPS

if TYPE_CHECKING:
    from tests.support.handler_room import Room

DIRECT = f"D{ALICE[1:]}"
HELLO = render_sentence("hello")


class Ack:
    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    async def __call__(self, **said: Any) -> None:
        self.calls.append(said)


async def test_a_slash_command_is_acknowledged_once() -> None:
    ack = Ack()
    voice = SlashVoice(ack, None, None)  # type: ignore[arg-type]
    await voice.tell(HELLO)
    await voice.acknowledge()
    assert [said["text"] for said in ack.calls] == ["hello"]
    silent = Ack()
    voice = SlashVoice(silent, None, None)  # type: ignore[arg-type]
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


async def fell_back(room: Room) -> None:
    """A slash command whose answer comes late, through its response_url."""
    room.startups.gate.clear()
    assert (await room.slack.slash(ALICE, OPS, "restart")).response is None
    room.startups.gate.set()
    await room.settled()


@pytest.mark.parametrize("fault", [ErrorCode("expired_url"), ErrorCode("used_url"), RateLimited(30)])
async def test_where_the_response_url_is_spent_the_answer_is_whispered_in_the_channel(
    room: Room, fault: Fault
) -> None:
    room.slack.faults.add("response_url", fault, None)
    await fell_back(room)
    [answer] = room.slack.ephemerals(ALICE)
    assert answer.text.startswith("Restarting `kimi-k2.5`")
    assert answer.channel == OPS
    assert len(room.startups.requests) == 1


async def test_where_neither_response_url_nor_channel_take_it_the_person_is_told_aside(room: Room) -> None:
    room.slack.faults.add("response_url", ErrorCode("expired_url"), None)
    room.slack.faults.add("chat.postEphemeral", ErrorCode("not_in_channel"), None)
    await fell_back(room)
    [aside] = room.slack.workspace.messages(DIRECT)
    assert aside.text.startswith("Restarting `kimi-k2.5`")
    assert "`not_in_channel`" in aside.text
    assert len(room.startups.requests) == 1


async def test_blocks_the_response_url_refuses_come_through_it_as_plain_text(room: Room) -> None:
    room.slack.faults.add("response_url", ErrorCode("invalid_blocks"))
    await fell_back(room)
    [answer] = room.slack.ephemerals(ALICE)
    assert answer.text.startswith("Restarting `kimi-k2.5`")
    assert "`invalid_blocks`" in answer.text
    assert answer.blocks == ()


async def test_what_a_response_url_may_have_taken_is_not_told_twice(room: Room) -> None:
    room.slack.faults.add("response_url", ResetAfterAccept(), None)
    await fell_back(room)
    assert {answer.text for answer in room.slack.ephemerals(ALICE)} == {room.slack.ephemerals(ALICE)[0].text}
    assert DIRECT not in room.slack.workspace.channels


async def test_a_pressed_question_whose_response_url_is_spent_is_answered_all_the_same(room: Room) -> None:
    question = render_confirmation(
        Request(ServiceName("kimi-k2.5"), Verb.RESTART, UserId(ALICE)), NeedsConfirmation("It answers.")
    )
    room.slack.faults.add("response_url", ErrorCode("used_url"), None)
    ts = await room.whisper_buttons(ALICE, question)
    await room.slack.press(ALICE, OPS, ts, "kimi:confirm")
    answer = await room.whisper(ALICE, 2)
    assert answer.text.startswith("Restarting `kimi-k2.5`")


async def test_an_answer_for_a_modal_that_was_closed_is_told_aside(room: Room) -> None:
    room.slack.faults.add("views.update", ErrorCode("not_found"), None)
    await ModalVoice(None, room.parts.client, "V1", ALICE).tell(HELLO)
    [aside] = room.slack.workspace.messages(DIRECT)
    assert aside.text.startswith("hello\nTold here, because Slack would not show it to you there")


async def test_what_nobody_heard_here_and_no_place_is_known_of_is_told_aside(room: Room) -> None:
    intent = Intent(token="t1", owner="dead", at=datetime.now(UTC), user=UserId(ALICE))
    await restore_voice(room.parts.client, intent).tell(HELLO)
    [aside] = room.slack.workspace.messages(DIRECT)
    assert aside.text == "hello\nTold here, because kimi went down before it could answer you."

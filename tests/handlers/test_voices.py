"""Where answers go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from bot.core.answers import render_sentence
from bot.practice.slack_faults import ErrorCode, Status
from handlers.voices import SlashVoice
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


@pytest.mark.parametrize(
    "code", ["user_not_in_channel", "unknown_method", "channel_not_found", "ratelimited"]
)
async def test_what_slack_will_not_show_there_is_told_in_the_conversation_with_who_asked(
    room: Room, code: str
) -> None:
    room.slack.faults.add("chat.postEphemeral", ErrorCode(code), None)
    await room.slack.mention(ALICE, OPS, "status")
    await room.settled()
    [aside] = room.slack.workspace.messages(DIRECT)
    assert aside.text.startswith("*kimi-k2.5* is *healthy*")
    assert f"Asked in <#{OPS}>; told here" in aside.text
    assert room.slack.ephemerals(ALICE) == []


async def test_what_may_have_arrived_is_not_told_twice(room: Room) -> None:
    room.slack.faults.add("chat.postEphemeral", ErrorCode("internal_error", accept=True), None)
    await room.slack.mention(ALICE, OPS, "status")
    await room.settled()
    assert len(room.slack.ephemerals(ALICE)) == 1
    assert DIRECT not in room.slack.workspace.channels


async def test_where_no_way_is_left_the_log_has_it(room: Room) -> None:
    room.slack.faults.add("chat.postEphemeral", ErrorCode("user_not_in_channel"), None)
    room.slack.faults.add("chat.postMessage", ErrorCode("messages_tab_disabled"), None)
    with capture_logs() as logs:
        await room.slack.mention(ALICE, OPS, "restart")
        await room.settled()
    [lost] = [entry for entry in logs if entry["event"] == "answer_not_delivered"]
    assert lost["text"].startswith("Restarting `kimi-k2.5`")
    assert len(room.startups.requests) == 1

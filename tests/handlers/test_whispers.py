"""What one person is told through the Web API arrives somewhere, once, in whatever form Slack takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from bot.errors import SlackBusy, SlackRefused, SlackUncertain
from bot.practice.slack_faults import ErrorCode
from handlers.whispers import read_failure
from tests.support.configurations import ALICE, OPS

if TYPE_CHECKING:
    from tests.support.handler_room import Room

DIRECT = f"D{ALICE[1:]}"


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


@pytest.mark.parametrize("code", ["invalid_blocks", "msg_too_long", "msg_blocks_too_long"])
async def test_blocks_that_slack_refuses_come_as_plain_text(room: Room, code: str) -> None:
    room.slack.faults.add("chat.postEphemeral", ErrorCode(code))
    await room.slack.mention(ALICE, OPS, "status")
    await room.settled()
    [answer] = room.slack.ephemerals(ALICE)
    assert answer.text.startswith("*kimi-k2.5* is *healthy*")
    assert answer.text.endswith(f"Slack answers `{code}` to all of it.")
    assert answer.blocks == ()
    assert DIRECT not in room.slack.workspace.channels


@pytest.mark.parametrize("code", ["invalid_blocks", "msg_too_long", "msg_blocks_too_long"])
async def test_blocks_that_slack_refuses_aside_too_come_there_as_plain_text(room: Room, code: str) -> None:
    room.slack.faults.add("chat.postEphemeral", ErrorCode("not_in_channel"), None)
    room.slack.faults.add("chat.postMessage", ErrorCode(code))
    await room.slack.mention(ALICE, OPS, "status")
    await room.settled()
    [aside] = room.slack.workspace.messages(DIRECT)
    assert aside.text.startswith("*kimi-k2.5* is *healthy*")
    assert f"Asked in <#{OPS}>; told here" in aside.text
    assert f"`{code}`" in aside.text
    assert aside.blocks == ()


@pytest.mark.parametrize(
    ("status", "body", "kind", "code", "repairable"),
    [
        (404, '{"ok":false,"error":"expired_url"}', SlackRefused, "expired_url", False),
        (404, "used_url", SlackRefused, "used_url", False),
        (400, '{"ok":false,"error":"invalid_blocks"}', SlackRefused, "invalid_blocks", True),
        (200, '{"ok":false,"error":"msg_too_long"}', SlackRefused, "msg_too_long", True),
        (403, "<html>no</html>", SlackRefused, "HTTP status 403", True),
        (429, "", SlackBusy, "ratelimited", None),
        (502, "used_url", SlackUncertain, "HTTP status 502", None),
    ],
)
def test_a_response_url_s_answer_tells_what_became_of_it(
    status: int, body: str, kind: type, code: str, repairable: bool | None
) -> None:
    failure = read_failure(status, body)
    assert failure is not None
    assert type(failure) is kind
    assert (failure.code, getattr(failure, "repairable", None)) == (code, repairable)


@pytest.mark.parametrize("body", ["ok", "", '{"ok":true}', "<html></html>", "[]"])
def test_what_a_response_url_took(body: str) -> None:
    assert read_failure(200, body) is None

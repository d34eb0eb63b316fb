"""The modal that asks for a restart's reason."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import ANY

from bot.core.events import OperationId, ServiceName, UserId, Verb
from bot.core.request import Busy, Held, NeedsConfirmation, Request, Started
from bot.practice.slack_faults import ErrorCode
from bot.practice.slack_state import PostedMessage
from handlers.views import read_reason
from tests.support.configurations import ALICE, BOB, MALLORY
from tests.support.startup_views import seconds

if TYPE_CHECKING:
    from bot.practice.slack_views import View
    from tests.support.handler_room import Room

KIMI = ServiceName("kimi-k2.5")


async def ask(room: Room, user: str) -> View:
    """Opens the modal from the Home tab."""
    await room.slack.open_home(ALICE)
    home = await room.wait_for(lambda: room.slack.home(ALICE))
    await room.slack.people.press_in_view(user, home, "kimi:ask")
    return await room.wait_for(lambda: room.slack.modal(user))


def told(view: View | None) -> str:
    assert view is not None
    return PostedMessage("", "", "", "", blocks=tuple(view.content["blocks"])).plain


async def test_the_reason_goes_with_the_request(room: Room) -> None:
    assert "Restart `kimi-k2.5`?" in told(await ask(room, ALICE))
    await room.slack.submit(ALICE, {"reason": {"reason": "New\nparser"}})
    await room.wait_for(lambda: "Restarting" in told(room.slack.modal(ALICE)))
    assert room.startups.requests == [Request(KIMI, Verb.RESTART, UserId(ALICE), "New parser", token=ANY)]


async def test_a_slow_answer_takes_the_place_of_the_waiting(room: Room) -> None:
    await ask(room, ALICE)
    room.startups.gate.clear()
    await room.slack.submit(ALICE, {"reason": {"reason": ""}})
    assert told(room.slack.modal(ALICE)) == "One moment…"
    room.startups.gate.set()
    await room.wait_for(lambda: "Restarting" in told(room.slack.modal(ALICE)))


async def test_a_busy_service_is_told_without_a_button(room: Room) -> None:
    await ask(room, ALICE)
    room.startups.answer = Busy(Held(OperationId("op1"), KIMI, Verb.START, UserId(BOB), seconds(5)))
    await room.slack.submit(ALICE, {"reason": {"reason": ""}})
    await room.wait_for(lambda: "already being" in told(room.slack.modal(ALICE)))
    shown = told(room.slack.modal(ALICE))
    assert "already being started by <@U0BOB>" in shown
    assert "anyway" not in shown


async def test_a_question_in_the_modal_is_answered_there(room: Room) -> None:
    await ask(room, ALICE)
    room.startups.answer = NeedsConfirmation("It answers requests at present.")
    await room.slack.submit(ALICE, {"reason": {"reason": "why"}})
    await room.wait_for(lambda: "It answers requests at present." in told(room.slack.modal(ALICE)))
    view = room.slack.modal(ALICE)
    assert view is not None
    room.startups.answer = Started(OperationId("op2"))
    await room.slack.people.press_in_view(ALICE, view, "kimi:confirm")
    await room.wait_for(lambda: "Restarting" in told(room.slack.modal(ALICE)))
    assert [(request.confirmed, request.reason) for request in room.startups.requests] == [
        (False, "why"),
        (True, "why"),
    ]


async def test_who_may_not_is_refused_in_the_modal(room: Room) -> None:
    await ask(room, MALLORY)
    await room.slack.submit(MALLORY, {"reason": {"reason": ""}})
    await room.wait_for(lambda: told(room.slack.modal(MALLORY)).startswith("You can look but not restart"))
    assert not room.startups.requests


def test_an_empty_field_is_no_reason() -> None:
    assert read_reason({}) == ""
    assert read_reason({"state": {"values": {"reason": {"reason": {"value": None}}}}}) == ""


async def test_a_secret_in_the_reason_is_masked(room: Room) -> None:
    secret = "sk-" + "abcdefgh12345678" * 3
    await ask(room, ALICE)
    await room.slack.submit(ALICE, {"reason": {"reason": f"with {secret}"}})
    (request,) = await room.wait_for(lambda: room.startups.requests)
    assert request.reason == "with [masked]"


async def test_blocks_the_modal_refuses_are_said_there_in_plain_words(room: Room) -> None:
    await ask(room, ALICE)
    room.startups.gate.clear()
    await room.slack.submit(ALICE, {"reason": {"reason": ""}})
    room.slack.faults.add("views.update", ErrorCode("invalid_blocks"))
    room.startups.gate.set()
    await room.wait_for(lambda: "Restarting" in told(room.slack.modal(ALICE)))
    assert "`invalid_blocks`" in told(room.slack.modal(ALICE))


async def test_a_question_slack_does_not_open_is_told_aside(room: Room) -> None:
    room.slack.faults.add("views.open", ErrorCode("expired_trigger_id"), None)
    await room.slack.open_home(ALICE)
    home = await room.wait_for(lambda: room.slack.home(ALICE))
    await room.slack.people.press_in_view(ALICE, home, "kimi:ask")
    direct = f"D{ALICE[1:]}"
    messages = room.slack.workspace.messages
    aside = await room.wait_for(lambda: next(iter(messages(direct)), None))
    assert aside.text.startswith("The question about a restart of `kimi-k2.5` did not open, and nothing was")
    assert "`expired_trigger_id`" in aside.text
    assert room.startups.requests == []

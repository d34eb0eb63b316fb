"""Buttons: of the thread, and of private questions."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import ANY

import pytest

from bot.core.actions import Verdict
from bot.core.answers import render_busy, render_confirmation
from bot.core.events import ChannelId, OperationId, ServiceName, UserId, Verb
from bot.core.render import render_root
from bot.core.report import render_stall, render_verdict
from bot.core.request import Busy, Held, NeedsConfirmation, Request
from bot.core.retrospect import HistoryView, WhyView
from handlers.actions import read_command, read_press
from tests.bot.core.test_report import FAILED, STALL
from tests.support.configurations import ALICE, BOB, MALLORY, OPS
from tests.support.startup_views import MIDWAY, seconds
from tests.support.waterfalls import BEGAN, past

if TYPE_CHECKING:
    from bot.core.blocks import Message
    from tests.support.handler_room import Room

KIMI = ServiceName("kimi-k2.5")
ROOT, STALLED = render_root(MIDWAY), render_stall(STALL, MIDWAY)
ASKED = Request(KIMI, Verb.RESTART, UserId(ALICE), "new <parser>", ChannelId(OPS))


async def in_thread(room: Room, message: Message) -> tuple[str, str]:
    """A root, and below it the message; both ts."""
    root = await room.show(ROOT)
    return root, await room.show(message, thread_ts=root)


async def test_logs_from_the_root_go_into_its_thread(room: Room) -> None:
    ts = await room.show(ROOT)
    assert (await room.slack.press(MALLORY, OPS, ts, "kimi:logs")).acknowledged
    (called,) = await room.wait_for(lambda: room.startups.calls)
    assert called[:2] == ("logs", KIMI)
    assert called[2]["thread_ts"] == ts
    assert "the file comes here" in (await room.whisper(MALLORY)).plain


async def test_why_and_history_from_a_failure_are_answered_in_its_thread(room: Room) -> None:
    room.accounts.last = WhyView(KIMI, past(1, Verdict.FAILED), now=BEGAN)
    room.accounts.past = HistoryView(KIMI, (past(1), past(2, Verdict.FAILED)), now=BEGAN)
    root, ts = await in_thread(room, render_verdict(FAILED, MIDWAY))
    assert (await room.slack.press(MALLORY, OPS, ts, "kimi:why")).acknowledged
    why = await room.whisper(MALLORY)
    assert "went wrong after 3m02s" in why.plain
    assert why.thread_ts == root
    assert (await room.slack.press(MALLORY, OPS, ts, "kimi:history")).acknowledged
    assert "the last 2 startups" in (await room.whisper(MALLORY, 2)).plain
    drawn = await room.wait_for(lambda: room.accounts.drawn)
    assert drawn == [{"service": KIMI, "by": MALLORY, "channel": OPS, "thread_ts": root}]


async def test_stop_watching_is_for_operators_and_who_started_it(room: Room) -> None:
    await room.hold(by=MALLORY)
    ts = await room.show(ROOT)
    await room.slack.press(MALLORY, OPS, ts, "kimi:unwatch")
    assert (await room.whisper(MALLORY)).plain.startswith("No longer following")
    await room.slack.press("U0CAROL", OPS, ts, "kimi:unwatch")
    assert (await room.whisper("U0CAROL")).plain.startswith("You can look but not steer the watch")
    assert room.startups.calls == [("unwatch", KIMI, MALLORY)]


async def test_keep_waiting_from_a_stall(room: Room) -> None:
    await room.hold(by=ALICE)
    root, ts = await in_thread(room, STALLED)
    await room.slack.press(BOB, OPS, ts, "kimi:wait")
    whisper = await room.whisper(BOB)
    assert whisper.plain == "Waiting 30m longer."
    assert whisper.thread_ts == root
    assert room.startups.calls == [("keep_waiting", OperationId("op1"), BOB, seconds(1800))]


async def test_keep_waiting_is_refused_to_others_and_after_the_end(room: Room) -> None:
    _, ts = await in_thread(room, STALLED)
    await room.slack.press(ALICE, OPS, ts, "kimi:wait")
    assert (await room.whisper(ALICE)).plain == "That startup is over."
    await room.hold(by=ALICE)
    await room.slack.press(MALLORY, OPS, ts, "kimi:wait")
    assert (await room.whisper(MALLORY)).plain.startswith("You can look but not steer the watch")
    room.startups.waits = False
    await room.slack.press(ALICE, OPS, ts, "kimi:wait")
    assert (await room.whisper(ALICE, 2)).plain == "That startup is over."


@pytest.mark.parametrize(("button", "verb"), [("kimi:restart", Verb.RESTART), ("kimi:stop", Verb.STOP)])
async def test_restart_and_stop_from_a_stall_have_asked_already(room: Room, button: str, verb: Verb) -> None:
    _, ts = await in_thread(room, STALLED)
    assert (await room.slack.press(ALICE, OPS, ts, button, accept_confirm=False)).error == "cancelled"
    await room.slack.press(ALICE, OPS, ts, button)
    await room.whisper(ALICE)
    asked = Request(
        KIMI, verb, UserId(ALICE), "", ChannelId(OPS), confirmed=True, over=OperationId("op1"), token=ANY
    )
    assert room.startups.requests == [asked]


async def test_who_may_not_presses_in_vain(room: Room) -> None:
    _, ts = await in_thread(room, STALLED)
    await room.slack.press(MALLORY, OPS, ts, "kimi:restart")
    assert (await room.whisper(MALLORY)).plain.startswith("You can look but not restart `kimi-k2.5`")
    assert not room.startups.requests


async def test_a_confirmed_question_is_replaced_by_its_answer(room: Room) -> None:
    ts = await room.whisper_buttons(ALICE, render_confirmation(ASKED, NeedsConfirmation("It answers.")))
    await room.slack.press(ALICE, OPS, ts, "kimi:confirm")
    answered = await room.wait_for(lambda: [m for m in room.slack.ephemerals(ALICE) if "see its" in m.plain])
    assert [message.ts for message in answered] == [ts]
    assert room.startups.requests == [
        Request(KIMI, Verb.RESTART, UserId(ALICE), "new <parser>", ChannelId(OPS), confirmed=True, token=ANY)
    ]


async def test_a_cancelled_question_goes_away(room: Room) -> None:
    ts = await room.whisper_buttons(ALICE, render_confirmation(ASKED, NeedsConfirmation("It answers.")))
    await room.slack.press(ALICE, OPS, ts, "kimi:cancel")
    await room.wait_for(lambda: room.slack.ephemerals(ALICE)[0].plain == "Cancelled. Nothing was done.")
    assert not room.startups.requests


async def test_insisting_on_a_busy_service(room: Room) -> None:
    held = Held(OperationId("op1"), KIMI, Verb.RESTART, UserId(BOB), seconds(120))
    ts = await room.whisper_buttons(ALICE, render_busy(ASKED, Busy(held), may_override=True))
    await room.slack.press(ALICE, OPS, ts, "kimi:confirm")
    (request,) = await room.wait_for(lambda: room.startups.requests)
    assert request.confirmed


def test_a_value_of_another_age_is_read_as_far_as_it_goes() -> None:
    for value in ("", "{", "[]", '"text"', '{"s": 3, "m": "x", "m2": 1}', '{"m": -4}'):
        press = read_press({"action_id": "kimi:logs", "value": value})
        assert (press.service, press.operation, press.minutes) == (None, None, None)
        assert read_command(press) is None


def test_a_confirmation_confirms_only_what_may_be_confirmed() -> None:
    press = read_press({"action_id": "kimi:confirm", "value": '{"s": "kimi", "v": "logs"}'})
    assert read_command(press) is None


async def test_a_button_nobody_can_read_is_answered(room: Room) -> None:
    ts = await room.whisper_buttons(ALICE, unreadable())
    await room.slack.press(ALICE, OPS, ts, "kimi:dance")
    await room.wait_for(lambda: room.slack.ephemerals(ALICE)[0].plain.startswith("I cannot read this button"))


async def test_a_button_of_a_service_that_is_gone_is_answered(room: Room) -> None:
    gone = Request(ServiceName("gone"), Verb.STOP, UserId(ALICE))
    ts = await room.whisper_buttons(ALICE, render_confirmation(gone, NeedsConfirmation("It answers.")))
    await room.slack.press(ALICE, OPS, ts, "kimi:confirm")
    await room.wait_for(lambda: "There is no service `gone`" in room.slack.ephemerals(ALICE)[0].plain)


def unreadable() -> Message:
    from bot.core.blocks import actions, button, make_message  # noqa: PLC0415 - for this one message

    return make_message("old", actions(button("Dance", "dance", "{}")))

"""What a claim needs of Slack, told from what was read of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bot.clients.records import Address
from bot.clients.slack_claims import (
    address_by,
    channel_of,
    hangs_on_root,
    methods_of,
    thread_ts_of,
    waiting_of,
)
from bot.clients.slack_files import COMPLETE, RESERVE
from bot.clients.store_queue import Claim, new_attempt
from bot.core.events import ChannelId, MessageTs
from bot.core.pacing import POST
from tests.support.outgoing import CHANNEL, edit, reply, root, upload

if TYPE_CHECKING:
    from bot.clients.records import Outgoing

PLACE = Address(channel=ChannelId("D0ALICE"), ts=MessageTs("1.2"))


def claim(head: Outgoing | None = None, **changes: Any) -> Claim:
    given: dict[str, Any] = {
        "thread": "op1",
        "head": head,
        "head_raw": b"",
        "edit": None,
        "edit_raw": b"",
        "address": None,
        "attempt": None,
        "refused": None,
        "until": 0.0,
    }
    return Claim(**given | changes)


def test_the_channel_is_where_slack_has_put_the_root() -> None:
    assert channel_of(claim(root())) == CHANNEL
    assert channel_of(claim(reply(1), address=PLACE)) == "D0ALICE"
    assert channel_of(claim(edit=edit("now"), address=PLACE)) == "D0ALICE"
    assert channel_of(claim(reply(1, thread_ts="9.9"), address=PLACE)) == CHANNEL
    assert channel_of(claim()) == ""


@pytest.mark.parametrize(
    ("message", "hangs"),
    [(root(), False), (reply(1), True), (reply(1, thread_ts="9.9"), False), (upload(1, id="op1"), False)],
)
def test_what_hangs_on_a_root(message: Outgoing, hangs: bool) -> None:
    assert hangs_on_root(message) == hangs


def test_the_place_in_the_thread() -> None:
    assert thread_ts_of(claim(root(), address=PLACE)) is None
    assert thread_ts_of(claim(reply(1), address=PLACE)) == "1.2"
    assert thread_ts_of(claim(reply(1, thread_ts="9.9"), address=PLACE)) == "9.9"
    assert thread_ts_of(claim(reply(1))) is None


def test_the_methods_a_head_needs() -> None:
    assert methods_of(claim()) == methods_of(claim(reply(1))) == ()
    assert methods_of(claim(root())) == (POST,)
    assert methods_of(claim(upload(1), address=PLACE)) == (RESERVE, COMPLETE)
    attempted = {"attempt": new_attempt(reply(1)), "address": PLACE}
    assert methods_of(claim(reply(1), **attempted)) == (POST, "conversations.replies")
    assert methods_of(claim(root(), attempt=new_attempt(root()))) == (POST, "conversations.history")
    assert methods_of(claim(reply(2), **attempted)) == (POST,)


def test_where_the_thread_is_after_a_message() -> None:
    posted = Address(channel=CHANNEL, ts=MessageTs("3.4"))
    assert address_by(claim(root()), root(), posted) == posted
    taken_over = address_by(claim(address=PLACE), edit("now").model_copy(update={"kind": "present"}), posted)
    assert taken_over == PLACE.model_copy(update={"present": "3.4"})
    assert address_by(claim(address=PLACE), reply(1), posted) is None


def test_an_edit_waits_for_the_message_it_shows() -> None:
    assert not waiting_of(claim(edit=edit("now"))).edit
    assert waiting_of(claim(reply(1), edit=edit("now"), address=PLACE)).edit
    assert not waiting_of(
        claim(edit("now").model_copy(update={"kind": "present"}), edit=edit("new"), address=PLACE)
    ).edit

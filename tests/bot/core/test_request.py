"""Requests and their answers survive being written down."""

from __future__ import annotations

from datetime import timedelta

from pydantic import TypeAdapter

from bot.core.events import ChannelId, OperationId, ServiceName, UserId, Verb
from bot.core.request import Busy, Held, Request, Standing, StatusView


def test_a_request_reads_back_as_it_was() -> None:
    request = Request(
        ServiceName("kimi"), Verb.RESTART, UserId("U0ALICE"), "why", ChannelId("C0OPS"), confirmed=True
    )
    adapter = TypeAdapter(Request)
    assert adapter.validate_json(adapter.dump_json(request)) == request


def test_a_request_is_not_confirmed_unless_somebody_did() -> None:
    assert not Request(ServiceName("kimi"), Verb.STOP, UserId("U0ALICE")).confirmed


def test_views_need_no_more_than_the_present() -> None:
    held = Held(OperationId("op"), ServiceName("kimi"), Verb.WATCH, None, timedelta(0))
    assert Busy(held).held.link is None
    assert StatusView(ServiceName("kimi"), (), Standing.UNSEEN).startup is None

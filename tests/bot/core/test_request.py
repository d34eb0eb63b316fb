"""Requests and their answers survive being written down."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import TypeAdapter

from bot.core.events import ChannelId, Member, OperationId, ServiceName, UnitState, UserId, Verb
from bot.core.request import (
    Busy,
    Held,
    Request,
    Standing,
    StatusView,
    nothing_starts,
    operation_of,
    refusal_of,
)


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


def test_one_thing_asked_is_one_operation_in_every_process() -> None:
    assert operation_of("1.2.abc") == "d919684cb9c156ce891fe5c5a150ff49"
    assert operation_of("1.2.abd") != operation_of("1.2.abc")


UP, DEAD = UnitState("loaded", "active", "running"), UnitState("loaded", "inactive", "dead")
FAILED = UnitState("loaded", "failed", "failed", "exit-code")


@pytest.mark.parametrize(
    ("verb", "one", "other", "word"),
    [
        (Verb.RESTART, UP, UP, None),
        (Verb.RESTART, DEAD, DEAD, None),
        (Verb.START, UP, UP, "runs already"),
        (Verb.START, UP, FAILED, None),
        (Verb.STOP, UP, DEAD, None),
        (Verb.STOP, FAILED, DEAD, "nothing to stop"),
        (Verb.WATCH, FAILED, UP, None),
        (Verb.WATCH, FAILED, DEAD, "`start kimi`"),
        (Verb.RESTART, UP, UnitState("masked", "inactive", "dead"), "two is masked"),
        (Verb.WATCH, UnitState("not-found", "inactive", "dead"), UP, "one: systemd has no such unit"),
    ],
)
def test_what_makes_no_sense_for_the_units_as_they_are(
    verb: Verb, one: UnitState, other: UnitState, word: str | None
) -> None:
    request = Request(ServiceName("kimi"), verb, UserId("U0ALICE"))
    refusal = refusal_of(request, {Member("one"): one, Member("two"): other})
    assert refusal is None if word is None else word in (refusal or "")


def test_where_nothing_starts_it_is_said_since_when_it_is_up_and_what_to_type() -> None:
    since = datetime(2026, 5, 29, 23, 49, 59, tzinfo=UTC)
    told = nothing_starts(ServiceName("kimi"), since, since + timedelta(hours=2, minutes=10))
    assert told == (
        "Nothing is starting: kimi is up since 2026-05-29 23:49 UTC (2h10m) and passes its checks. "
        "`status kimi` tells more, `restart kimi` starts it anew."
    )

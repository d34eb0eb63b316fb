"""Each fact survives the way to another process, and says by its name what it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import TypeAdapter

from bot.core.account import Changed
from bot.core.actions import Verdict
from bot.core.events import InvocationId, LogLine, Member, OperationId, ServiceName, Ticked, UserId, Verb
from bot.core.incident_events import (
    INCIDENT_EVENTS,
    Acknowledged,
    AffectedSeen,
    AttemptDied,
    ChangesSeen,
    DownAgain,
    IncidentEvent,
    IncidentMuted,
    IncidentUnmuted,
    PresentSeen,
    Recovered,
    ResolvedByHand,
    RunLogRead,
    ServiceStart,
    ServiceStopped,
    SignSeen,
    StartFollowed,
    StartOver,
    StartsSeen,
    WatchEnded,
    Worsened,
)
from bot.core.incident_state import Severity, Sign, SignKind

AT = datetime(2026, 5, 29, 3, 12, 41, tzinfo=UTC)
SIGN = Sign(SignKind.PROBE, AT, "/health answers 503")
WHO, OPERATION, MEMBER = UserId("U0123"), OperationId("op1"), Member("llm-two/kimi.service")
EVENTS: tuple[IncidentEvent, ...] = (
    SignSeen(SIGN),
    Worsened(Severity.DOWN, SIGN),
    RunLogRead(MEMBER, None, (LogLine("a", "a", at=AT),)),
    ChangesSeen(Changed(("+ --flag",))),
    AttemptDied(MEMBER, InvocationId("0" * 32), 4, timedelta(minutes=3)),
    StartFollowed(OPERATION, Verb.WATCH),
    StartsSeen((ServiceStart(ServiceName("kimi-k2.5"), OPERATION, "https://x"),)),
    StartOver(OPERATION, Verdict.HEALTHY, timedelta(minutes=3)),
    Acknowledged(WHO),
    IncidentMuted(WHO, AT),
    IncidentUnmuted(),
    ResolvedByHand(WHO),
    Recovered(AT),
    DownAgain(AT, SIGN, Severity.DOWN),
    ServiceStopped(AT, "stopped outside chat"),
    WatchEnded("the configuration no longer names it"),
    AffectedSeen((ServiceName("kimi-k2.5"),)),
    PresentSeen(SIGN),
    Ticked(),
)


def test_every_kind_is_among_them() -> None:
    assert {type(event).__name__ for event in EVENTS} == set(INCIDENT_EVENTS)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_it_is_read_back_by_its_name(event: IncidentEvent) -> None:
    adapter = TypeAdapter(INCIDENT_EVENTS[type(event).__name__])
    assert adapter.validate_json(adapter.dump_json(event)) == event

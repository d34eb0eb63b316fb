"""What a watch remembers is written and read back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pydantic import TypeAdapter

from bot.core.events import HostName, InvocationId, Member, OperationId, ServiceName, UserId, Verb
from bot.core.incident_state import How, IncidentId, Severity, Sign, SignKind
from bot.core.monitor_state import (
    Follow,
    HostPlan,
    HostState,
    MemberWatch,
    Mute,
    Sight,
    Under,
    WatchPlan,
    WatchStanding,
    WatchState,
    kept,
)

AT = datetime(2026, 5, 29, 3, 12, 41, tzinfo=UTC)
MEMBER, RUN = Member("llm-two/kimi.service"), InvocationId("0" * 32)


def test_the_state_of_a_service() -> None:
    state = WatchState(
        WatchStanding.DOWN,
        since=AT,
        members={MEMBER: MemberWatch(RUN, since=AT, restarts=2)},
        signs=[Sign(SignKind.PROBE, AT, "/health answers 503", MEMBER)],
        operation=Under(OperationId("op1"), Verb.RESTART, asked=True, since=AT),
        follow=Follow(RUN, How.SYSTEMD, AT),
        longest=timedelta(minutes=3),
        incident=IncidentId("1" * 32),
        severity=Severity.DOWN,
        mute=Mute(AT, UserId("U0123"), "known"),
    )
    adapter = TypeAdapter(WatchState)
    assert adapter.validate_json(adapter.dump_json(state)) == state


def test_counts_of_checks_are_not_worth_writing_and_what_is_ordered_is() -> None:
    state = WatchState()
    before = kept(state)
    state.fails, state.goods, state.last_healthy = 2, 7, AT
    state.worst[SignKind.SLOW] = AT
    with_sign = kept(state)
    state.worst[SignKind.SLOW] = AT + timedelta(seconds=1)
    assert kept(state) == with_sign != before
    state.severity = Severity.DOWN
    assert kept(state) != with_sign


def test_the_state_of_a_host() -> None:
    state = HostState(Sight.GONE, failing_since=AT, error="refused")
    adapter = TypeAdapter(HostState)
    assert adapter.validate_json(adapter.dump_json(state)) == state


def test_the_plans() -> None:
    service = WatchPlan(ServiceName("kimi-k2.5"), HostName("llm-two"), (MEMBER,))
    host = HostPlan(HostName("llm-two"), (ServiceName("kimi-k2.5"),))
    assert TypeAdapter(WatchPlan).validate_json(TypeAdapter(WatchPlan).dump_json(service)) == service
    assert TypeAdapter(HostPlan).validate_json(TypeAdapter(HostPlan).dump_json(host)) == host

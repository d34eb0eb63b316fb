"""The facts the core is told, as plain values."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from pydantic import TypeAdapter

from bot.core.events import (
    PHASE_ORDER,
    Event,
    EvidenceSampled,
    HostLost,
    HostRestored,
    InvocationId,
    LineRead,
    LogLine,
    LogMissed,
    Member,
    Origin,
    PatienceExtended,
    PhaseId,
    ProbeAnswer,
    ProbeAnswered,
    SetupSeen,
    SmokeFinished,
    SmokeResult,
    Superseded,
    Ticked,
    UnitObserved,
    UnitState,
    UnwatchAsked,
    UserId,
    Verb,
    VerbMissed,
    VerbRefused,
    VerbSent,
    VerbUnanswered,
)
from bot.core.evidence import Sample
from bot.core.setup import Setup
from config.fields import PhaseName

AT = datetime(2026, 5, 29, 23, 49, tzinfo=UTC)
ONE = Member("llm-two/sglang.service")
WHO = UserId("U0ALICE")
LINE = LogLine("\x1b[32mready\x1b[0m", "ready", at=AT, pid=7, invocation=InvocationId("a" * 32))
UNIT = UnitState("loaded", "active", "running", cpu=timedelta(seconds=3), memory=17, active_since=AT)
EXAMPLES: tuple[Event, ...] = (
    VerbSent(ONE),
    VerbRefused(ONE, "no"),
    VerbMissed(ONE, AT),
    VerbUnanswered(ONE, "lost"),
    LineRead(ONE, replace(LINE, origin=Origin.MANAGER, fields={"N_RESTARTS": "2"})),
    UnitObserved(ONE, UNIT, boot="b0" * 16),
    EvidenceSampled(ONE, Sample(AT, cpu=timedelta(seconds=3), refused=("GPUs",))),
    SetupSeen(ONE, Setup(("python", "--tp", "8"), {"A": "1"}, (), stale=True, versions={"sglang": "1"})),
    ProbeAnswered(ProbeAnswer(200, ("kimi",), 200, listener=True)),
    SmokeFinished(SmokeResult(passed=False, error="empty", tool_call=False)),
    HostLost(ONE, "gone"),
    HostRestored(ONE),
    LogMissed(ONE, AT, None, "/var/log/kimi.log"),
    PatienceExtended(WHO, AT),
    UnwatchAsked(WHO),
    Superseded(WHO, Verb.STOP),
    Ticked(),
)


def test_there_is_an_example_of_every_event() -> None:
    assert {type(event) for event in EXAMPLES} == set(get_args(Event))


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_an_event_reads_back_as_it_was(event: Event) -> None:
    adapter: TypeAdapter[Event] = TypeAdapter(type(event))
    assert adapter.validate_json(adapter.dump_json(event)) == event


def test_a_fact_does_not_change() -> None:
    for fact, name in ((LINE, "text"), (UNIT, "active"), (VerbSent(ONE), "member")):
        with pytest.raises(FrozenInstanceError):
            setattr(fact, name, "another")


@pytest.mark.parametrize(
    ("active", "sub", "looping", "down"),
    [
        ("active", "running", False, False),
        ("activating", "start", False, False),
        ("activating", "auto-restart", True, False),
        ("activating", "auto-restart-queued", True, False),
        ("deactivating", "stop-sigterm", False, False),
        ("failed", "failed", False, True),
        ("inactive", "dead", False, True),
        ("inactive", "auto-restart", False, True),
    ],
)
def test_what_a_unit_is(active: str, sub: str, looping: bool, down: bool) -> None:
    unit = UnitState("loaded", active, sub)
    assert (unit.looping, unit.down) == (looping, down)


def test_the_phases_are_those_an_operator_may_write() -> None:
    assert [phase.value for phase in PHASE_ORDER] == list(get_args(PhaseName))
    assert PHASE_ORDER[0] is PhaseId.STOPPING
    assert PHASE_ORDER[-1] is PhaseId.READY


def test_a_line_is_whole_and_the_service_s_unless_somebody_says_otherwise() -> None:
    line = LogLine("a", "a")
    assert (line.origin, line.partial, line.masked, line.fields) == (Origin.SERVICE, False, 0, {})
    assert line.fields is not LogLine("b", "b").fields

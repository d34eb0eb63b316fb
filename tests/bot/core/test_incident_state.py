"""An incident's name is the same for one outage, whoever opens it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pydantic import TypeAdapter

from bot.core.incident_state import (
    Entry,
    EntryKind,
    IncidentState,
    RunRead,
    Severity,
    Sign,
    SignKind,
    incident_of,
    short_id,
)

AT = datetime(2026, 5, 29, 3, 12, 41, tzinfo=UTC)


def test_an_incident_is_named_by_its_subject_and_moment() -> None:
    one = incident_of("kimi-k2.5", AT)
    assert one == incident_of("kimi-k2.5", AT)
    assert one != incident_of("kimi-k2.5", AT + timedelta(microseconds=1))
    assert one != incident_of("llm-two", AT)
    assert one.startswith(short_id(one))
    assert len(short_id(one)) < len(one) == 32


def test_what_the_log_tells_is_known_by_its_cause() -> None:
    assert not RunRead().is_known
    assert RunRead("out of GPU memory").is_known


def test_a_state_is_written_and_read_back() -> None:
    sign = Sign(SignKind.PROCESS, AT, "process died by SIGSEGV", evidence=("killed, status=11/SEGV",))
    entry = Entry(AT, EntryKind.SIGN, "process died by SIGSEGV")
    state = IncidentState(Severity.DOWN, signs=[sign], timeline=[entry], down_since=AT)
    adapter = TypeAdapter(IncidentState)
    assert adapter.validate_json(adapter.dump_json(state)) == state


def test_a_sign_that_begins_a_traceback_is_told_without_it() -> None:
    told = "the log says: Scheduler hit an exception"
    assert Sign(SignKind.FATAL, AT, f"{told}: Traceback (most recent call last):").brief == told
    assert Sign(SignKind.PROBE, AT, "/health answers 503").brief == "/health answers 503"

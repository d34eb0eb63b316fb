"""The present of an incident says whether it is open."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from bot.core.events import HostName
from bot.core.incident_actions import IncidentView
from bot.core.incident_state import Ending, IncidentId, Severity

AT = datetime(2026, 5, 29, 3, 12, 41, tzinfo=UTC)
VIEW = IncidentView(IncidentId("0" * 32), "llm-two", None, HostName("llm-two"), Severity.HOST, AT, AT, ())


def test_it_is_open_until_it_has_an_ending() -> None:
    assert VIEW.is_open
    assert not any(replace(VIEW, ending=ending).is_open for ending in Ending)

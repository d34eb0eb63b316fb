"""The word that an incident is closed: in time, too late, in the moment in which it became worse."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bot.core.incident_state import LINGER, IncidentId, Severity
from bot.core.monitor_closed import Means, meaning_of
from bot.core.monitor_events import IncidentClosed

AT = datetime(2026, 5, 29, 3, 0, tzinfo=UTC)
ONE, OTHER = IncidentId("1"), IncidentId("2")
SECOND = timedelta(seconds=1)
DOWN, DEGRADED, HOST = Severity.DOWN, Severity.DEGRADED, Severity.HOST


@pytest.mark.parametrize(
    ("closed", "severity", "told", "means"),
    [
        (IncidentClosed(ONE, DOWN, AT), DOWN, AT - SECOND, Means.KNOWN),
        (IncidentClosed(ONE, DOWN, AT), DOWN, None, Means.KNOWN),
        (IncidentClosed(ONE, DOWN), DOWN, AT, Means.KNOWN),
        (IncidentClosed(OTHER, DOWN, AT), DOWN, AT - SECOND, Means.NOTHING),
        (IncidentClosed(ONE, DOWN, AT), None, AT - SECOND, Means.NOTHING),
        (IncidentClosed(ONE, DOWN, AT), DOWN, AT + SECOND, Means.NOTHING),
        (IncidentClosed(ONE, DOWN, AT), DOWN, AT + LINGER, Means.ANEW),
        (IncidentClosed(ONE, DOWN, AT, unwatched=True), DOWN, AT - SECOND, Means.ANEW),
        (IncidentClosed(ONE, DOWN, AT, unwatched=True), None, AT - SECOND, Means.ANEW),
        (IncidentClosed(ONE, DEGRADED, AT), DOWN, AT - SECOND, Means.NOTHING),
        (IncidentClosed(ONE, DEGRADED, AT), HOST, AT - SECOND, Means.NOTHING),
        (IncidentClosed(ONE, DEGRADED, AT), DEGRADED, AT - SECOND, Means.KNOWN),
        (IncidentClosed(ONE, HOST, AT), DEGRADED, AT - SECOND, Means.KNOWN),
    ],
)
def test_what_the_watch_makes_of_it(
    closed: IncidentClosed, severity: Severity | None, told: datetime | None, means: Means
) -> None:
    assert meaning_of(closed, incident=ONE, severity=severity, told=told) is means

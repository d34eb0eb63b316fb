"""What a watch makes of the word that its incident is closed, which may come late or in the same moment."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING

from bot.core.incident_state import LINGER, Severity

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.incident_state import IncidentId
    from bot.core.monitor_events import IncidentClosed


class Means(Enum):
    NOTHING = auto()  # it is about another one, or the incident goes on with what came since
    ANEW = auto()  # nobody looked, so what was seen long ago proves nothing
    KNOWN = auto()  # somebody knows how it is: that is not told again


def meaning_of(
    closed: IncidentClosed,
    *,
    incident: IncidentId | None,
    severity: Severity | None,
    told: datetime | None,
) -> Means:
    """`incident`, `severity`: of the watch now; `told`: when it last was told to be so."""
    if closed.incident != incident:
        return Means.NOTHING
    after = told - closed.at if told and closed.at else timedelta()
    if timedelta() < after < LINGER:
        return Means.NOTHING  # it was well meanwhile
    if closed.unwatched or after >= LINGER:  # by then it took nothing any more
        return Means.ANEW
    worse = closed.severity is Severity.DEGRADED and severity is not Severity.DEGRADED
    return Means.NOTHING if severity is None or worse else Means.KNOWN

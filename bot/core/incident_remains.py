"""What stands in Slack of an incident, once nobody has its record any more: from its root message alone.

Beside the root Slack keeps plain tags: ids, times, states. The words that say what broke are in the message
itself, as `incident_render` wrote them; where they cannot be read there, the thread above still says them.
"""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bot.core.events import HostName, ServiceName, UserId
from bot.core.incident import fresh_state
from bot.core.incident_state import (
    Ending,
    Entry,
    EntryKind,
    IncidentId,
    IncidentPlan,
    RunRead,
    Severity,
    Sign,
    SignKind,
)
from bot.core.incident_words import FIRST, NOT_KNOWN, tell_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.core.incident_actions import IncidentView
    from bot.core.incident_state import IncidentState

UNREAD = "what showed it first is told above"
_WHY_IS_TOLD = "why is told in its thread"
_APART = 100  # replies: numbers that were given and never reached Slack
_DOWN = re.compile(r" · host [^·]{1,200} · (?P<first>.*?)(?: · last good check <!date.*)?$")
_ELSE = re.compile(r" since <!date\^[^>]*>: (?P<first>.*)$")
_CAUSE = re.compile(r"^Cause: (.*)$", re.MULTILINE)


def tags_of(view: IncidentView) -> dict[str, str]:
    """What stands beside the root, for every app of the workspace to read: ids, times and states."""
    told = {
        "incident": view.incident,
        "subject": view.subject,
        "host": view.host,
        "about": "host" if view.service is None else "service",
        "severity": str(view.severity),
        "state": "open" if view.is_open else "over",
        "began": _iso(view.began),
        "times": str(view.times),
        "before": str(round(_before(view).total_seconds())),
        "shown": str(view.in_channel),
        "hidden": "yes" if view.is_hidden else "",
        "healthy": _iso(view.last_healthy),
        "down": _iso(view.down_since),
        "acked_by": view.acked_by or "",
        "muted": _iso(view.muted),
        "escalated": _iso(view.escalated),
    }
    return {name: word for name, word in told.items() if word}


def is_open(tags: Mapping[str, str]) -> bool:
    """Whether these are the tags of an incident that was open when its root was last shown."""
    named = all(tags.get(name) for name in ("incident", "subject", "host", "began"))
    return named and tags.get("state") == "open" and tags.get("severity") in set(Severity)


def read_plan(tags: Mapping[str, str], body: str, *, posted: datetime, now: datetime) -> IncidentPlan:
    """`body`: what the root says; `posted`: when. Only of tags that `is_open` likes.

    Who and what belongs to the service or the host, as it is configured now, is for the caller to add.
    """
    began = min(_time(tags, "began") or posted, now)
    severity, about = Severity(tags["severity"]), tags.get("about")
    of_host = SignKind.HIDDEN if tags.get("hidden") else SignKind.SIGHT
    kind = of_host if about == "host" else SignKind.PROBE
    return IncidentPlan(
        incident=IncidentId(tags["incident"]),
        subject=tags["subject"],
        host=HostName(tags["host"]),
        severity=severity,
        began=began,
        opened=max(posted, began),
        signs=(Sign(kind, began, read_first(body)),),
        service=None if about == "host" else ServiceName(tags["subject"]),
        last_healthy=_time(tags, "healthy"),
        host_answers=kind is not SignKind.SIGHT,
    )


def read_state(
    plan: IncidentPlan,
    tags: Mapping[str, str],
    body: str,
    *,
    sequence: int,
    ended: datetime | None = None,
    ending: Ending = Ending.RECOVERED,
) -> IncidentState:
    """`sequence`: of the newest reply that stands there; `ended`: when the thread was told its end."""
    state = fresh_state(plan)
    state.times = _number(tags, "times") or 1
    state.falls = state.times if state.falls else 0
    state.in_channel = max(_number(tags, "shown"), 1)
    state.downtime = timedelta(seconds=_number(tags, "before"))
    if state.down_since is not None:
        state.down_since = _time(tags, "down") or plan.began
    state.acked_by = UserId(tags["acked_by"]) if tags.get("acked_by") else None
    state.muted, state.escalated = _time(tags, "muted"), _time(tags, "escalated")
    cause, first = read_causes(body)
    state.read, state.newest, state.read_time = RunRead(cause=first), RunRead(cause=cause), state.times
    state.sequence, state.lost = sequence + _APART, ended is None
    what = tell_state(plan.severity, hidden=plan.signs[0].kind is SignKind.HIDDEN)
    state.timeline = [
        Entry(plan.began, EntryKind.SIGN, plan.signs[0].sentence),
        Entry(plan.opened, EntryKind.OPENED, f"the incident is opened ({what})"),
    ]
    if ended is not None:
        state.ending, state.recovered, state.over, state.down_since = ending, ended, ended, None
        state.ended_why = _WHY_IS_TOLD if ending is Ending.UNWATCHED else ""
    return state


def read_first(body: str) -> str:
    """What broke first, in the words of the headline."""
    headline = body.split("\n", 1)[0]
    found = _DOWN.search(headline) or _ELSE.search(headline)
    return html.unescape(found["first"]).strip() if found is not None else UNREAD


def read_causes(body: str) -> tuple[str, str]:
    """Of this time, and of the first; empty where none was known."""
    found = _CAUSE.search(body)
    told = html.unescape(found[1]).strip() if found is not None else ""
    cause, _, first = told.partition(FIRST)
    return "" if first and cause == NOT_KNOWN else cause, first or cause


def _before(view: IncidentView) -> timedelta:
    """The downtime of the times before this one."""
    under_way = view.now - view.down_since if view.down_since is not None else timedelta()
    return view.downtime - max(under_way, timedelta())


def _iso(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).isoformat(timespec="seconds")


def _time(tags: Mapping[str, str], name: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(tags.get(name, ""))
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


def _number(tags: Mapping[str, str], name: str) -> int:
    word = tags.get(name, "")
    return int(word) if word.isdecimal() else 0

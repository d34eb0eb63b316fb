"""An incident as a Markdown file, the start of a post-mortem: what happened when, why, who did what."""

from __future__ import annotations

import re
from datetime import UTC
from typing import TYPE_CHECKING

from bot.core.incident_state import Ending, Severity, short_id
from bot.core.incident_view import cause_of, downtime_of, loading_of
from bot.core.incident_words import tell_well
from bot.core.words import spell_duration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from bot.core.events import UserId
    from bot.core.incident_state import Entry, IncidentPlan, IncidentState, RunRead

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MARKS = re.compile(r"([\\`*_\[\]<>#|~])")
_ENDINGS = {
    Ending.BY_HAND: "closed by hand",
    Ending.STOPPED: "the service was stopped",
}
_WHAT = {Severity.DEGRADED: "degraded", Severity.DOWN: "down", Severity.HOST: "gone"}


def export_name(plan: IncidentPlan) -> str:
    """`kimi-k2.5-incident-3f9a2c11.md`."""
    return f"{_UNSAFE.sub('-', plan.subject).strip('-.') or 'incident'}-incident-{short_id(plan.incident)}.md"


def render_export(
    plan: IncidentPlan, state: IncidentState, now: datetime, *, names: Mapping[UserId, str] | None = None
) -> str:
    """All times UTC. `names`: of people, where they are known; their ids otherwise."""
    known = names or {}
    parts = [
        f"# {_plain(plan.subject)}: incident {short_id(plan.incident)}",
        _facts(plan, state, now, known),
        _cause(plan, state),
        _changes(state),
        _timeline(state, known),
        _log(state.read),
        "## To be written\n\n- What it meant for users:\n- Why it could happen:\n- What is done about it:",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _facts(plan: IncidentPlan, state: IncidentState, now: datetime, names: Mapping[UserId, str]) -> str:
    rows = [
        ("What", _what(plan, state)),
        ("First sign", _time(plan.began)),
        ("Opened", f"{_time(plan.opened)} ({spell_duration(plan.opened - plan.began)} after it)"),
        ("Last good check", _time(plan.last_healthy) if plan.last_healthy else "not known"),
        ("Acknowledged", _acknowledged(plan, state, names)),
        ("Ended", _ended(state, names)),
        ("Downtime", _downtime(state, now)),
    ]
    if state.attempts:
        rows.append(("Starts by systemd that died", f"{state.attempts}"))
    affected = state.affected or plan.affected
    if affected:
        rows.append(("Services", ", ".join(affected)))
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {_plain(told)} |" for name, told in rows)])


def _what(plan: IncidentPlan, state: IncidentState) -> str:
    what = _WHAT[state.severity]
    return f"host {what}" if plan.service is None else f"{what} on {plan.host}"


def _acknowledged(plan: IncidentPlan, state: IncidentState, names: Mapping[UserId, str]) -> str:
    if state.acked_by is None or state.acked is None:
        return "by nobody"
    after = spell_duration(state.acked - plan.opened)
    return f"by {_who(state.acked_by, names)}, {after} after it was opened"


def _ended(state: IncidentState, names: Mapping[UserId, str]) -> str:
    if state.ending is None or state.over is None:
        return "not yet"
    by = f" by {_who(state.ended_by, names)}" if state.ended_by is not None else ""
    told = _ENDINGS.get(state.ending, tell_well(state.severity))
    return f"{_time(state.over)}: {told}{by}"


def _downtime(state: IncidentState, now: datetime) -> str:
    down = downtime_of(state, now)
    if not down:
        return "none"
    times = f", {state.times} times" if state.times > 1 else ""
    loading = loading_of(state)
    share = f", of it {spell_duration(loading)} in startups that were followed" if loading else ""
    return f"{spell_duration(down)}{times}{share}"


def _cause(plan: IncidentPlan, state: IncidentState) -> str:
    cause = cause_of(state)
    if not cause:
        return _first_sign(plan, state)
    read = state.read
    more = (
        [text for text in (read.means, f"Try: {read.advice}" if read.advice else "") if text] if read else []
    )
    evidence = _fence("\n".join(read.evidence)) if read is not None and read.evidence else ""
    return "\n\n".join(
        part for part in ("## Cause", f"**{_plain(cause)}**", evidence, *map(_plain, more)) if part
    )


def _first_sign(plan: IncidentPlan, state: IncidentState) -> str:
    """Of a host no log is read."""
    read = "No line of the log says why. " if plan.service is not None else ""
    if not state.signs:
        return f"## Cause\n\n{read}No sign of one is known."
    first = state.signs[0]
    told = f"## Cause\n\n{read}The first sign: {_plain(first.sentence)}."
    return "\n\n".join((told, _fence("\n".join(first.evidence)))) if first.evidence else told


def _changes(state: IncidentState) -> str:
    if state.changed is None or not state.changed.told:
        return ""
    since = f" ({_time(state.changed.since)})" if state.changed.since is not None else ""
    return f"## Changed since the last good start{since}\n\n{_fence(chr(10).join(state.changed.told))}"


def _timeline(state: IncidentState, names: Mapping[UserId, str]) -> str:
    """In the order of time; what was left out is counted."""
    ordered = sorted(state.timeline, key=lambda entry: entry.at)
    rows = [_row(entry, names) for entry in ordered]
    if state.dropped:
        rows.append(f"- … of its middle {state.dropped:,} more are left out")
    return "\n".join(["## Timeline (UTC)", "", *rows])


def _row(entry: Entry, names: Mapping[UserId, str]) -> str:
    by = f" ({_who(entry.by, names)})" if entry.by is not None else ""
    return f"- `{_time(entry.at)}` {entry.kind}: {_plain(entry.sentence)}{by}"


def _log(read: RunRead | None) -> str:
    if read is None or not read.excerpt:
        return ""
    return f"## Log before it broke\n\n{_fence(chr(10).join(read.excerpt))}"


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _who(user: UserId, names: Mapping[UserId, str]) -> str:
    return names.get(user, user)


def _plain(text: str) -> str:
    """Somebody's words on one line, which are no markup."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


def _fence(text: str) -> str:
    """A block that no line inside can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"

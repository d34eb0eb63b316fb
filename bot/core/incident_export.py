"""An incident as a Markdown file, the start of a post-mortem: what happened when, why, who did what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bot.core.blocks import clean
from bot.core.events import HostName, ServiceName, UserId
from bot.core.incident_state import Ending, EntryKind, Severity, short_id
from bot.core.incident_view import (
    began_of,
    cause_of,
    downtime_of,
    loading_of,
    times_of,
    was_hidden,
    worst_of,
)
from bot.core.incident_words import tell_state, tell_times, tell_well
from bot.core.words import spell_duration

if TYPE_CHECKING:
    from bot.core.incident_state import Entry, IncidentPlan, IncidentState, RunRead

BEFORE = timedelta(hours=1)  # the first sign: what people did then may be why
_MOST_DEEDS = 200
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MARKS = re.compile(r"([\\`*_\[\]<>#|~])")
_ENDINGS = {
    Ending.BY_HAND: "closed by hand",
    Ending.STOPPED: "the service was stopped",
    Ending.UNWATCHED: "nobody watched it any more",
}


def export_name(plan: IncidentPlan) -> str:
    """`kimi-k2.5-incident-3f9a2c11.md`."""
    return f"{_UNSAFE.sub('-', plan.subject).strip('-.') or 'incident'}-incident-{short_id(plan.incident)}.md"


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing a person asked of kimi, and what came of it, in the audit's words."""

    at: datetime
    by: UserId | None
    verb: str
    outcome: str
    service: ServiceName | None = None
    reason: str = ""
    host: HostName | None = None  # where it was about all of it


@dataclass(frozen=True, slots=True)
class People:
    """Who did what, where it is known; `names`: what people are called, else their ids are shown."""

    deeds: tuple[Deed, ...] | None = None
    names: Mapping[UserId, str] = field(default_factory=dict)


def time_of_deeds(plan: IncidentPlan, state: IncidentState, now: datetime) -> tuple[datetime, datetime]:
    """From when to when it matters what people did."""
    return plan.began - BEFORE, state.recovered or now


def render_export(
    plan: IncidentPlan, state: IncidentState, now: datetime, people: People | None = None
) -> str:
    """All times UTC."""
    people = people or People()
    known = people.names
    parts = [
        f"# {_plain(plan.subject)}: incident {short_id(plan.incident)}",
        _facts(plan, state, now, known),
        _cause(plan, state),
        _changes(state),
        _timeline(state, known),
        _deeds(plan, state, people),
        _log(state.read),
        "## To be written\n\n- What it meant for users:\n- Why it could happen:\n- What is done about it:",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _facts(plan: IncidentPlan, state: IncidentState, now: datetime, names: Mapping[UserId, str]) -> str:
    rows = [
        ("What", _what(plan, state)),
        ("First sign", _time(began_of(plan, state))),
        ("Opened", f"{_time(plan.opened)} ({_after(plan.opened - began_of(plan, state))})"),
        ("Last good check", _time(plan.last_healthy) if plan.last_healthy else "not known"),
        ("Acknowledged", _acknowledged(plan, state, names)),
        ("Ended", _ended(plan, state, names)),
        ("Downtime", _downtime(plan, state, now)),
    ]
    if state.attempts:
        rows.append(("Starts by systemd that died", f"{state.attempts}"))
    affected = state.affected or plan.affected
    if affected:
        rows.append(("Services", ", ".join(affected)))
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {_plain(told)} |" for name, told in rows)])


def _after(taken: timedelta) -> str:
    return f"{spell_duration(taken)} after it" if taken >= timedelta(seconds=1) else "at once"


def _what(plan: IncidentPlan, state: IncidentState) -> str:
    what = tell_state(worst_of(plan, state), hidden=was_hidden(plan, state))
    return f"host {what}" if plan.service is None else f"{what} on {plan.host}"


def _acknowledged(plan: IncidentPlan, state: IncidentState, names: Mapping[UserId, str]) -> str:
    if state.acked_by is None and state.acked_before is not None:
        return f"by {_who(state.acked_before, names)} before it last went down, and by nobody since"
    if state.acked_by is None:
        return "by nobody"
    who = _who(state.acked_by, names)
    if state.acked is None:
        return f"by {who}"
    since = state.worse or plan.opened
    after = spell_duration(state.acked - since)
    return f"by {who}, {after} after it {'was opened' if since == plan.opened else 'became that'}"


def _ended(plan: IncidentPlan, state: IncidentState, names: Mapping[UserId, str]) -> str:
    if state.ending is None or state.over is None:
        return "not yet"
    by = f" by {_who(state.ended_by, names)}" if state.ended_by is not None else ""
    degraded = state.severity is Severity.DEGRADED
    well = "the last sign of it" if degraded else tell_well(state.severity, hidden=was_hidden(plan, state))
    told = _ENDINGS.get(state.ending, well)
    why = f" ({state.ended_why})" if state.ended_why else ""
    return f"{_time(state.over)}: {told}{why}{by}"


def _downtime(plan: IncidentPlan, state: IncidentState, now: datetime) -> str:
    down = downtime_of(state, now)
    if not down:
        return "none"
    number = times_of(plan, state)
    times = f" in all, {tell_times(number)}" if number > 1 else ""
    loading = loading_of(state)
    share = f", of it {spell_duration(loading)} in startups that were followed" if loading else ""
    known = ", until it was no longer watched" if state.ending is Ending.UNWATCHED else ""
    return f"{spell_duration(down)}{times}{share}{known}"


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
    told = f"## Cause\n\n{read}The first sign: {_plain(first.brief)}."
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


def _deeds(plan: IncidentPlan, state: IncidentState, people: People) -> str:
    """What was asked of kimi, in chat or by a button; also what was refused, or came to nothing."""
    title = "## Who did what (UTC)"
    if people.deeds is None:
        return f"{title}\n\nThe audit could not be read."
    deeds = sorted((*people.deeds, *_of_host(plan, state)), key=lambda deed: deed.at)
    rows = [_deed(deed, plan, people.names) for deed in deeds[:_MOST_DEEDS]]
    if len(deeds) > _MOST_DEEDS:
        rows.append(f"- … and {len(deeds) - _MOST_DEEDS:,} more")
    told = "\n".join(rows) or "Nobody asked kimi for anything."
    bounds = "From an hour before the first sign on. What was done on a host itself is not known here."
    return f"{title}\n\n{told}\n\n{bounds}"


def _of_host(plan: IncidentPlan, state: IncidentState) -> list[Deed]:
    """The audit names services: what concerned the host's own incident stands in its timeline alone."""
    if plan.service is not None:
        return []
    return [
        Deed(entry.at, entry.by, entry.sentence, "")
        for entry in state.timeline
        if entry.by is not None and entry.kind in {EntryKind.PERSON, EntryKind.CLOSED}
    ]


def _deed(deed: Deed, plan: IncidentPlan, names: Mapping[UserId, str]) -> str:
    who = _who(deed.by, names) if deed.by is not None else "somebody"
    named = deed.service or deed.host
    about = f" {_plain(named)}" if named is not None and named != plan.service else ""
    reason = f" (“{_plain(deed.reason)}”)" if deed.reason else ""
    outcome = f" → {deed.outcome}" if deed.outcome else ""
    return f"- `{_time(deed.at)}` **{_plain(who)}**: {_plain(deed.verb)}{about}{reason}{outcome}"


def _log(read: RunRead | None) -> str:
    if read is None or not read.excerpt:
        return ""
    return f"## Log before it broke\n\n{_fence(chr(10).join(read.excerpt))}"


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _who(user: UserId, names: Mapping[UserId, str]) -> str:
    return clean(names.get(user, user))


def _plain(text: str) -> str:
    """Somebody's words on one line, which are no markup."""
    return _MARKS.sub(r"\\\1", " ".join(clean(text).split()))


def _fence(text: str) -> str:
    """A block that no line inside can end."""
    text = clean(text)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"

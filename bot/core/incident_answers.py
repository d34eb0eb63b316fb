"""What one person is told who asks for incidents, acknowledges, mutes, or wants one as a file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bot.core.blocks import (
    Block,
    Cell,
    Message,
    context,
    link,
    link_cell,
    make_message,
    mention,
    preformatted,
    say,
    say_code,
    say_name,
    section,
    table,
)
from bot.core.events import HostName, ServiceName, UserId
from bot.core.incident_state import IncidentId, RunRead, Severity, short_id
from bot.core.incident_words import say_clock, say_when, tell_state
from bot.core.words import count, end_sentence, join_names, spell_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.core.monitor_state import Mute
    from bot.core.request import Outage

MOST_ROWS = 12
_HEADER: tuple[Cell, ...] = ("Began (UTC)", "What", "Id", "State", "Down")


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """One incident of the list. `ended` None: it is open. `downtime`: up to now; zero: it never was down."""

    incident: IncidentId
    subject: str
    severity: Severity
    began: datetime
    downtime: timedelta
    ended: datetime | None = None
    cause: str = ""
    acked_by: UserId | None = None
    link: str | None = None  # to its thread
    hidden: bool = False  # a host that was there all the time, and told nothing
    read: RunRead | None = None  # the log that says why
    last_healthy: datetime | None = None  # of a host that is gone


@dataclass(frozen=True, slots=True)
class MutedRow:
    """`subject`: a service, or where `whole` a host with all on it."""

    subject: ServiceName | HostName
    until: datetime
    by: UserId | None = None
    reason: str = ""
    whole: bool = False


def render_incidents(
    rows: Sequence[IncidentRow], *, service: ServiceName | None = None, muted: Sequence[MutedRow] = ()
) -> Message:
    """`rows`: the open ones first, then the newest; of one service or of all that may be named here."""
    about = f" of {say_code(service)}" if service is not None else ""
    silent = [section(_muted(muted), 1_500)] if muted else []
    if not rows:
        told = f"No incident{about} is on record."
        return make_message(told, section(told), *silent)
    opened = [row for row in rows if row.ended is None]
    told = f"{count(len(opened), 'incident')}{about} open." if opened else f"No incident{about} is open."
    shown = rows[:MOST_ROWS]
    blocks: list[Block] = [section(_lines(told, opened)), table([_HEADER, *map(_row, shown)]), *silent]
    more = f"and {len(rows) - len(shown)} older ones · " if len(rows) > len(shown) else ""
    blocks.append(context(f"{more}`incidents export ID` gives one of them as a file"))
    spoken = "; ".join(f"{row.subject} {row.severity} {short_id(row.incident)}" for row in opened[:5])
    return make_message(f"{told} {say(spoken, 500)}".strip(), *blocks)


def _lines(told: str, opened: Sequence[IncidentRow]) -> str:
    """What is open now, a line each: why, and who is on it."""
    lines = [told]
    for row in opened[:5]:
        cause = f": {say(row.cause, 200)}" if row.cause else ""
        who = f"{mention(row.acked_by)} is on it" if row.acked_by is not None else "nobody is on it yet"
        lines.append(f"{say_name(row.subject)} is {_what(row)}{cause} · {who}")
    return "\n".join(lines)


def _what(row: IncidentRow) -> str:
    return tell_state(row.severity, hidden=row.hidden)


def _row(row: IncidentRow) -> tuple[Cell, ...]:
    when = f"{row.began.astimezone(UTC):%d %b %H:%M}"
    state = "open" if row.ended is None else "over"
    down = spell_duration(row.downtime) if row.downtime else "-"
    what = f"{row.subject} {_what(row)}"
    return link_cell(row.link, when), what, short_id(row.incident), state, down


def _muted(muted: Sequence[MutedRow]) -> str:
    told = [
        f"{'host ' if row.whole else ''}{say_code(row.subject)} until {say_when(row.until)}"
        f"{f' by {mention(row.by)}' if row.by is not None else ''}"
        f"{f': {say(row.reason, 100)}' if row.reason else ''}"
        for row in muted[:10]
    ]
    return f"Muted: {'; '.join(told)}"


def say_outage(outage: Outage) -> str:
    """`Incident 3f9a2c11, open for 13m: process died by SIGSEGV · nobody is on it yet: <thread>`."""
    who = f" · {mention(outage.acked_by)} is on it" if outage.acked_by else " · nobody is on it yet"
    who = who if outage.over is None else ""
    where = f": {link(outage.link, 'its thread')}" if outage.link else ""
    last = f" · last good check {say_clock(outage.last_healthy)}" if outage.last_healthy is not None else ""
    told = tell_outage(outage)
    return f"{say(told[:1].upper() + told[1:], 400)}{last}{who}{where}"


def tell_outage(outage: Outage) -> str:
    """Plain, without the person."""
    when = f"open for {spell_duration(outage.age)}"
    if outage.over is not None:
        when = f"ended {spell_duration(outage.over)} ago after {spell_duration(outage.age - outage.over)}"
    return f"incident {outage.incident}, {when}: {outage.sentence}"


def contradict(outage: Outage) -> str:
    """Behind words that the service is well, which a quick look finds: plain, and a clause of its own."""
    age = spell_duration(outage.age)
    return f"incident {outage.incident} is open, for {age}: {end_sentence(outage.sentence)}"


def explain_outage(outage: Outage) -> list[Block]:
    """What stands behind it and what to try, as far as a log tells."""
    read = outage.read
    if read is None:
        so_far = " so far" if outage.over is None else ""
        return [context(f"No line of a log says why{so_far}: this is what the checks saw.")]
    blocks: list[Block] = []
    if read.means:
        blocks.append(section(f"What it means: {say(read.means, 1_200)}", 1_300))
    if read.advice:
        blocks.append(section(f"Try: {say(read.advice, 1_200)}", 1_300))
    if read.evidence:
        blocks.append(preformatted("\n".join(read.evidence), 1_500))
    return blocks


def _sentence(told: str) -> Message:
    return make_message(told, section(told))


def render_unknown(typed: str) -> Message:
    """No incident that may be named here has an id that begins so."""
    return _sentence(f"There is no incident {say_code(typed)} here. `incidents` lists them with their ids.")


def render_ambiguous(typed: str, ids: Sequence[IncidentId]) -> Message:
    names = join_names([say_code(each[: max(len(typed) + 4, 8)]) for each in ids[:6]], last="or")
    return _sentence(f"Several incidents begin with {say_code(typed)}: {names}. Nothing was done.")


def render_none_open(service: ServiceName | None, *, instead: IncidentId | None = None) -> Message:
    """`instead`: the open one of a host of it, closed by its id alone: it is about others too."""
    about = f" of {say_code(service)}" if service is not None else ""
    if instead is not None:
        other = f"its host's is, which may be about other services too: `resolve {short_id(instead)}`."
        return _sentence(f"No incident{about} alone is open, but {other}")
    return _sentence(f"No incident{about} is open: there is nothing to do.")


def render_acknowledged(subject: str, *, before: UserId | None = None) -> Message:
    """`before`: who had done it already."""
    if before is not None:
        return _sentence(f"{mention(before)} has acknowledged the incident of {say_code(subject)} already.")
    return _sentence(f"You are on it: nobody else is called for {say_code(subject)}.")


def render_muted(
    service: ServiceName,
    until: datetime,
    *,
    still_open: bool = False,
    also_host: bool = False,
    longer: Mute | None = None,
) -> Message:
    """`also_host`: a host has that name too, and is not meant. `longer`: it is muted so beside that."""
    told = f"{say_code(service)} is muted until {say_when(until)}: no incident is opened for it."
    rest = " The one that is open goes on, and calls nobody." if still_open else ""
    if longer is not None and longer.host is not None:
        rest += f" With its host {say_code(longer.host)} it is until {say_when(longer.until)}."
    return _sentence(f"{told}{rest} What is down then is told then.{_not_the_host(also_host)}")


def render_unmuted(
    service: ServiceName, *, was: bool = True, also_host: bool = False, host: HostName | None = None
) -> Message:
    """`host`: it was muted with that one, which stays so."""
    if not was:
        return _sentence(f"{say_code(service)} was not muted.{_not_the_host(also_host)}")
    rest = f" Its host {say_code(host)} still is." if host is not None else ""
    return _sentence(f"{say_code(service)} is no longer muted.{rest}{_not_the_host(also_host)}")


def _not_the_host(also_host: bool) -> str:
    return " This is about the service; the host of the same name is left as it is." if also_host else ""


def render_host_muted(
    host: HostName, services: Sequence[ServiceName], until: datetime, *, still_open: bool = False
) -> Message:
    """With it all that runs there."""
    names = join_names([say_code(each) for each in services[:10]])
    more = f" and {len(services) - 10} more" if len(services) > 10 else ""  # noqa: PLR2004 - as shown
    told = f"The host {say_code(host)} is muted until {say_when(until)}, and with it {names}{more}:"
    rest = " What is open goes on, and calls nobody." if still_open else ""
    return _sentence(f"{told} no incident is opened for any of them.{rest} What is down then is told then.")


def render_host_unmuted(host: HostName, *, was: bool = True, still: Sequence[ServiceName] = ()) -> Message:
    """`still`: services on it that are muted by their own names."""
    names = join_names([say_code(each) for each in still[:10]])
    verb = "is" if len(still) == 1 else "are"
    rest = f" By {'its' if len(still) == 1 else 'their'} own name {names} still {verb}." if still else ""
    if not was:
        return _sentence(f"The host {say_code(host)} was not muted.{rest}")
    return _sentence(f"The host {say_code(host)} is no longer muted, nor what was muted with it.{rest}")


def render_host_empty(host: HostName) -> Message:
    return _sentence(f"No service on the host {say_code(host)} is watched: there is nothing to mute.")


def render_closed(subject: str) -> Message:
    told = f"The incident of {say_code(subject)} is closed. The same is not told again before it was well."
    return _sentence(told)


def render_export_coming(incident: IncidentId) -> Message:
    return _sentence(f"The timeline of incident {say_code(short_id(incident))} comes here as a file.")

"""Replies beside the phases: what changed since the last healthy start, markers seen, what nobody saw."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, assert_never

from bot.core.account import Changed
from bot.core.actions import LogGap, MarkerSeen, Resumed, SetupChanged
from bot.core.blocks import (
    actions,
    button,
    confirm,
    fit,
    join_within,
    make_message,
    pack_subject,
    preformatted,
    say_code,
    say_name,
    section,
)
from bot.core.changes import spell_change
from bot.core.words import Searched, count, spell_duration

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.actions import StartupView
    from bot.core.blocks import Element, Message
    from bot.core.changes import Change
    from bot.core.events import Member

_FEW = 2  # changes that stand in one line
_MOST = 2_200  # bytes of them all


def render_aside(reply: SetupChanged | MarkerSeen | Resumed | LogGap, view: StartupView) -> Message:
    match reply:
        case SetupChanged():
            return render_setup(reply, view)
        case MarkerSeen():
            return render_marker(reply)
        case Resumed() | LogGap():
            return _render_gap(reply)
        case _:
            assert_never(reply)


def render_setup(reply: SetupChanged, view: StartupView) -> Message:
    told = say_setup(reply, view)
    buttons = (actions(make_reload_button(view)),) if reply.stale else ()
    return make_message(told, section(told), *buttons)


def say_setup(reply: SetupChanged, view: StartupView) -> str:
    told = say_changes(reply.changes, reply.since)
    stale = say_stale(reply.stale, several=len(view.hosts) > 1)
    return "\n".join(line for line in (told, stale) if line)


def say_changes(changes: tuple[Change, ...], since: datetime | None) -> str:
    return say_changed(Changed(tuple(map(spell_change, changes)), since=since)) if changes else ""


def say_changed(changed: Changed) -> str:
    """`Changed since the last good start (yesterday 18:02): …`; the few in one line, more as a list."""
    when = f" ({say_time(changed.since)})" if changed.since is not None else ""
    told = [say_code(each) for each in changed.told]
    head = f"Changed since the last good start{when}:"
    if len(told) <= _FEW and not changed.more:
        return f"{head} {join_within(told, _MOST, separator=', ')}."
    more = [f"• and {changed.more} more"] if changed.more else []
    return f"{head}\n{join_within([*(f'• {each}' for each in told), *more], _MOST, separator=chr(10))}"


def say_time(at: datetime) -> str:
    """In each reader's own zone, `yesterday` where it was."""
    fallback = f"{at.astimezone(UTC):%d %b %H:%M} UTC"
    return f"<!date^{int(at.timestamp())}^{{date_short_pretty}} {{time}}|{fallback}>"


def say_stale(stale: tuple[Member, ...], *, several: bool) -> str:
    if not stale:
        return ""
    where = f" ({', '.join(map(say_code, stale))})" if several else ""
    return f"Unit file changed on disk{where}: daemon-reload needed; this start runs with the old one."


def make_reload_button(view: StartupView) -> Element:
    dialogue = confirm(
        "Reload units?", "systemd reads its unit files anew. Nothing is started or stopped by it.", "Reload"
    )
    return button("Reload units", "reload", pack_subject(view.operation, view.service), confirm=dialogue)


def render_marker(reply: MarkerSeen) -> Message:
    hit = reply.hit
    others = f", and {count(hit.others, 'more line')} like it" if hit.others else ""
    told = f"{say_name(hit.name)} seen{others}:"
    shown = "\n".join(fit(line, 1_200, escaped=False) for line in hit.lines)
    return make_message(told, section(told, 600), preformatted(shown, 5_000))


def _render_gap(reply: Resumed | LogGap) -> Message:
    """What nobody saw: because kimi itself was away, or because the log is gone."""
    told = _say_resumed(reply) if isinstance(reply, Resumed) else _say_log_gap(reply)
    return make_message(told, section(told))


def _say_resumed(reply: Resumed) -> str:
    return (
        f"*{Searched.RESUMED}* after {spell_duration(reply.away)}: kimi itself was away, not the service. "
        "The watch goes on where it stood: what was written meanwhile is read from the log now."
    )


def _say_log_gap(reply: LogGap) -> str:
    host, since = say_name(reply.host), _say_second(reply.since)
    unknown = "what was written then is not known. The watch goes on."
    if reply.path is not None:
        return (
            f"{say_code(reply.path)} on {host} was begun anew while nobody read it, after {since}: {unknown}"
        )
    if reply.until is None:
        return f"The journal of {host} holds nothing that was written after {since}: {unknown}"
    span = f"{since} to {_say_second(reply.until, day=reply.since)}"
    lasted = spell_duration(reply.until - reply.since)
    return f"The journal of {host} no longer holds {span} ({lasted}): {unknown}"


def _say_second(at: datetime, *, day: datetime | None = None) -> str:
    """To the second, in each reader's own zone; with its day where that is not the one before."""
    utc = at.astimezone(UTC)
    if day is not None and day.astimezone(UTC).date() == utc.date():
        return f"<!date^{int(at.timestamp())}^{{time_secs}}|{utc:%H:%M:%S} UTC>"
    return f"<!date^{int(at.timestamp())}^{{date_short_pretty}} {{time_secs}}|{utc:%d %b %H:%M:%S} UTC>"

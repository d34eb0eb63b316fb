"""The root message of one incident: the present, edited in place, and the buttons for what can be done."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from bot.core.blocks import (
    Element,
    Message,
    actions,
    button,
    confirm,
    context,
    join_within,
    link,
    make_message,
    mention,
    pack,
    pack_subject,
    say,
    say_code,
    say_name,
    section,
)
from bot.core.incident_report import render_incident_reply
from bot.core.incident_state import Ending, Severity, SignKind, short_id
from bot.core.incident_words import (
    say_clock,
    say_when,
    tell_attempt,
    tell_causes,
    tell_first,
    tell_state,
    tell_times,
)
from bot.core.words import count, spell_duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from bot.core.incident_actions import IncidentView
    from bot.core.incident_state import Sign
    from bot.core.monitor_events import TellStopped

__all__ = ["render_incident_reply", "render_incident_root", "render_stopped"]

MUTE_BY_BUTTON = timedelta(hours=1)
_MOST_AFFECTED = 20
_ALIVE = (SignKind.PROBE, SignKind.SMOKE)  # what shows these does not end the process
_MARKS = {Severity.DEGRADED: "⚠️", Severity.DOWN: "🔴", Severity.HOST: "🔴"}


def render_incident_root(view: IncidentView) -> Message:
    """The types of its blocks never change: Slack refuses an edit that changes them."""
    headline = _headline(view)
    body = "\n".join(line for line in (headline, *_present(view)) if line)
    blocks = (
        section(body),
        context(_course(view)),
        context(_people(view)),
        actions(*_buttons(view)),
    )
    return make_message(headline, *blocks)


def _headline(view: IncidentView) -> str:
    name = say_name(view.subject)
    if view.ending is not None:
        return _ended(view, name)
    mark = _MARKS[view.severity]
    often = view.times > 1 and (view.worst or view.severity) is view.severity
    again = f" again ({view.times} times now)" if often else ""
    state = tell_state(view.severity, hidden=view.is_hidden)
    if view.severity is not Severity.DOWN:
        return f"{mark} {name} is {state}{again} since {say_clock(_since(view))}: {_first(view)}"
    since = f"since {say_clock(_since(view))}{_where(view)}"
    return f"{mark} {name} is *{state}*{again} {since} · {_first(view)}{_last(view)}"


def _since(view: IncidentView) -> datetime:
    """What is degraded after it was well, or down, is that since then."""
    if view.down_since is not None:
        return view.down_since
    was_well = view.times > 1 or (view.worst or view.severity) is not view.severity
    return view.stands.at if was_well and view.stands is not None else view.began


def _ended(view: IncidentView, name: str) -> str:
    took = spell_duration(view.downtime or (view.ended or view.now) - view.began)
    state = tell_state(view.worst or view.severity, hidden=view.was_hidden)
    at = f" until {say_clock(view.ended)}" if view.ended is not None else ""
    if at and view.severity is Severity.DEGRADED and view.worst not in {None, Severity.DEGRADED}:
        at = f" and degraded{at}"
    match view.ending:
        case Ending.STOPPED:
            return f"⏹ {name} was {state} for {took}; then it was stopped"
        case Ending.BY_HAND:
            by = f" by {mention(view.ended_by)}" if view.ended_by is not None else ""
            return f"✅ {name}: this incident was closed{by}"
        case Ending.UNWATCHED:
            often = f" {tell_times(view.times)}, first" if view.times > 1 else ""
            was = f"{name} was {state}{often} at {say_clock(view.began)}"
            return f"⏹ {was}, and is no longer watched: {say(view.ended_why, 300)}"
        case _:
            spent = f"for {took}" if view.times == 1 else f"{tell_times(view.times)}, {took} in all,"
            return f"✅ {name} was {state} {spent}{at}"


def _first(view: IncidentView) -> str:
    return say(tell_first(view.stands), 300) if view.stands is not None else "no reason is known"


def _where(view: IncidentView) -> str:
    """Whether the host answered is known of the first time alone."""
    seen = " answers" if view.host_answers else " does not answer"
    return f" · host {say(view.host, 80)}{seen if view.times == 1 else ''}"


def _last(view: IncidentView) -> str:
    """A probe that goes on answering while the engine is dead says nothing."""
    dead = view.stands is not None and view.stands.kind is SignKind.SMOKE
    last = view.last_healthy if not dead else None
    return f" · last good check {say_clock(last)}" if last is not None else ""


def _present(view: IncidentView) -> tuple[str, ...]:
    """The lines below the headline: why, how it began, what else shows it, whom it concerns."""
    causes = tell_causes(say(view.cause, 600), say(view.first_cause, 300))
    cause = f"Cause: {causes}" if causes else _first_sign(view)
    if not view.is_open or view.stands is None:
        return (cause, _affected(view))
    others = [sign for sign in view.signs if sign.brief != view.stands.brief]
    before = [sign for sign in others if sign.at < view.stands.at]
    more = [sign for sign in others if sign not in before]
    return (cause, _signs("Also", more), _signs("Before that", before), _affected(view))


def _signs(title: str, signs: Sequence[Sign]) -> str:
    told = [say(each, 200) for each in dict.fromkeys(sign.brief for sign in signs)]
    return f"{title}: {join_within(told, 700, separator='; ')}" if told else ""


def _first_sign(view: IncidentView) -> str:
    """Once it is over, the headline tells how long; of a host, what was answered tells what is wrong."""
    sign = view.stands if view.is_open else next(iter(view.signs), None)
    if sign is None:
        return ""
    answered = say(sign.evidence[0], 300) if view.service is None and sign.evidence else ""
    if view.is_open:
        return answered
    return f"First sign: {say(sign.brief, 600)}{f' ({answered})' if answered else ''}"


def _affected(view: IncidentView) -> str:
    if view.service is not None or not view.affected:
        return ""
    names = join_within([say_code(name) for name in view.affected[:_MOST_AFFECTED]], 800, separator=", ")
    more = len(view.affected) - _MOST_AFFECTED
    rest = f" and {more} more" if more > 0 else ""
    seen = "cannot" if view.is_open else "could not"
    return f"{count(len(view.affected), 'service')} there {seen} be seen: {names}{rest}"


def _course(view: IncidentView) -> str:
    """What systemd and startups make of it."""
    if view.ending is not None:
        attempts = f" · {count(view.attempts, 'attempt')} by systemd" if view.attempts else ""
        return f"incident {short_id(view.incident)} · the timeline is in the thread{attempts}"
    parts = []
    if view.start is not None:
        where = link(view.start_link, "its thread") if view.start_link else "its thread"
        parts.append(f"a start is under way: see {where}")
    if view.last_attempt is not None:
        parts.append(
            f"{say(tell_attempt(view.last_attempt, 1), 400)}; {count(view.attempts, 'attempt')} so far"
        )
    elif view.severity is Severity.DOWN and view.start is None:
        if view.stands is not None and view.stands.kind in _ALIVE:
            parts.append("its process lives, so systemd does nothing by itself")
        elif view.restarts_itself is False:
            parts.append("systemd will not start it again (Restart=no)")
    parts.append(f"incident {short_id(view.incident)}")
    return " · ".join(parts)


def _people(view: IncidentView) -> str:
    if view.ending is not None:
        return _hands(view, on="was on it", starting="started it") or _hands_before(view)
    parts = [_hands(view, on="is on it", starting="is starting it") or "Nobody is on it yet"]
    if view.muted is not None:
        parts.append(f"muted until {say_when(view.muted)}")
    if view.escalated is not None:
        parts.append(f"escalated at {say_clock(view.escalated)}")
    return " · ".join(parts)


def _hands(view: IncidentView, *, on: str, starting: str) -> str:
    """Whoever restarts it is told, though that is no acknowledgement: it may come to nothing."""
    acked, started = view.acked_by, view.started_by
    told = [f"{mention(acked)} {on}"] if acked is not None else []
    told += [f"{mention(started)} {starting}"] if started is not None and started != acked else []
    return ", ".join(told)


def _hands_before(view: IncidentView) -> str:
    before = view.acked_before
    return "nobody was on it" if before is None else f"{mention(before)} was on it before it last went down"


def _buttons(view: IncidentView) -> tuple[Element, ...]:
    value = pack(o=view.incident, s=view.service)
    export = button("Timeline", "export", value)
    if view.ending is not None:
        return (export,)
    made: list[Element] = []
    if view.acked_by is None:
        made.append(button("Acknowledge", "ack", value, style="primary"))
    if view.service is not None:
        subject = pack_subject(None, view.service)
        made += [_restart(view, subject), button("Logs", "logs", subject)]
    if view.muted is None:
        minutes = int(MUTE_BY_BUTTON.total_seconds() // 60)
        host = view.host if view.service is None else None
        made.append(button("Mute 1h", "mute", pack(o=view.incident, s=view.service, h=host, m=minutes)))
    made.append(_resolve(value, view))
    return tuple(made)


def _restart(view: IncidentView, value: str) -> Element:
    dialogue = confirm(f"Restart {view.service}?", "systemd starts the service anew.", "Restart")
    return button("Restart", "restart", value, confirm=dialogue, style="danger")


def _resolve(value: str, view: IncidentView) -> Element:
    well = "well for a while" if view.severity is Severity.DEGRADED else "well"
    text = (
        f"The incident is closed, whatever the checks say. The same is not told again before it was {well}."
    )
    return button("Close", "resolve", value, confirm=confirm("Close this incident?", text, "Close"))


def render_stopped(told: TellStopped) -> Message:
    """One message in the channel: nobody in chat asked for it, and it is no outage."""
    since, last = say_clock(told.since), ""
    if told.last_healthy is not None:
        last = f" · last good check {say_clock(told.last_healthy)}"
    words = f"⏹ {say_name(told.service)} is stopped since {since}{last}"
    how = f"{say(told.sentence, 400)}. It stays down until started; no incident is opened for it."
    how = how[:1].upper() + how[1:]
    buttons = actions(button("Logs", "logs", pack_subject(None, told.service)))
    return make_message(words, section(words), context(how), buttons)

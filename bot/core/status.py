"""What `status` answers: the present of one service, or a few lines for each of several."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bot.core.actions import Pace, Verdict
from bot.core.answers import render_sentence, say_held
from bot.core.blocks import Message, context, link, make_message, mention, say, say_code, say_name, section
from bot.core.events import Verb
from bot.core.incident_answers import say_outage
from bot.core.incident_words import say_when
from bot.core.picture_words import say_where
from bot.core.request import Standing
from bot.core.words import (
    Searched,
    join_names,
    name_doing,
    name_verb_doing,
    name_verb_done,
    spell_duration,
    spell_estimate,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.core.actions import StartupView
    from bot.core.request import LastStartup, StatusView

_MOST_STATUS = 12  # services in one answer

_STANDING: dict[Standing, str] = {
    Standing.SERVING: f"*{Searched.HEALTHY}*",
    Standing.STARTING: "starting",
    Standing.STOPPING: "stopping",
    Standing.UNPROVEN: "up, but it does not answer as it should",
    Standing.STOPPED: "stopped",
    Standing.BROKEN: "down",
    Standing.UNSEEN: "out of sight",
}
# Of what is told to be down: a dead engine may answer, and amid a crash loop a unit is up most of the time.
_LESS = {Standing.SERVING: Standing.UNPROVEN, Standing.UNPROVEN: Standing.BROKEN}
_ENDED: dict[Verdict, str] = {
    Verdict.HEALTHY: f"{Searched.HEALTHY} after",
    Verdict.FAILED: f"{Searched.FAILED} after",
    Verdict.STOPPED: "stopped after",
    Verdict.UNWATCHED: "no longer watched after",
    Verdict.SUPERSEDED: "given up for another operation after",
}


def render_status(views: Sequence[StatusView]) -> Message:
    """The present of one service, or a few lines for each of several."""
    shown = [_status(view) for view in views[:_MOST_STATUS]]
    if not shown:
        return render_sentence("No service may be named here.")
    blocks = [section("\n".join(lines), 2_600 if len(shown) == 1 else 700) for lines in shown]
    if len(views) > len(shown):
        blocks.append(context(f"and {len(views) - len(shown)} more: ask for one by name"))
    told = "\n".join(shown[0]) if len(shown) == 1 else " · ".join(lines[0] for lines in shown)
    return make_message(told, *blocks)


def _status(view: StatusView) -> list[str]:
    """The headline, then one line each for what is known beyond it."""
    where = say(join_names(view.hosts), 200) or "its host"
    if view.startup is not None and view.startup.verdict is None:
        return [_startup(view.startup, where=where), *_more(view, told=True)]
    up = f" · up {spell_duration(view.uptime)}" if view.uptime is not None else ""
    standing = view.standing
    if view.outage is not None and view.outage.is_down:  # its incident knows more than a quick look
        standing = _LESS.get(standing, standing)
    serves = view.model is not None and standing is Standing.SERVING
    model = f" · serves {say_code(view.model or '')}" if serves else ""
    headline = f"{say_name(view.service)} is {_STANDING[standing]} on {where}{up}{model}"
    return [headline, *_more(view, told=False)]


def _more(view: StatusView, *, told: bool) -> list[str]:
    """`told`: the headline says already what who holds the service would say of its phase."""
    lines = []
    if view.problem:
        lines.append(say(view.problem, 400))
    if view.held is not None:
        held = replace(view.held, headline="") if told else view.held
        lines.append(f"It is {say_held(held)}")
    if view.outage is not None:
        lines.append(say_outage(view.outage))
    if view.muted is not None:
        host = f", with its host {say_code(view.muted_with)}" if view.muted_with is not None else ""
        lines.append(f"Muted until {say_when(view.muted)}{host}")
    if view.last is not None:
        lines += [_last(view.last), *_last_failure(view)]
    return lines


def _startup(view: StartupView, *, where: str) -> str:
    """`kimi-k2.5 is restarting on llm-two · loading weights 38/64 · about 4 min to ready`."""
    same = (seen for seen in reversed(view.phases) if (seen.phase, seen.role) == (view.phase, view.role))
    now = next(same, None)
    done = f" {now.progress.done:,}/{now.progress.total:,}" if now and now.progress else ""
    stale = view.eta is None or view.pace is Pace.STALLED
    eta = "" if stale or view.eta is None else f" · {spell_estimate(view.eta)} to ready"
    doing = f"{name_doing(view.phase, view.role)}{done}"
    if view.pace is Pace.STALLED:
        doing = f"⚠️ no progress while {doing}"
    return f"{say_name(view.service)} is {name_verb_doing(view.verb)} on {where} · {doing}{eta}"


def _last(last: LastStartup) -> str:
    is_stop = last.verb is Verb.STOP and last.verdict is Verdict.STOPPED
    ended = "" if is_stop else f", {_ENDED[last.verdict]} {spell_duration(last.took)}"
    by = f" by {mention(last.by)}" if last.by else ""
    where = f": {link(last.link, 'its thread')}" if last.link else ""
    return f"Last {name_verb_done(last.verb)}{by} {spell_duration(last.age)} ago{ended}{where}"


def _last_failure(view: StatusView) -> list[str]:
    """One line; `why` tells the rest."""
    if view.last is None or view.last.verdict is not Verdict.FAILED:
        return []
    failure, more = view.last.failure, say_code(f"/kimi why {view.service}")
    if failure is None or not failure.cause:
        return [f"Why: {more}"]
    cause = say(failure.cause, 200).removesuffix(".")
    what = "stop" if view.last.verb is Verb.STOP else "start"
    return [f"That {what} {Searched.FAILED} {say_where(failure.phase, failure.role)}: {cause} · {more}"]

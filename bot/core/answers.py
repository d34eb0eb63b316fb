"""What one person is told in private: status, help, refusals, questions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, assert_never

from bot.core.access import Denial, Denied
from bot.core.actions import Pace, Verdict
from bot.core.blocks import (
    Block,
    Message,
    actions,
    button,
    confirm,
    context,
    join_within,
    link,
    make_message,
    mention,
    mention_channel,
    mention_group,
    pack,
    pack_subject,
    say,
    say_code,
    say_name,
    section,
)
from bot.core.command import Word
from bot.core.events import Verb
from bot.core.incident_answers import say_outage
from bot.core.incident_words import say_when
from bot.core.picture import say_where
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
    from datetime import timedelta

    from bot.core.actions import StartupView
    from bot.core.events import ChannelId, HostName, OperationId, ServiceName, UserId
    from bot.core.request import (
        Busy,
        Held,
        LastStartup,
        NeedsConfirmation,
        Outage,
        Request,
        Started,
        StatusView,
    )

REDIS_GONE = "Redis does not answer; nothing was done. Try again in a minute."
# Slack tells a mention again that was not acknowledged, and does not say whether it will.
REDIS_GONE_FOR_NOW = (
    "Redis does not answer; nothing was done yet. If it is back in a minute, kimi may still take this up; "
    "after that, try again."
)
_MOST_STATUS = 12  # services in one answer

_HELP: dict[Word, str] = {
    Word.STATUS: "`status [service]`: what it is doing now",
    Word.WATCH: "`watch [service]`: follow the startup that is under way",
    Word.UNWATCH: "`unwatch [service]`: stop following; the service is left alone",
    Word.LOGS: "`logs [service] [200 | 10m]`: the end of its log as a file",
    Word.HISTORY: "`history [service]`: past startups, how long they took and how they ended, with a picture",
    Word.WHY: "`why [service]`: the last failure explained",
    Word.RESTART: "`restart [service] [reason]`: restart it and tell the startup in a thread",
    Word.START: "`start [service] [reason]`: start it and tell the startup in a thread",
    Word.STOP: "`stop [service] [reason]`: stop it; it stays down until started",
    Word.SMOKE: "`smoke [service]`: run the smoke test now; also for who started it last",
    Word.RELOAD: "`reload [service]`: let systemd read its unit files anew (`daemon-reload`)",
    Word.INCIDENTS: "`incidents [service]`: outages; `incidents export ID`: one of them as a file",
    Word.ACK: "`ack [service | ID]`: I am on it; nobody else is called",
    Word.MUTE: "`mute [service | host] 2h [reason]`: open no incidents for so long",
    Word.UNMUTE: "`unmute [service | host]`: open them again",
    Word.RESOLVE: "`resolve [service | ID]`: close its incident, whatever the checks say",
    Word.HELP: "`help`: this",
}
_CHANGES = frozenset(
    {
        Word.RESTART,
        Word.START,
        Word.STOP,
        Word.SMOKE,
        Word.RELOAD,
        Word.MUTE,
        Word.UNMUTE,
        Word.RESOLVE,
    }
)
_BEGINNING = frozenset({Word.RESTART, Word.START, Word.STOP, Word.WATCH})
_TOUCHING: dict[Word, str] = {
    Word.RESOLVE: "close the incident of",
    Word.UNWATCH: "steer the watch of",
    Word.SMOKE: "run the smoke test of",
    Word.RELOAD: "reload the units of",
}
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


def render_sentence(sentence: str) -> Message:
    """One plain sentence, escaped; words in backticks stay code."""
    told = say(sentence, 1_500)
    return make_message(told, section(told))


def render_late(said: str, age: timedelta, *, certain: bool) -> Message:
    """Of what nobody took up in time; `certain`: that it never began."""
    undone = "it never began, and nothing was done" if certain else "whether it was done is not certain"
    return render_sentence(
        f"kimi was down or cut off when you asked for `{said}`, {spell_duration(age)} ago: {undone}. "
        "Ask again if it is still wanted."
    )


def render_begun(said: str, address: str | None) -> Message:
    """Of what a process began that died before it said so."""
    where = link(address, "its thread") if address else "its thread"
    told = f"kimi went down while it answered you. {say_code(said)} had begun by then: see {where}."
    return make_message(told, section(told))


def render_help(*, services: Sequence[ServiceName], operated: Sequence[ServiceName]) -> Message:
    """What this person may do in this channel; `operated` are the services they may restart."""
    looks = "\n".join(text for word, text in _HELP.items() if word not in _CHANGES)
    names = join_within([say_code(name) for name in services], 800, separator=", ")
    blocks = [section(f"Services here: {names}\n{looks}")]
    if operated:
        where = "" if len(operated) == len(services) else f", for {_codes(operated)}"
        blocks.append(
            section(f"As an operator{where}:\n" + "\n".join(_HELP[word] for word in Word if word in _CHANGES))
        )
    blocks.append(context("In a thread, mention me: the service of that thread may be left out."))
    words = [word for word in Word if operated or word not in _CHANGES]
    return make_message(f"You may say here: {join_names(words)}.", *blocks)


def _codes(names: Sequence[ServiceName]) -> str:
    return join_within([say_code(name) for name in names], 600, separator=", ")


def render_refusal(denied: Denied) -> Message:
    """Says no, and who may or where."""
    match denied.why:
        case Denial.CHANNEL:
            told = _wrong_channel(denied)
        case Denial.OPERATOR:
            told = _not_operator(denied)
        case _:
            assert_never(denied.why)
    return make_message(told, section(told))


def _wrong_channel(denied: Denied) -> str:
    where = join_within([mention_channel(channel) for channel in denied.channels[:8]], 600, separator=", ")
    place = f" Ask in {where}." if where else ""
    about = f" about {say_code(denied.service)}" if denied.service else ""
    return f"I do not listen{about} in this channel.{place} Nothing was done."


def _not_operator(denied: Denied) -> str:
    people = [mention(user) for user in denied.people[:10]]
    asked = join_names([*people, *(mention_group(group) for group in denied.groups[:10])], last="or")
    who = f"that may {asked}. Ask one of them here." if asked else "nobody is named as an operator who may."
    doing = _TOUCHING.get(denied.verb, str(denied.verb))
    doing = f"{doing} {say_code(denied.service)}" if denied.service else doing.removesuffix(" of")
    return f"You can look but not {doing}: {who} Nothing was done."


def render_started(request: Request, answer: Started, *, channel: str) -> Message:
    """`channel`: where the thread is."""
    doing = name_verb_doing(request.verb).capitalize() if request.verb is not Verb.WATCH else "Following"
    where = link(answer.link, "its thread") if answer.link else "its thread"
    told = f"{doing} {say_code(request.service)}: see {where} in {mention_channel(channel)}."
    return make_message(told, section(told))


def render_slow(
    verb: Word, service: ServiceName, hosts: Sequence[HostName], seconds: float, *, outage: Outage | None
) -> Message:
    """While hosts keep silent, and before the answer."""
    have = "has" if len(hosts) == 1 else "have"
    begun = f" No {verb} of {say_code(service)} has begun yet;" if verb in _BEGINNING else ""
    told = (
        f"{say(join_names(hosts), 300)} {have} not answered for {seconds:g}s; still trying.{begun} "
        f"{'what' if begun else 'What'} comes of it is told here: no need to ask again."
    )
    lines = [told] if outage is None else [told, say_outage(outage)]
    return make_message("\n".join(lines), section("\n".join(lines)))


def render_busy(request: Request, busy: Busy, *, may_override: bool) -> Message:
    """Who has it, since when, and where to read on; operators may insist."""
    held = busy.held
    told = f"{say_code(request.service)} is already {say_held(held)}. Nothing was done."
    blocks: list[Block] = [section(told)]
    if may_override and request.verb is not Verb.WATCH:
        name = request.verb.capitalize()
        dialogue = confirm(
            f"{name} {request.service} anyway?", "The startup that is under way is given up.", name
        )
        value = pack_request(request, over=held.operation)
        insist = button(f"{name} anyway", "confirm", value, confirm=dialogue, style="danger")
        blocks.append(actions(insist))
    return make_message(told, *blocks)


def say_held(held: Held) -> str:
    """`being restarted by @alice, 2m ago, in weights 12/64: <thread>`."""
    by = f" by {mention(held.by)}" if held.by else ""
    doing = f", {say(held.headline, 300)}" if held.headline else ""
    where = f": {link(held.link, 'see its thread')}" if held.link else ""
    age = spell_duration(held.age)
    when = f"for {age} so far" if held.verb is Verb.WATCH else f"{age} ago"
    return f"being {name_verb_done(held.verb)}{by}, {when}{doing}{where}"


def render_confirmation(request: Request, needed: NeedsConfirmation) -> Message:
    """Asks once more; the buttons carry the whole request."""
    name = request.verb.capitalize()
    reason = f" The reason will be: “{say(request.reason, 300)}”." if request.reason else ""
    told = f"{name} {say_code(request.service)}? {say(needed.why, 600)}{reason}"
    yes = button(name, "confirm", pack_request(request), style="danger")
    no = button("Cancel", "cancel", pack_subject(None, request.service))
    return make_message(told, section(told), actions(yes, no))


def pack_request(request: Request, *, over: OperationId | None = None) -> str:
    """A button's value from which the handlers make the request again."""
    return pack(o=over, s=request.service, v=request.verb, r=request.reason)


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


def render_logs_coming(service: ServiceName, amount: str) -> Message:
    told = f"Fetching {say(amount, 80)} of {say_code(service)}; the file comes here."
    return make_message(told, section(told))


def render_logs_root(service: ServiceName, by: UserId) -> Message:
    told = f"Log of {say_code(service)}, asked for by {mention(by)}:"
    return make_message(told, section(told))


def render_home(
    lines: Sequence[tuple[ServiceName, str]], *, channels: Sequence[ChannelId], deaf: bool = False
) -> tuple[Block, ...]:
    """The Home tab: each service with one plain line, and a button for it. Empty for who is no operator.

    `deaf`: Redis does not answer, so nothing can be begun.
    """
    where = ", ".join(mention_channel(channel) for channel in channels[:8]) or "no channel yet"
    blocks: list[Block] = [section(f"I listen in {where}. Type `/kimi help` there.")]
    if deaf:
        blocks.append(
            section("Redis does not answer: at present nothing can be restarted, started or stopped.")
        )
    for name, line in lines[:20]:
        blocks.append(section(f"{say_name(name)}\n{say(line, 500)}" if line else say_name(name), 800))
        if deaf:
            continue
        blocks.append(actions(button("Restart…", "ask", pack_subject(None, name))))
    return make_message("Home", *blocks).blocks


def render_question(service: ServiceName) -> dict[str, Any]:
    """The modal that asks for a restart's reason."""
    reason = {
        "type": "input",
        "block_id": "reason",
        "optional": True,
        "label": {"type": "plain_text", "text": "Reason, told in the thread"},
        "element": {"type": "plain_text_input", "action_id": "reason", "max_length": 300},
    }
    return make_modal("restart", "Restart", [section(f"Restart {say_code(service)}?"), reason]) | {
        "submit": {"type": "plain_text", "text": "Restart"},
        "private_metadata": pack_subject(None, service),
    }


def make_modal(callback: str, title: str, blocks: Sequence[Block]) -> dict[str, Any]:
    return {
        "type": "modal",
        "callback_id": f"kimi:{callback}",
        "title": {"type": "plain_text", "text": title[:24]},
        "close": {"type": "plain_text", "text": "Close"},
        "blocks": list(blocks),
    }

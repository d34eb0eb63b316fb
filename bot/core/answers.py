"""What one person is told in private: help, refusals, questions, and what was begun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from bot.core.access import Denial, Denied
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
from bot.core.words import (
    join_names,
    name_verb_doing,
    name_verb_done,
    spell_duration,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from bot.core.events import ChannelId, HostName, OperationId, ServiceName, UserId
    from bot.core.request import (
        Busy,
        Held,
        NeedsConfirmation,
        Outage,
        Request,
        Started,
    )

REDIS_GONE = "Redis does not answer; nothing was done. Try again in a minute."
# Slack tells a mention again that was not acknowledged, and does not say whether it will.
REDIS_GONE_FOR_NOW = (
    "Redis does not answer; nothing was done yet. If it is back in a minute, kimi may still take this up; "
    "after that, try again."
)

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
    who = f"{asked} may. Ask one of them here." if asked else "nobody is named as an operator who may."
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

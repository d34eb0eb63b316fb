"""The replies in an incident's thread: what happened, each once, in words for Slack."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from bot.core.actions import Verdict
from bot.core.asides import say_changed
from bot.core.blocks import (
    Block,
    Message,
    context,
    link,
    make_message,
    mention,
    mention_group,
    preformatted,
    say,
    say_code,
    say_name,
    section,
)
from bot.core.emptied import INCIDENT_FOUND
from bot.core.incident_actions import (
    AckTold,
    AffectedTold,
    AgainTold,
    AttemptTold,
    ChangesTold,
    EndTold,
    EscalationTold,
    GapTold,
    IncidentReply,
    IncidentView,
    MuteTold,
    RunTold,
    SignTold,
    StartLinked,
    StartOverTold,
    StartsTold,
    WorsenedTold,
)
from bot.core.incident_state import OUT_OF_SIGHT, Ending, Severity, short_id
from bot.core.incident_words import (
    UNKNOWN_NOW,
    name_some,
    ordinal,
    say_clock,
    say_when,
    tell_attempt,
    tell_downtime,
    tell_first,
    tell_plain,
    tell_run,
    tell_state,
    tell_well,
)
from bot.core.words import Searched, count, name_verb_doing, spell_duration

if TYPE_CHECKING:
    from bot.core.incident_events import ServiceStart
    from bot.core.incident_state import RunRead, Sign

_MOST_LINES = 2_600


def render_incident_reply(reply: IncidentReply, view: IncidentView) -> Message:
    """`view` names what it happened to: a reply that is shown in the channel says it too."""
    match reply:
        case SignTold() | WorsenedTold() | AgainTold():
            return _sign(reply, view)
        case RunTold() | ChangesTold() | AttemptTold():
            return _log(reply, view)
        case StartLinked() | StartsTold() | StartOverTold():
            return _start(reply)
        case AckTold() | MuteTold() | EscalationTold():
            return _people(reply, view)
        case AffectedTold() | GapTold():
            return _sight(reply)
        case EndTold():
            return _end(reply, view)
        case _:
            assert_never(reply)


def _sight(reply: AffectedTold | GapTold) -> Message:
    if isinstance(reply, GapTold):
        return _line(INCIDENT_FOUND)
    names = name_some([say_code(name) for name in reply.services], 20)
    return _line(f"{names} cannot be seen either: {count(reply.total, 'service')} there in all.")


def _line(markup: str, *blocks: Block) -> Message:
    return make_message(markup, section(markup), *blocks)


def _sentence(text: str, most: int = 600) -> str:
    told = say(text, most).rstrip(".")
    return f"{told[:1].upper()}{told[1:]}."


# ---- signs ------------------------------------------------------------------------------------------------


def _sign(reply: SignTold | WorsenedTold | AgainTold, view: IncidentView) -> Message:
    name, what = say_name(view.subject), say(reply.sign.brief, 600)
    match reply:
        case SignTold():
            told = _sentence(reply.sign.brief)
        case WorsenedTold():
            state = tell_state(reply.severity, hidden=reply.sign.kind in OUT_OF_SIGHT)
            told = f"🔴 {name} is *{state}* now, and was degraded before: {what}."
        case AgainTold():
            told = f"{name} is {_again(reply)}: {what}."
        case _:
            assert_never(reply)
    return _line(told, *_evidence(reply.sign))


def _again(reply: AgainTold) -> str:
    state = tell_state(reply.severity, hidden=reply.sign.kind in OUT_OF_SIGHT)
    well = "was seen" if reply.severity is Severity.HOST else "was well"
    span = f" after it {well} for {spell_duration(reply.served)}" if reply.served else ""
    if reply.times == 1:
        return f"{state} now{span}"
    return f"{state} again{span}, for the {ordinal(reply.times)} time"


def _evidence(sign: Sign) -> tuple[Block, ...]:
    shown = "\n".join(line for line in sign.evidence if line.strip())
    return (preformatted(shown, 1_500),) if shown else ()


# ---- the log ----------------------------------------------------------------------------------------------


def _log(reply: RunTold | ChangesTold | AttemptTold, view: IncidentView) -> Message:
    match reply:
        case RunTold():
            return _run(reply.read, view)
        case ChangesTold():
            return _line(say_changed(reply.changed))
        case AttemptTold():
            told = tell_attempt(reply.attempt, reply.same)
            read = reply.attempt.read
            first = read.evidence[0] if read is not None and read.evidence else ""
            # A cause of its own kind is worth its line; one that repeats has been shown.
            shown = (preformatted(first, 800),) if first and reply.same == 1 else ()
            return _line(_sentence(told), *shown)
        case _:
            assert_never(reply)


def _run(read: RunRead, view: IncidentView) -> Message:
    blocks: list[Block] = []
    if read.is_known:
        told = f"*{say(tell_run(read), 700)}*"
        blocks += [preformatted("\n".join(read.evidence), 1_500)] if read.evidence else []
        blocks += [section(say(text, 700)) for text in (read.means, _try(read.advice)) if text]
    else:
        # Of the outage that opened the thread, nothing was said there before this.
        opening = view.signs and view.down_since == view.began
        told = f"{_sentence(tell_first(view.signs[0]))} " if opening else ""
        told += "No line of its log says why."
    lines = count(len(read.excerpt), "line")
    blocks += [context(f"The last {lines} of that run:"), preformatted(_newest(read.excerpt), _MOST_LINES)]
    return _line(told, *blocks)


def _try(advice: str) -> str:
    return f"Try: {advice}" if advice else ""


def _newest(lines: tuple[str, ...]) -> str:
    """The end of them that fits, line by line."""
    kept: list[str] = []
    room = _MOST_LINES - 200
    for line in reversed(lines):
        room -= len(line.encode()) + 1
        if kept and room < 0:
            break
        kept.append(line)
    return "\n".join(reversed(kept))


# ---- starts and people ------------------------------------------------------------------------------------


def _start(reply: StartLinked | StartsTold | StartOverTold) -> Message:
    if isinstance(reply, StartsTold):
        return _line(f"Starting again: {', '.join(_say_start(each) for each in reply.starts[:20])}.")
    where = link(reply.link, "its thread") if reply.link else "its own thread"
    if isinstance(reply, StartOverTold):
        again = "" if reply.verdict is Verdict.HEALTHY else f" See {where}."
        return _line(f"{_sentence(tell_plain(reply))}{again}")
    if reply.how is None and reply.by is not None:
        return _line(f"{mention(reply.by)} is {name_verb_doing(reply.verb)} it: see {where}.")
    return _line(f"{_sentence(tell_plain(reply))} That start is told in {where}.")


def _say_start(start: ServiceStart) -> str:
    where = f" ({link(start.link, 'its thread')})" if start.link else ""
    return f"{say_code(start.service)}{where}"


def _people(reply: AckTold | MuteTold | EscalationTold, view: IncidentView) -> Message:
    match reply:
        case AckTold():
            return _line(f"{mention(reply.by)} acknowledged after {spell_duration(reply.after)}.")
        case MuteTold() if reply.until is None:
            by = f" by {mention(reply.by)}" if reply.by is not None else ""
            return _line(f"No longer muted{by}.")
        case MuteTold():
            by = f" by {mention(reply.by)}" if reply.by is not None else ""
            reason = f": “{say(reply.reason, 300)}”" if reply.reason else "."
            return _line(f"Muted{by} until {say_when(reply.until or view.now)}{reason}")
        case EscalationTold():
            whom = mention_group(reply.group) if reply.group else "Somebody is needed here:"
            after = spell_duration(reply.after)
            told = f"{whom} {say_name(view.subject)}: nobody has acknowledged this incident for {after}."
            return _line(f"{told} {_sentence(why)}" if (why := _why(view)) else told)
        case _:
            assert_never(reply)


def _why(view: IncidentView) -> str:
    """What who is called needs first: what it dies of now, else why it broke."""
    if view.last_attempt is not None:
        return tell_attempt(view.last_attempt, 1)
    return view.cause or (tell_first(view.stands) if view.stands is not None else "")


# ---- the end ----------------------------------------------------------------------------------------------


def _end(reply: EndTold, view: IncidentView) -> Message:
    name, after = say_name(view.subject), spell_duration(reply.after)
    by = f" by {mention(reply.by)}" if reply.by is not None else ""
    match reply.ending:
        case Ending.STOPPED:
            told = f"{name}: closed after {after}. {_sentence(reply.sentence or 'it was stopped')}"
            told += " It stays down until started."
        case Ending.BY_HAND:
            told = f"{name}: *{Searched.RESOLVED}* by hand{by} after {after}."
        case Ending.UNWATCHED:
            told = f"⏹ {name}: closed after {after}, as nobody watches it any more."
            told += f" {_sentence(reply.sentence)} {_sentence(UNKNOWN_NOW)}"
        case Ending.RECOVERED:
            told = f"✅ {name} *{Searched.RESOLVED}* after {after}.{_since(reply)}"
        case _:
            assert_never(reply.ending)
    cause = (section(f"Cause: {say(reply.cause, 700)}"),) if reply.cause else ()
    export = f"The timeline is below; later: `incidents export {short_id(view.incident)}`"
    if reply.ending is Ending.RECOVERED:  # shown in the channel too, where nothing more is said of it
        export += " · this thread's first message shows the present"
    return _line(told, *cause, context(export))


def _since(reply: EndTold) -> str:
    if reply.since is None:
        return ""
    well = tell_well(reply.severity, hidden=reply.hidden).capitalize()
    return f" {well} since {say_clock(reply.since)}{tell_downtime(reply)}."

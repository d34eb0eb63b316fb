"""What the replies of an incident say, as plain sentences: for its timeline, its export and other tools."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, assert_never

from bot.core.actions import Verdict
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
    MuteTold,
    RunTold,
    SignTold,
    StartLinked,
    StartOverTold,
    StartsTold,
    WorsenedTold,
)
from bot.core.incident_state import OUT_OF_SIGHT, Attempt, Ending, How, RunRead, Severity, SignKind
from bot.core.words import Searched, count, join_names, label_phase, name_verb_done, spell_duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from bot.core.incident_state import Sign

_HOW = {
    How.SYSTEMD: "it was started again by systemd itself",
    How.BOOT: "it was started with its host",
    How.OUTSIDE: "someone or something outside chat has started it",
}

FIRST, NOT_KNOWN = " · first: ", "not known"
UNKNOWN_NOW = "how it is now is not known"
_ENDS = {1: "st", 2: "nd", 3: "rd"}


def tell_how(how: How, attempt: int = 0) -> str:
    """Why a startup that nobody in chat asked for has begun: the reason that its thread shows."""
    match how:
        case How.SYSTEMD:
            counter = f" (restart counter {attempt})" if attempt else ""
            return f"by systemd, after a crash{counter}"
        case How.BOOT:
            return "with its host, which was booted anew"
        case How.OUTSIDE:
            return "by a person, a timer or a tool on the host"
        case _:
            assert_never(how)


def tell_plain(reply: IncidentReply) -> str:
    """One sentence, without a mark at its end and without the person who did it."""
    match reply:
        case SignTold() | WorsenedTold() | AgainTold():
            return _tell_sign(reply)
        case RunTold() | ChangesTold() | AttemptTold():
            return _tell_log(reply)
        case StartLinked() | StartsTold() | StartOverTold():
            return _tell_start(reply)
        case AckTold() | MuteTold() | EscalationTold():
            return _tell_people(reply)
        case AffectedTold() | GapTold():
            return _tell_sight(reply)
        case EndTold():
            return tell_end(reply)
        case _:
            assert_never(reply)


def _tell_sign(reply: SignTold | WorsenedTold | AgainTold) -> str:
    if isinstance(reply, SignTold):
        return reply.sign.brief
    state = tell_state(reply.severity, hidden=reply.sign.kind in OUT_OF_SIGHT)
    if isinstance(reply, WorsenedTold):
        return f"{state} now: {reply.sign.brief}"
    well = "in sight" if reply.severity is Severity.HOST else "well"
    served = f" after {spell_duration(reply.served)} {well}" if reply.served is not None else ""
    if reply.times == 1:
        return f"{state} now{served}: {reply.sign.brief}"
    return f"{state} again{served}, for the {ordinal(reply.times)} time: {reply.sign.brief}"


def _tell_log(reply: RunTold | ChangesTold | AttemptTold) -> str:
    match reply:
        case RunTold():
            return f"the log before it: {tell_run(reply.read)}"
        case ChangesTold():
            return f"changed since the last good start: {join_names(reply.changed.told[:6])}"
        case AttemptTold():
            return tell_attempt(reply.attempt, reply.same)
        case _:
            assert_never(reply)


def _tell_sight(reply: AffectedTold | GapTold) -> str:
    if isinstance(reply, GapTold):
        return "Redis came back empty while kimi was away; what happened meanwhile is not known"
    return f"{name_some(reply.services)} cannot be seen either: {count(reply.total, 'service')} in all"


def name_some(names: Sequence[str], most: int = 8) -> str:
    """`a, b and 3 more`."""
    more = len(names) - most
    return join_names(names) if more <= 0 else join_names([*names[:most], f"{more} more"])


def tell_run(read: RunRead) -> str:
    if not read.is_known:
        return "no line of it says why"
    rank = f" ({read.rank})" if read.rank is not None and read.rank not in read.cause else ""
    return f"{read.cause}{rank}"


def tell_causes(cause: str, first: str) -> str:
    """`GPU memory is full · first: a file is missing`; "" where nothing is known."""
    return f"{cause or NOT_KNOWN}{FIRST}{first}" if first else cause


def tell_attempt(attempt: Attempt, same: int) -> str:
    """`attempt 4 died in weights after 3m: out of GPU memory`; or the same way, as those before."""
    read = attempt.read
    lasted = attempt.lasted or (read.lasted if read is not None else None)
    after = f" after {spell_duration(lasted)}" if lasted is not None else ""
    where = f" in {label_phase(read.phase, read.role)}" if read is not None and read.phase is not None else ""
    why = f": {tell_run(read)}" if read is not None and read.is_known else ""
    again = f" the same way{',' if where or after else ''}" if same > 1 else ""
    return f"attempt {attempt.number} died{again}{where}{after}{why}"


def _tell_start(reply: StartLinked | StartsTold | StartOverTold) -> str:
    if isinstance(reply, StartsTold):
        return f"starting again: {join_names([each.service for each in reply.starts[:20]])}"
    if isinstance(reply, StartLinked):
        return _HOW[reply.how] if reply.how is not None else name_verb_done(reply.verb)
    took = spell_duration(reply.took)
    match reply.verdict:
        case Verdict.HEALTHY:
            return f"that start came through after {took}"
        case Verdict.FAILED:
            return f"that start came to nothing after {took}{f': {reply.cause}' if reply.cause else ''}"
        case Verdict.STOPPED:
            return f"stopped after {took}"
        case Verdict.UNWATCHED | Verdict.SUPERSEDED:
            return f"that start is no longer followed, after {took}"
        case _:
            assert_never(reply.verdict)


def _tell_people(reply: AckTold | MuteTold | EscalationTold) -> str:
    match reply:
        case AckTold():
            return f"acknowledged after {spell_duration(reply.after)}"
        case MuteTold():
            if reply.until is None:
                return "the mute is over"
            reason = f": {reply.reason}" if reply.reason else ""
            return f"muted until {reply.until.astimezone(UTC):%d %b %H:%M} UTC{reason}"
        case EscalationTold():
            whom = f"{reply.group} called" if reply.group else "escalated"
            return f"{whom}: nobody has acknowledged it for {spell_duration(reply.after)}"
        case _:
            assert_never(reply)


def tell_first(sign: Sign) -> str:
    """What broke first; of an engine that is dead, what goes on answering all the same."""
    though = f", though {sign.evidence[0]}" if sign.kind is SignKind.SMOKE and sign.evidence else ""
    return f"{sign.brief}{though}"


def tell_state(severity: Severity, *, hidden: bool = False) -> str:
    """What it is. `hidden`: of a host, that it is there and nothing on it can be seen."""
    match severity:
        case Severity.DEGRADED:
            return "degraded"
        case Severity.DOWN:
            return "down"
        case Severity.HOST:
            return "out of sight" if hidden else "gone"
        case _:
            assert_never(severity)


def tell_well(severity: Severity, *, hidden: bool = False) -> str:
    """What it does once it is over."""
    match severity:
        case Severity.DEGRADED:
            return "nothing of the kind was seen"
        case Severity.DOWN:
            return "serves again"
        case Severity.HOST:
            return "can be seen again" if hidden else "answers again"
        case _:
            assert_never(severity)


def tell_end(reply: EndTold) -> str:
    """`resolved after 13m02s: serves again since 03:25:43 UTC; down 13m02s, 8m of it loading`."""
    after = spell_duration(reply.after)
    match reply.ending:
        case Ending.STOPPED:
            return f"closed after {after}: {reply.sentence or 'it was stopped'}; it stays down until started"
        case Ending.BY_HAND:
            return f"{Searched.RESOLVED} by hand after {after}"
        case Ending.UNWATCHED:
            return f"closed after {after}, as nobody watches it any more: {reply.sentence}; {UNKNOWN_NOW}"
        case Ending.RECOVERED:
            well, since = tell_well(reply.severity, hidden=reply.hidden), ""
            if reply.since is not None:
                since = f": {well} since {reply.since.astimezone(UTC):%H:%M:%S} UTC"
            return f"{Searched.RESOLVED} after {after}{since}{tell_downtime(reply)}"
        case _:
            assert_never(reply.ending)


def tell_downtime(reply: EndTold) -> str:
    if not reply.downtime:
        return ""
    loading = f", {spell_duration(reply.loading)} of it loading" if reply.loading else ""
    state = tell_state(reply.worst or reply.severity, hidden=reply.hidden)
    took = spell_duration(reply.downtime)
    spent = took if reply.times == 1 else f"{tell_times(reply.times)}, {took} in all"
    return f"; {state} {spent}{loading}"


def tell_times(times: int) -> str:
    """`twice`, `3 times`."""
    return "twice" if times == 2 else f"{times} times"  # noqa: PLR2004 - English has a word for it


def ordinal(number: int) -> str:
    """`2nd`, `3rd`, `11th`."""
    if number % 100 in {11, 12, 13}:
        return f"{number}th"
    return f"{number}{_ENDS.get(number % 10, 'th')}"


def say_clock(at: datetime) -> str:
    """For Slack: the time of day in each reader's own zone, to the second."""
    return f"<!date^{int(at.timestamp())}^{{time_secs}}|{at.astimezone(UTC):%H:%M:%S} UTC>"


def say_when(at: datetime) -> str:
    """The same of a time to come, with its day where that is not today."""
    return (
        f"<!date^{int(at.timestamp())}^{{date_short_pretty}} {{time}}|{at.astimezone(UTC):%d %b %H:%M} UTC>"
    )

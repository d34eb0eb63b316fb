"""The two replies that ask for a person's judgement: a stall, and the verdict."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from bot.core.actions import Mark, Verdict
from bot.core.asides import make_reload_button, say_setup
from bot.core.blocks import (
    actions,
    button,
    confirm,
    context,
    fit,
    join_within,
    make_message,
    mention,
    pack,
    pack_subject,
    preformatted,
    say,
    say_code,
    say_name,
    section,
    table,
    weigh,
)
from bot.core.events import MAIN_RANK, PhaseId, Verb
from bot.core.smoke import answer_blocks, say_smoke
from bot.core.words import (
    Searched,
    count,
    join_names,
    label_phase,
    name_doing,
    name_phase,
    name_ranks,
    spell_duration,
    spell_usual,
)

if TYPE_CHECKING:
    from bot.core.actions import PhaseView, StallReported, StartupView, VerdictReached
    from bot.core.blocks import Block, Element, Message
    from bot.core.events import Rank

_DIGITS = re.compile(r"\d+")
KEEP_WAITING = timedelta(minutes=30)  # what one press of the button adds


def render_stall(reply: StallReported, view: StartupView) -> Message:
    where = name_phase(reply.phase, reply.role)
    progress = f" at {reply.progress.done:,} of {reply.progress.total:,}" if reply.progress else ""
    told = (
        f"⚠️ *{Searched.STALLED}* in {where}{progress}: no progress for {spell_duration(reply.silent)} "
        f"({_patience(reply)}), {spell_usual(reply.in_phase, view.usual_phase)} in this phase."
    )
    whom = f"For {mention(view.by)} to judge: " if view.by is not None else "Somebody has to judge it: "
    blocks = [section(f"{told}\n{whom}kimi does nothing to the service by itself.", 1_100)]
    evidence = [*(say(line, 300) for line in reply.evidence), _stall_ranks(reply)]
    if any(evidence):
        blocks.append(section(join_within(filter(None, evidence), 2_000, separator="\n"), 2_100))
    if reply.last_lines:
        blocks.append(context(f"Last new {'line' if len(reply.last_lines) == 1 else 'lines'}:"))
        blocks.append(preformatted(_last_of(reply.last_lines), 2_500))
    blocks.append(actions(*_stall_buttons(view)))
    return make_message(f"{say_name(view.service)} {told}", *blocks)


def _patience(reply: StallReported) -> str:
    """`patience here: 15m; the longest of a start that came through: 6m20s`."""
    told = f"patience here: {spell_duration(reply.patience)}"
    if not reply.longest:
        return told
    return f"{told}; the longest of a start that came through: {spell_duration(reply.longest)}"


def _last_of(lines: tuple[str, ...], most: int = 2_400) -> str:
    """The newest lines that fit; of those that differ in numbers alone, as ranks' lines do, the last."""
    newest = {_DIGITS.sub("0", line): line for line in lines}.values()
    shown = [line for line in lines if line in newest]
    kept: list[str] = []
    for line in reversed(shown[-8:]):
        short = fit(line.strip("\n"), 700, escaped=False)
        most -= weigh(short)
        if kept and most < 0:
            break
        kept.append(short)
    return "\n".join(reversed(kept))


def _stall_ranks(reply: StallReported) -> str:
    """Where each rank is, said with as few words as it takes."""
    ranks = [seen for seen in reply.ranks if seen.rank != MAIN_RANK]
    where = name_phase(reply.phase, reply.role)
    here = [seen.rank for seen in ranks if (seen.phase, seen.role) == (reply.phase, reply.role)]
    has = "has" if len(reply.lagging) == 1 else "have"
    if reply.lagging and len(reply.lagging) < len(here):
        return f"{say(name_ranks(reply.lagging))} {has} not ended {where}; the others have."
    if ranks and len(here) == len(ranks):
        return f"All {count(len(ranks), 'rank')} began {where}; none ended it."
    away = [f"{say(s.rank, 40)} in {name_phase(s.phase, s.role)}" for s in ranks if s.rank not in here]
    return f"Elsewhere: {join_names(away[:4])}." if away else ""


def _stall_buttons(view: StartupView) -> tuple[Element, ...]:
    minutes = int(KEEP_WAITING.total_seconds() // 60)
    wait = pack(o=view.operation, s=view.service, m=minutes)
    return (
        button(f"Keep waiting {minutes}m", "wait", wait),
        _look_button("Logs", "logs", view),
        make_verb_button(Verb.RESTART, view),
        make_verb_button(Verb.STOP, view),
    )


def make_verb_button(verb: Verb, view: StartupView) -> Element:
    """[Restart] or [Stop], with the dialogue that makes a slip of the thumb harmless."""
    title = f"{verb.capitalize()} {view.service}?"
    text = (
        "systemd starts the service anew. A startup that is under way is given up."
        if verb is Verb.RESTART
        else "systemd stops the service. It stays down until someone starts it."
    )
    dialogue = confirm(title, text, verb.capitalize())
    return button(
        verb.capitalize(), verb, pack_subject(view.operation, view.service), confirm=dialogue, style="danger"
    )


def render_verdict(reply: VerdictReached, view: StartupView) -> Message:
    match reply.verdict:
        case Verdict.HEALTHY:
            return _healthy(reply, view)
        case Verdict.FAILED:
            return _failed(reply, view)
        case Verdict.STOPPED:
            took = spell_usual(reply.took, reply.usual)
            return _line(f"{say_name(view.service)} is stopped, after {took}. It stays down until started.")
        case Verdict.UNWATCHED:
            return _line(f"No longer watched{_by(reply)}; the service is left alone and goes on by itself.")
        case Verdict.SUPERSEDED:
            return _line(f"This thread ends here: another operation was begun{_by(reply)}.")
        case _:
            assert_never(reply.verdict)


def _line(markup: str) -> Message:
    return make_message(markup, section(markup))


def _by(reply: VerdictReached) -> str:
    return f" by {mention(reply.by)}" if reply.by is not None else ""


def _healthy(reply: VerdictReached, view: StartupView) -> Message:
    serves = f" Serves {say_code(reply.model)}" if reply.model else ""
    smoke = say_smoke(reply.smoke, reply.smoke_usual) if reply.smoke is not None else ""
    rest = "; ".join(part for part in (serves, smoke) if part)
    told = f"*{Searched.HEALTHY}* after {spell_usual(reply.took, reply.usual)}.{f'{rest}.' if rest else ''}"
    blocks = [section(f"✅ {told}{_markers(reply)}"), *answer_blocks(reply.smoke)]
    if reply.phases:
        blocks.append(_durations(reply.phases))
    return make_message(f"{say_name(view.service)} {told}{_spoken_durations(reply.phases)}", *blocks)


def _markers(reply: VerdictReached) -> str:
    """What no reply told any more."""
    left = [f"{say_name(name)} {number:,} more" for name, number in reply.markers.items()]
    return f"\nMarkers since they were last told: {join_within(left, 600, separator=', ')}." if left else ""


def _durations(phases: tuple[PhaseView, ...]) -> Block:
    """The column of what is usual only where something is: of a first start nothing is known yet."""
    begun = [seen for seen in phases if seen.mark is not Mark.AHEAD and not is_wait(seen)]
    rows = [("Phase", "Took", "Usual")]
    for seen in begun:
        took = "-" if seen.took is None else spell_duration(seen.took)
        usual = "-" if seen.usual is None else spell_duration(seen.usual)
        rows.append((label_phase(seen.phase, seen.role), took, usual))
    known = any(seen.usual is not None for seen in begun)
    return table([row if known else row[:2] for row in rows])


def is_wait(seen: PhaseView) -> bool:
    """The rest of the time that a start must hold: our own choice, no work of the service."""
    return seen.phase is PhaseId.READY and seen.mark is Mark.DONE


def _spoken_durations(phases: tuple[PhaseView, ...]) -> str:
    """The table's content for clients that show no blocks."""
    told = [
        f"{label_phase(seen.phase, seen.role)} {spell_usual(seen.took, seen.usual)}"
        for seen in phases
        if seen.took is not None and not is_wait(seen)
    ]
    return f" {join_within(told, 800, separator=', ')}." if told else ""


def _failed(reply: VerdictReached, view: StartupView) -> Message:
    doing = name_doing(reply.phase, reply.role)
    told = f"*{Searched.FAILED}* after {spell_duration(reply.took)} while {doing}{_cause(reply)}"
    blocks = [section(f"❌ {say_name(view.service)} {told}", 1_800)]
    if reply.root_error and reply.root_error.strip():
        blocks.append(preformatted(_quote(reply.root_error, reply.speaker or reply.rank), 1_700))
    blocks.extend(section(line, 1_300) for line in _counsel(reply))
    changed = say_setup(reply.setup, view) if reply.setup is not None else ""
    if beside := f"{changed}{_markers(reply)}".strip():
        blocks.append(section(beside))
    if reply.phases:
        blocks.append(_durations(reply.phases))
    reload = (make_reload_button(view),) if reply.setup is not None and reply.setup.stale else ()
    why, history = _look_button("Why", "why", view), _look_button("History", "history", view)
    logs = _look_button("Logs", "logs", view)
    verbs = (Verb.RESTART, Verb.STOP) if reply.loops else (Verb.RESTART,)
    orders = [make_verb_button(verb, view) for verb in verbs]
    blocks.append(actions(why, *orders, *reload, history, logs))
    return make_message(f"{say_name(view.service)} {told}", *blocks)


def _counsel(reply: VerdictReached) -> list[str]:
    """What the failure is, what to try, and what else went wrong: a paragraph each."""
    means = [say(reply.means, 450)] if reply.means else []
    advice = [f"Try: {say(reply.advice, 550)}"] if reply.advice else []
    also = [f"Another failure, apart from it: {say(reply.also, 300)}"] if reply.also else []
    return [*means, *advice, *also]


def _cause(reply: VerdictReached) -> str:
    """`: TP3: out of GPU memory.`, the rank only where the sentence does not name it."""
    cause = say(reply.cause or "", 900).rstrip(".")
    if not cause:
        return "."
    rank = reply.rank
    named = rank is None or rank == MAIN_RANK or rank in cause
    told = _begin_small(cause)
    return f": {told}." if named else f": {say(rank or '', 40)}: {told}."


def _begin_small(sentence: str) -> str:
    """`Out of GPU memory` as it goes on behind a colon; `NCCL` and other names stay as they are."""
    first = sentence.split(" ", 1)[0]
    plain = first == "A" or (first[1:].isalpha() and first[1:].islower())
    return sentence[:1].lower() + sentence[1:] if plain else sentence


def _quote(line: str, rank: Rank | None) -> str:
    """The root error with the rank that wrote it, unless the line names it itself."""
    told = line.strip("\n")
    return told if rank is None or rank == MAIN_RANK or rank in told else f"[{rank}] {told}"


def _look_button(label: str, verb: str, view: StartupView) -> Element:
    """One that changes nothing, for everybody."""
    return button(label, verb, pack_subject(view.operation, view.service))

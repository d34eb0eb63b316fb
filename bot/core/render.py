"""The thread of one startup: the root message that shows the present, and the replies that stay."""

from __future__ import annotations

from typing import assert_never

from bot.core.actions import (
    LogGap,
    Mark,
    MarkerSeen,
    MovedAgain,
    Noticed,
    Pace,
    PhaseFinished,
    PhaseView,
    RankView,
    Reply,
    Resumed,
    SetupChanged,
    StallReported,
    StartupView,
    Verdict,
    VerdictReached,
)
from bot.core.asides import render_aside
from bot.core.blocks import (
    Block,
    Element,
    Message,
    actions,
    button,
    context,
    join_within,
    make_message,
    mention,
    pack_subject,
    preformatted,
    say,
    say_name,
    section,
)
from bot.core.events import MAIN_RANK, PhaseId, Verb
from bot.core.report import is_wait, render_stall, render_verdict
from bot.core.words import (
    Searched,
    count,
    draw_bar,
    join_names,
    label_phase,
    name_doing,
    name_done,
    name_phase,
    name_ranks,
    name_ranks_doing,
    name_units,
    name_verb_doing,
    name_verb_done,
    spell_duration,
    spell_estimate,
    spell_span,
    spell_usual,
)

__all__ = ["Block", "Message", "render_reply", "render_root"]

_MARKS: dict[Mark, str] = {
    Mark.DONE: "✓",
    Mark.NOW: "▸",
    Mark.AHEAD: "·",
    Mark.STALLED: "‼",
    Mark.FAILED: "✗",
}
_NO_BREAK = "\N{NO-BREAK SPACE}"
_BEFORE_RANKS = frozenset({PhaseId.PROCESS, PhaseId.DISTRIBUTED})


def render_root(view: StartupView) -> Message:
    """The present. The types of its blocks never change: Slack refuses an edit that changes them."""
    headline = _headline(view)
    body = "\n".join(line for line in (headline, *_present(view)) if line)
    blocks = (
        section(body),
        context(_marks(view.phases) or "no phase yet"),
        context(_people(view)),
        actions(*_root_buttons(view)),
    )
    return make_message(_brief(view, headline), *blocks)


def _headline(view: StartupView) -> str:
    name, where = say_name(view.service), _where(view)
    match view.verdict:
        case None:
            phase = "" if view.verb is Verb.STOP else f" · {_doing(view)}"
            return f"{name} is {name_verb_doing(view.verb)} on {where}{phase}"
        case Verdict.HEALTHY:
            return (
                f"✅ {name} is *{Searched.HEALTHY}* on {where} after {spell_usual(view.elapsed, view.usual)}"
            )
        case Verdict.FAILED:
            doing, took = _failed_doing(view), spell_duration(view.elapsed)
            return f"❌ {name} *{Searched.FAILED}* on {where} after {took} while {doing}"
        case Verdict.STOPPED:
            return f"{name} is stopped on {where} after {spell_duration(view.elapsed)}"
        case Verdict.UNWATCHED:
            return f"{name} is no longer watched; the service is left alone"
        case Verdict.SUPERSEDED:
            return f"{name}: this thread is over, another operation was begun"
        case _:
            assert_never(view.verdict)


def _failed_doing(view: StartupView) -> str:
    """The phase that failed, which need not be the one that was under way when it came out."""
    failed = next((seen for seen in view.phases if seen.mark is Mark.FAILED), None)
    return name_doing(view.phase, view.role) if failed is None else name_doing(failed.phase, failed.role)


def _where(view: StartupView) -> str:
    return say(join_names(dict.fromkeys(view.hosts)), 200) or "its host"


def _doing(view: StartupView) -> str:
    doing = name_doing(view.phase, view.role)
    return f"⚠️ no progress while {doing}" if view.pace is Pace.STALLED else doing


def _present(view: StartupView) -> tuple[str, ...]:
    """The lines below the headline: what moves while it starts, what it came to once it is over."""
    if view.verdict is not None:
        return (say(view.cause, 900),) if view.cause and view.verdict is Verdict.FAILED else ()
    lost = f"⚠️ {say(view.lost, 300)}" if view.lost else ""
    ranks = "; ".join(part for part in (_ranks_line(view), view.measured) if part)
    return (_progress_line(view), ranks, *(say(note, 200) for note in view.notes[:3]), lost)


def _progress_line(view: StartupView) -> str:
    now = _current(view)
    parts = [] if now is None or now.progress is None else [_bar(now)]
    if not parts and view.share is not None:
        parts.append(f"{draw_bar(view.share)} {view.share:.0%} read")
    if _has_begun(now, view):
        parts.append(_time_in_phase(view))
    if view.eta is not None and view.pace is not Pace.STALLED:
        parts.append(f"{spell_span(*(view.eta_span or (view.eta, view.eta)))} to ready")
    elif view.eta_after is not None and view.pace is not Pace.STALLED:
        parts.append(f"{spell_estimate(view.eta_after)} to ready once this phase is done")
    elif view.eta_phase is not None and view.pace is not Pace.STALLED:
        parts.append(f"{spell_estimate(view.eta_phase)} left of it")
    return " · ".join(parts)


def _time_in_phase(view: StartupView) -> str:
    """`3m10s in this phase (usual 5m)`; where it is slow, what counts: `usual 6m10s, now 8m40s`."""
    spent, usual = spell_duration(view.in_phase), view.usual_phase
    if usual is not None and view.pace is Pace.SLOW:
        return f"slower than usual: usual {spell_duration(usual)}, now {spent}"
    return f"{spent} in this phase" + ("" if usual is None else f" (usual {spell_duration(usual)})")


def _has_begun(now: PhaseView | None, view: StartupView) -> bool:
    """False between two phases: the time told would be that of the whole start."""
    return now is None or now.took is not None or all(seen.took is None for seen in view.phases)


def _current(view: StartupView) -> PhaseView | None:
    same = (seen for seen in reversed(view.phases) if (seen.phase, seen.role) == (view.phase, view.role))
    return next(same, None)


def _bar(seen: PhaseView) -> str:
    if seen.progress is None:
        return ""
    done, total = seen.progress.done, seen.progress.total
    full = ", but not done yet" if done >= total > 0 and seen.mark is Mark.NOW else ""
    return f"{draw_bar(seen.progress.fraction)} {done:,} of {total:,} {name_units(seen.phase)}{full}"


def _ranks_line(view: StartupView) -> str:
    """How many ranks are where, and who is behind."""
    ranks = [seen for seen in view.ranks if seen.rank != MAIN_RANK]
    if not ranks:
        awaited = view.expected_ranks if view.phase in _BEFORE_RANKS else None
        return f"waiting for {count(awaited, 'rank')}" if awaited else ""
    here = [seen for seen in ranks if (seen.phase, seen.role) == (view.phase, view.role)]
    behind = [seen.rank for seen in here if not seen.ended]
    total = max(view.expected_ranks or 0, len(ranks))
    if not here:
        return ""  # a phase that is not told per rank
    if len(here) == len(behind):
        doing = name_ranks_doing(view.phase, view.role)
        return f"{len(here)} of {total} ranks {doing}{_elsewhere(ranks, view)}"
    done = len(here) - len(behind)
    named = behind if len(behind) <= done else []
    waiting = f"; waiting for {say(name_ranks(named))}" if named else ""
    have = "has" if done == 1 else "have"
    return f"{done} of {total} ranks {have} finished {name_phase(view.phase, view.role)}{waiting}"


def _elsewhere(ranks: list[RankView], view: StartupView) -> str:
    """The ranks that are in another phase, where they are few enough to be laggards."""
    others = [seen for seen in ranks if (seen.phase, seen.role) != (view.phase, view.role)]
    if not others or len(others) > len(ranks) // 2:
        return ""
    where = name_phase(others[0].phase, others[0].role)
    return f"; {say(name_ranks([seen.rank for seen in others]))} still in {where}"


def _marks(phases: tuple[PhaseView, ...]) -> str:
    """One compact line: `✓ stop 14s  ▸ weights  · memory`. The end of it is never left out."""
    told = [_mark(seen) for seen in phases if not is_wait(seen)]
    return join_within(told[-26:], 1_400, separator="   ")


def _mark(seen: PhaseView) -> str:
    """No line breaks inside of one."""
    took = f" {spell_duration(seen.took)}" if seen.took is not None and seen.mark is Mark.DONE else ""
    told = f"{_MARKS[seen.mark]} {label_phase(seen.phase, seen.role)}{took}".replace(" ", _NO_BREAK)
    return f"*{told}*" if seen.mark in {Mark.NOW, Mark.STALLED, Mark.FAILED} else told


def _people(view: StartupView) -> str:
    parts = [_who(view)]
    if view.verdict is None:
        seen = view.last_sign
        told = "no sign of life yet" if seen is None else f"last sign of life {spell_duration(seen)} ago"
        parts.append(told)
    return " · ".join(parts)


def _who(view: StartupView) -> str:
    done = name_verb_done(view.verb)
    reason = say(view.reason, 400)
    if _is_from_outside(view):
        return f"{Searched.OUTSIDE_CHAT}: {reason}" if reason else str(Searched.OUTSIDE_CHAT)
    told = f"{done} by {mention(view.by) if view.by is not None else 'kimi'}"
    return f"{told}: “{reason}”" if reason else told


def _is_from_outside(view: StartupView) -> bool:
    return view.by is None and view.verb is Verb.WATCH


def _root_buttons(view: StartupView) -> tuple[Element, ...]:
    value = pack_subject(view.operation, view.service)
    logs = button("Logs", "logs", value)
    return (logs, button("Stop watching", "unwatch", value)) if view.verdict is None else (logs,)


def _brief(view: StartupView, headline: str) -> str:
    """The root in one line, for notifications."""
    if _is_from_outside(view):
        headline += f" · {Searched.OUTSIDE_CHAT}"  # nobody who is told of it here asked for it
    if view.verdict is not None:
        return headline
    now = _current(view)
    done = f" {now.progress.done}/{now.progress.total}" if now and now.progress else ""
    stale = view.eta is None or view.pace is Pace.STALLED
    eta = "" if stale or view.eta is None else f" · {spell_estimate(view.eta)} to ready"
    return f"{headline}{done}{eta}"


def render_reply(reply: Reply, view: StartupView) -> Message:
    """What happened, once; `view` names the service and the operation it happened to."""
    match reply:
        case PhaseFinished():
            return _line(_finished(reply))
        case StallReported():
            return render_stall(reply, view)
        case MovedAgain():
            return _moved(reply)
        case SetupChanged() | MarkerSeen() | Resumed() | LogGap():
            return render_aside(reply, view)
        case VerdictReached():
            return render_verdict(reply, view)
        case Noticed():
            by = f" ({mention(reply.by)})" if reply.by is not None else ""
            return _line(say(reply.sentence, 1_500) + by)
        case _:
            assert_never(reply)


def _line(markup: str) -> Message:
    return make_message(markup, section(markup))


def _finished(reply: PhaseFinished) -> str:
    told = f"{name_done(reply.phase, reply.role)} in {spell_usual(reply.took, reply.usual)}."
    if reply.slowest is not None:
        told += f" Slowest: {say(reply.slowest.rank, 40)}, {spell_duration(reply.slowest.took)}"
        quick = reply.fastest
        told += f"; fastest: {say(quick.rank, 40)}, {spell_duration(quick.took)}." if quick else "."
    return told


def _moved(reply: MovedAgain) -> Message:
    where = name_phase(reply.phase, reply.role)
    told = f"*{Searched.MOVING_AGAIN}* after {spell_duration(reply.silent)} without progress, in {where}."
    sign = (preformatted(reply.sign, 1_500),) if reply.sign.strip() else ()
    return make_message(told, section(told), *sign)

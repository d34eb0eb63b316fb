"""What is told of the past: `history`, a table of startups, and `why`, the last failure explained."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bot.core.account import PastStartup
from bot.core.answers import say_held
from bot.core.asides import say_changed
from bot.core.blocks import (
    Block,
    Cell,
    Message,
    context,
    link,
    link_cell,
    make_message,
    mention,
    person_cell,
    preformatted,
    say,
    say_code,
    say_name,
    section,
    table,
)
from bot.core.events import ServiceName, UserId, Verb
from bot.core.incident_answers import explain_outage, say_outage
from bot.core.request import Held, Outage
from bot.core.words import count, join_names, label_phase, name_doing, name_verb_done, spell_duration

if TYPE_CHECKING:
    from bot.core.account import Failure

MOST_ROWS = 12
_MOST_EVIDENCE = 8  # lines
_HEADER: tuple[Cell, ...] = ("Began (UTC)", "Verdict", "Took", "Slowest phase", "By")


@dataclass(frozen=True, slots=True)
class HistoryView:
    """Newest first. `usual`: a whole healthy start. `held`: the start under way."""

    service: ServiceName
    startups: tuple[PastStartup, ...]
    now: datetime
    usual: timedelta | None = None
    held: Held | None = None


@dataclass(frozen=True, slots=True)
class WhyView:
    """`last`: the last start that failed; None: none is on record. `healthy_since`: starts after it.

    `outage`: what is wrong now, between starts; `before`: the last one that is over.
    """

    service: ServiceName
    last: PastStartup | None
    now: datetime
    healthy_since: int = 0
    outage: Outage | None = None
    before: Outage | None = None


def render_history(view: HistoryView) -> Message:
    if not view.startups:
        return _render_none(view)
    shown = view.startups[:MOST_ROWS]
    usual = f" Usual: {spell_duration(view.usual)}." if view.usual is not None else ""
    of = f"the last {len(shown)} startups, newest first" if len(shown) > 1 else "the one startup on record"
    told = f"{say_name(view.service)}: {of}.{usual}"
    blocks: list[Block] = [section(told), table([_HEADER, *(_row(each) for each in shown)])]
    if len(view.startups) > len(shown):
        blocks.append(context(f"and {len(view.startups) - len(shown)} older ones, in the picture"))
    spoken = "; ".join(_spoken(each) for each in shown[:5])
    return make_message(f"{told} {spoken}", *blocks)


def _render_none(view: HistoryView) -> Message:
    told = f"No startup of {say_code(view.service)} is on record yet."
    if view.held is not None:
        told = f"No startup of {say_code(view.service)} has ended yet. It is {say_held(view.held)}"
    return make_message(told, section(told))


def render_history_root(service: ServiceName, by: UserId) -> Message:
    """What the picture hangs under, where it was asked for outside a thread."""
    told = f"Past startups of {say_code(service)}, asked for by {mention(by)}:"
    return make_message(told, section(told))


def _row(startup: PastStartup) -> tuple[Cell, ...]:
    when = f"{startup.began.astimezone(UTC):%d %b %H:%M}"
    longest = startup.account.longest
    slow = "-"
    if longest is not None:
        by = f" ({longest.slowest})" if longest.slowest is not None else ""
        slow = f"{label_phase(longest.phase, longest.role)} {spell_duration(_span(longest.seconds))}{by}"
    by_whom: Cell = "nobody in chat" if startup.by is None else person_cell(startup.by)
    return link_cell(startup.link, when), str(startup.verdict), spell_duration(_took(startup)), slow, by_whom


def _spoken(startup: PastStartup) -> str:
    """One row for clients that show no blocks."""
    when = f"{startup.began.astimezone(UTC):%d %b %H:%M}"
    return f"{when} {startup.verdict} {spell_duration(_took(startup))}"


def _took(startup: PastStartup) -> timedelta:
    told = startup.account.took
    return startup.took if told is None else _span(told)


def _span(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def render_why(view: WhyView) -> Message:
    """The last failure: what it was, what to try, its lines, what had changed, where to read on.

    An outage that is open is it, else the last one, unless a start has failed since it began: that one then
    tells the same, and more.
    """
    last, outage = view.last, view.outage or view.before
    if outage is not None and (last is None or last.began < view.now - outage.age):
        return _outage(view, outage)
    if last is None:
        told = f"No startup of {say_code(view.service)} on record went wrong{_among(view)}."
        return make_message(told, section(told))
    failure = last.account.failure
    told = f"{say_name(view.service)}: {_when(last, view.now)}{_where(failure)}"
    blocks: list[Block] = [section(say_outage(view.outage))] if view.outage is not None else []
    blocks += [section(told, 900), *_explained(failure)]
    if last.account.changed is not None:
        blocks.append(section(say_changed(last.account.changed)))
    blocks.append(context(*_footer(view, last)))
    return make_message(f"{told} {say(failure.cause if failure else '', 300)}".strip(), *blocks)


def _outage(view: WhyView, outage: Outage) -> Message:
    told = f"{say_name(view.service)}: {say_outage(outage)}"
    blocks: list[Block] = [section(told, 900), *explain_outage(outage)]
    if view.last is not None:
        before = f"{_when(view.last, view.now)}{_where(view.last.account.failure)}"
        read_on = f" {link(view.last.link, 'See its thread')}." if view.last.link else ""
        blocks.append(context(f"Of the starts before it, {before}{read_on}"))
    return make_message(told, *blocks)


def _among(view: WhyView) -> str:
    return f"; {count(view.healthy_since, 'start')} came through" if view.healthy_since else ""


def _when(startup: PastStartup, now: datetime) -> str:
    began = startup.began.astimezone(UTC)
    age = spell_duration(now - startup.began)
    took = spell_duration(_took(startup))
    doing = "start" if startup.verb is Verb.WATCH else startup.verb
    return f"the {doing} of {began:%d %b %H:%M} UTC ({age} ago) went wrong after {took}"


def _where(failure: Failure | None) -> str:
    if failure is None:
        return "."
    rank = f", at {say(failure.rank, 40)}" if failure.rank is not None else ""
    return f" while {name_doing(failure.phase, failure.role)}{rank}."


def _explained(failure: Failure | None) -> list[Block]:
    if failure is None or not failure.cause:
        return [
            section("Why is not on record: it is older than what kimi writes down. Its thread tells more.")
        ]
    blocks = [section(f"*{say(failure.cause, 900)}*")]
    if failure.means:
        blocks.append(section(f"What it means: {say(failure.means, 1_200)}", 1_300))
    if failure.advice:
        blocks.append(section(f"Try: {say(failure.advice, 1_200)}", 1_300))
    if failure.also:
        blocks.append(section(f"Another failure, apart from it: {say(failure.also, 600)}", 700))
    if failure.seen:
        blocks.append(context(f"Seen with {say(failure.seen, 300)}."))
    lines = [line for line in failure.evidence if line.strip()]
    if lines:
        blocks.append(preformatted("\n".join(lines[:_MOST_EVIDENCE]), 3_000))
    else:
        blocks.append(context("No line of its log says why; this is what systemd and the probes told."))
    return blocks


def _footer(view: WhyView, last: PastStartup) -> list[str]:
    by = f"{name_verb_done(last.verb)} by {mention(last.by)}" if last.by else "nobody in chat began it"
    since = "no start came through since"
    if view.healthy_since:
        since = f"{count(view.healthy_since, 'start')} came through since"
    where = f"{link(last.link, 'Its thread')} has the whole log" if last.link else "its thread is not known"
    with_versions = join_names(f"{name} {told}" for name, told in last.account.versions.items())
    return [f"{by} · {since} · {where}", *([f"ran {say(with_versions, 300)}"] if with_versions else [])]

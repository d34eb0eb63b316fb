"""What a picture shows, in words for those who read; the words that others borrow for the same."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from bot.core.actions import Mark
from bot.core.events import PhaseId, Role
from bot.core.picture import took_by
from bot.core.words import count, join_names, label_phase, spell_duration, spell_usual

if TYPE_CHECKING:
    from bot.core.picture import Share, Waterfall

MOST_ALT = 1_000  # characters of alt text that Slack takes
_MOST_SHARES = 9  # phases told by name; the short ones beyond are told as a sum
_MOST_CAUSE = 300


def named_shares(waterfall: Waterfall) -> tuple[tuple[Share, ...], timedelta]:
    """The phases worth a name, in their order, and what all the others took together."""
    longest = sorted(waterfall.shares, key=lambda share: (share.mark is not Mark.DONE, took_by(share)))
    named = set(map(id, longest[-_MOST_SHARES:]))
    rest = sum((took_by(share) for share in waterfall.shares if id(share) not in named), timedelta())
    return tuple(share for share in waterfall.shares if id(share) in named), rest


def describe_waterfall(waterfall: Waterfall) -> str:
    """The alt text: how it ended, what each phase took, who was slow, where it went wrong."""
    named, rest = named_shares(waterfall)
    phases = [_say_share(share, timed=waterfall.timed) for share in named]
    if rest > timedelta():
        phases.append(f"others {spell_duration(rest)}")
    sentences = [
        f"{waterfall.title}: {waterfall.verdict}.",
        f"Phases: {join_names(phases, last='and then')}.",
        f"Only the order is shown: {waterfall.untimed}." if waterfall.untimed else "",
        _say_ranks(waterfall),
        f"Cause: {shorten(waterfall.cause, _MOST_CAUSE).rstrip('.')}." if waterfall.cause else "",
        f"Apart from it: {shorten(waterfall.also, _MOST_CAUSE).rstrip('.')}." if waterfall.also else "",
    ]
    return shorten(" ".join(filter(None, sentences)), MOST_ALT)


def _say_share(share: Share, *, timed: bool) -> str:
    wrong = {Mark.FAILED: " (went wrong here)", Mark.STALLED: " (no progress)"}.get(share.mark, "")
    took = f" {spell_usual(share.took, share.usual)}" if timed and share.took is not None else ""
    slow = " slower than usual:" if timed and share.slow else ""
    return f"{share.label}{slow}{took}{wrong}"


def _say_ranks(waterfall: Waterfall) -> str:
    if not waterfall.ranks:
        return ""
    told = [count(waterfall.ranks, "rank")]
    told.append(f"in {waterfall.note}" if waterfall.note else "none far behind")
    bad = [lane.name for lane in waterfall.lanes if lane.mark is not Mark.DONE]
    if bad and len(bad) < waterfall.ranks:
        told.append(f"marked: {join_names(bad[:4])}")
    return f"{'; '.join(told)}."


def say_where(phase: PhaseId, role: Role) -> str:
    """As the end of a verdict: `in draft weights`."""
    return "once it served" if phase is PhaseId.READY else f"in {label_phase(phase, role)}"


def shorten(text: str, most: int) -> str:
    """At most `most` characters on one line, the end as "…" where it is cut."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"

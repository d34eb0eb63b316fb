"""When the services of a host are looked at: together, where that costs little, for one command serves all.

Times are real seconds of one clock. A service is never looked at later than its own pace wants. It comes
sooner to go with others that are looked at as often: who fell out of step, in doubt, joins them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from bot.watch_entries import Entry

Pause: TypeAlias = Callable[["Entry"], float]

_NEAR = 0.1  # of `every`: whose time is so near is looked at now
_JOIN = 0.5  # of the pause, by which a look may come sooner to go with others


def take_due(entries: Iterable[Entry], now: float, *, pause_of: Pause, first: float = 1.0) -> list[Entry]:
    """Those to be looked at now. Each is busy from now on and has its next time.

    `pause_of`: how long until then, at most. `first`: the share of it that the very first pause is, so that
    hosts that begin together do not go on so.
    """
    everyone = list(entries)
    free = [each for each in everyone if not each.busy]
    late = [each.due for each in free if each.due <= now]
    if not late:
        return []
    taken = [each for each in free if each.due - now <= each.every * _NEAR]
    rest = [each for each in everyone if each not in taken]
    for entry in taken:
        pause, share = pause_of(entry), first if entry.began is None else 1.0
        begin = min(late) if now - min(late) < pause / 2 else now
        entry.busy, entry.began = True, now
        entry.due = _join(entry, begin + pause * share, pause, rest)
    return taken


def _join(entry: Entry, due: float, pause: float, rest: list[Entry]) -> float:
    """While it is in doubt, it keeps its pace: failures sooner after one another would mean less."""
    if pause < entry.pace:
        return due
    soonest = due - pause * _JOIN
    dues = (each.due for each in rest if each.pace == entry.pace)
    return max((each for each in dues if soonest <= each <= due), default=due)


def hasten(entries: Iterable[Entry], *, pause_of: Pause) -> None:
    """Doubt makes the next look come sooner."""
    for entry in entries:
        if entry.began is not None:
            entry.due = min(entry.due, entry.began + pause_of(entry))

"""A collective that timed out: who reported it, and who therefore never came to it.

Each rank's watchdog reports the collective its own rank waits in. The one that all wait for waits for nobody,
and so it is the one that says nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bot.core.events import MAIN_RANK, Rank
from bot.core.ranks import in_order
from bot.core.words import name_ranks

if TYPE_CHECKING:
    from collections.abc import Collection

    from bot.core.cause import Cause

TIMEOUT = "nccl-timeout"  # the diagnosis
_REPORT = "Watchdog caught collective operation timeout"  # torch ≥2.0, once a rank


def is_report(text: str) -> bool:
    """Whether with this line a rank tells that the others did not come."""
    return _REPORT in text


def silent_ranks(reporters: Collection[Rank], known: Collection[Rank]) -> tuple[Rank, ...]:
    """The known ranks that reported nothing, if one or a minority; else who is at fault cannot be told.

    A report under a name that no rank is known by might be anybody's: then nobody is named either.
    """
    if not reporters or not set(reporters) <= set(known):
        return ()
    silent = sorted(set(known) - set(reporters), key=in_order)
    few = len(silent) == 1 or len(silent) < len(set(reporters))
    return tuple(silent) if few else ()


def blame_silent(cause: Cause, *, reporters: Collection[Rank], known: Collection[Rank]) -> Cause:
    """The cause with the rank to look at in the place of the one that happened to report first."""
    if cause.id != TIMEOUT:
        return cause
    speaker, silent = cause.rank, silent_ranks(reporters, known)
    if not silent:
        return replace(cause, rank=MAIN_RANK, speaker=speaker)
    alone = len(silent) == 1
    which = "it is the one" if alone else "they are the ones"
    title = f"{cause.title}; {name_ranks(silent)} reported no time-out: {which} to look at"
    return replace(cause, title=title, rank=silent[0] if alone else MAIN_RANK, speaker=speaker)

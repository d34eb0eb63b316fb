"""Mutes of one service: by its own name, and with each host it has a member on.

Each lasts for its own time and is lifted by its own name, so that none shortens or swallows another. The one
that lasts longest is what holds; the others stand `beneath` it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from bot.core.incident_events import IncidentMuted, IncidentUnmuted
from bot.core.monitor_events import Muted, Unmuted
from bot.core.monitor_state import Mute

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from bot.core.monitor_state import WatchState


def take_mute(
    state: WatchState, event: Muted | Unmuted, now: datetime
) -> IncidentMuted | IncidentUnmuted | None:
    """What the incident that is open is told of it. One that ended beneath another comes back no more."""
    before = state.mute
    match event:
        case Muted():
            said = Mute(event.until, event.by, event.reason, event.host)
            others = [each for each in mutes_of(state) if each.host != event.host]
            _lay(state, [*others, said], now)
        case Unmuted():
            _lay(state, [each for each in mutes_of(state) if event.host not in {None, each.host}], now)
        case _:
            assert_never(event)
    if state.mute == before:
        return None
    if state.mute is None:
        return IncidentUnmuted(event.by)
    return IncidentMuted(state.mute.by or event.by, state.mute.until, state.mute.reason)


def mutes_of(state: WatchState) -> list[Mute]:
    """All that were said, the longest first; of those behind it some may have ended."""
    return [] if state.mute is None else [state.mute, *state.beneath]


def end_mutes(state: WatchState) -> None:
    """The longest has ended, and with it all."""
    state.mute, state.beneath = None, []


def _lay(state: WatchState, mutes: Iterable[Mute], now: datetime) -> None:
    """Of two that end together the service's own is what people are told of."""
    lasting = (each for each in mutes if each.until > now)
    laid = sorted(lasting, key=lambda each: (each.until, each.host is None), reverse=True)
    state.mute, state.beneath = (laid[0], laid[1:]) if laid else (None, [])

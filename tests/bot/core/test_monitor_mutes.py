"""Mutes of one service beside each other: each lasts for its own time, and is lifted by its own name."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bot.core.events import HostName, UserId
from bot.core.incident_events import IncidentMuted, IncidentUnmuted
from bot.core.monitor_events import Muted, OpenIncident, Unmuted
from bot.core.monitor_mutes import mutes_of
from tests.support.watches import BUSY, Room

WHO, OTHER = UserId("U0ALICE"), HostName("llm-three")


def muted(room: Room, hours: float, reason: str, host: HostName | None = None) -> None:
    room.tell(Muted(WHO, room.now + timedelta(hours=hours), reason, host))


def held(room: Room) -> list[str]:
    return [each.reason for each in mutes_of(room.watch.state)]


@pytest.mark.parametrize(
    ("own", "with_host", "first"),
    [(3, 2, "own"), (1, 2, "own"), (3, 2, "host"), (1, 2, "host"), (2, 2, "own"), (None, 2, "host")],
)
def test_neither_a_longer_nor_a_later_one_swallows_the_other(
    own: int | None, with_host: int, first: str
) -> None:
    room = Room()
    room.serve()
    if own is not None and first == "own":
        muted(room, own, "own")
    muted(room, with_host, "host", room.plan.host)
    if own is not None and first == "host":
        muted(room, own, "own")
    mute = room.watch.state.mute
    assert mute is not None
    assert mute.until == room.now + timedelta(hours=max(own or 0, with_host))
    room.tell(Unmuted(WHO, room.plan.host))
    assert held(room) == (["own"] if own is not None else [])
    room.tell(Unmuted(WHO))
    assert held(room) == []


def test_one_said_of_another_host_stays_as_well() -> None:
    room = Room()
    room.serve()
    muted(room, 2, "here", room.plan.host)
    muted(room, 1, "there", OTHER)
    room.tell(Unmuted(WHO, room.plan.host))
    assert held(room) == ["there"]


def test_said_anew_it_lasts_as_long_as_was_said_last() -> None:
    room = Room()
    room.serve()
    muted(room, 2, "long")
    muted(room, 1, "short")
    assert held(room) == ["short"]


def test_nothing_is_opened_until_the_longest_has_ended() -> None:
    room = Room()
    room.serve()
    muted(room, 1, "own")
    muted(room, 2, "host", room.plan.host)
    room.probe = BUSY
    room.look(60 * 4 + 10)  # an hour and a little
    assert room.ordered(OpenIncident) == []
    room.look(60 * 4)
    assert len(room.ordered(OpenIncident)) == 1
    assert held(room) == []


def test_the_thread_hears_of_each_change_of_what_holds_and_of_no_other() -> None:
    room = Room()
    room.serve()
    room.probe = BUSY
    room.look(3)
    muted(room, 2, "host", room.plan.host)
    muted(room, 1, "own")
    assert [each.reason for each in room.told(IncidentMuted)] == ["host"]
    room.tell(Unmuted(WHO, room.plan.host))
    assert [each.reason for each in room.told(IncidentMuted)] == ["host", "own"]
    assert room.told(IncidentUnmuted) == []
    room.tell(Unmuted(WHO))
    assert len(room.told(IncidentUnmuted)) == 1


def test_one_that_ended_beneath_another_does_not_come_back() -> None:
    room = Room()
    room.serve()
    room.probe = BUSY
    room.look(3)
    muted(room, 1, "own")
    muted(room, 8, "host", room.plan.host)
    room.pass_time(2 * 3600)
    room.tell(Unmuted(WHO, room.plan.host))
    assert [each.reason for each in room.told(IncidentMuted)] == ["own", "host"]
    assert [each.by for each in room.told(IncidentUnmuted)] == [WHO]
    assert held(room) == []

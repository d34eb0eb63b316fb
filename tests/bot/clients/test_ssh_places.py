"""What counts on a connection, from the taking of a place to the host's word that it is free."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from bot.clients.ssh_places import Line, Place

if TYPE_CHECKING:
    import asyncssh


def make_line(most: int = 8) -> Line:
    return Line(cast("asyncssh.SSHClientConnection", object()), most, 0.0)


def nothing() -> None:
    """Nobody waits."""


@pytest.mark.parametrize("stream", [True, False])
def test_a_place_is_taken_until_it_is_freed_once(*, stream: bool) -> None:
    line, freed = make_line(), []
    place = Place(line, lambda: freed.append(1), stream=stream)
    assert (line.free, line.idle, line.standing) == (7, False, 0)
    place.open()
    assert line.standing == 1
    place.leave()
    place.leave()
    assert (line.free, line.standing) == (7, 1), "the host has not closed it"
    place.free()
    place.free()
    place.leave()
    assert (line.free, line.idle, line.standing, line.left, freed) == (8, True, 0, 0, [1])


def test_a_command_that_was_left_spoils_its_place_as_a_stream_does() -> None:
    line = make_line(2)
    Place(line, nothing, stream=True)
    command = Place(line, nothing, stream=False)
    assert not line.spoiled, "a command ends"
    command.open()
    command.leave()
    assert line.spoiled
    command.free()
    assert not line.spoiled


@pytest.mark.parametrize(("most", "streams"), [(1, 0), (2, 1), (3, 2), (4, 2), (8, 6)])
def test_how_many_streams_a_first_connection_takes(most: int, streams: int) -> None:
    line = make_line(most)
    while line.takes_stream:
        Place(line, nothing, stream=True)
    assert line.streams == streams


def test_what_is_in_use_for_a_port_is_not_idle() -> None:
    line = make_line()
    line.ways = 1
    assert (line.free, line.idle) == (8, False)

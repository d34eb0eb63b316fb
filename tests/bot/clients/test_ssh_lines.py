"""Which connection carries a session, and when a host gets one more of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import asyncssh
import pytest

from bot.clients import ssh_lines
from bot.clients.ssh_lines import Lines
from bot.core.events import HostName
from bot.errors import HostUnreachable
from tests.support.ssh import Said, connect, hang, serve
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bot.clients.ssh_places import Place

NAME = HostName("llm-two")
ECHO, FOLLOW = ("echo", "x"), ("follow",)


class Wire:
    """A connection as far as it is looked at here."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._closed = False

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._on_lost()

    async def wait_closed(self) -> None:
        """At once."""


class Wires:
    """Connects as often as `errors` lets it."""

    def __init__(self) -> None:
        self.made: list[Wire] = []
        self.errors: list[HostUnreachable] = []
        self.attempts = 0
        self.lines = Lines(NAME, self.connect)

    async def connect(self, on_lost: Callable[[], None]) -> asyncssh.SSHClientConnection:
        self.attempts += 1
        await asyncio.sleep(0)
        if self.errors:
            raise self.errors.pop(0)
        self.made.append(Wire(on_lost))
        return cast("asyncssh.SSHClientConnection", self.made[-1])

    async def open(self, *, stream: bool) -> Place:
        place = await self.lines.take(stream=stream)
        place.open()
        return place

    def carry(self) -> list[tuple[int, int]]:
        """Of each connection, streams and commands."""
        return [(line.streams, line.commands) for line in self.lines._lines]


def away() -> HostUnreachable:
    return HostUnreachable(NAME, "away")


@pytest.mark.parametrize("refusal", [asyncssh.OPEN_CONNECT_FAILED, asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED])
@pytest.mark.parametrize("allowed", [1, 2, 3, 5, 10])
async def test_as_many_sessions_as_are_needed_whatever_a_connection_may_have(
    tmp_path: Path, allowed: int, refusal: int
) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers |= {"echo": Said("x\n"), "follow": hang}
        server.max_sessions, server.refusal = allowed, refusal
        link = host._link
        streams = await asyncio.gather(*(link.open(FOLLOW) for _ in range(12)))
        answers = await asyncio.gather(*(host.run(ECHO) for _ in range(12)))
        assert [answer.out for answer in answers] == ["x\n"] * 12
        assert sum(server.sessions) >= len(streams)
        assert max(server.sessions) <= min(allowed, ssh_lines.SAFE)
        assert server.most_entering == 1, "sshd drops some of many that are not logged in"
        if allowed >= ssh_lines.SAFE:
            assert server.refused == 0
        refused = server.refused
        assert refused <= 2 * ssh_lines.SAFE
        later = [await link.open(FOLLOW) for _ in range(3)]
        assert server.refused == refused, "what sshd allows was learned"
        assert host.connects == 1, "the host was never away"
        for process in (*streams, *later):
            process.hang_up()
        await until(lambda: sum(server.sessions) == 0)


async def test_streams_leave_room_for_commands_where_there_is_no_second_connection(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers |= {"echo": Said("x\n"), "follow": hang}
        await host.run(ECHO)
        assert server._acceptor is not None
        server._acceptor.close()
        following = [asyncio.create_task(host._link.open(FOLLOW)) for _ in range(20)]
        await until(lambda: server.sessions == [6])
        for _ in range(3):
            assert [a.out for a in await asyncio.gather(*(host.run(ECHO) for _ in range(5)))] == ["x\n"] * 5
        assert server.sessions == [6]
        for task in following:
            task.cancel()
        for process in await asyncio.gather(*following, return_exceptions=True):
            if not isinstance(process, BaseException):
                process.hang_up()


async def test_a_command_waits_a_moment_for_another_to_end() -> None:
    wires = Wires()
    held = [await wires.open(stream=False) for _ in range(8)]
    asking = asyncio.create_task(wires.lines.take(stream=False))
    await asyncio.sleep(0)
    held[0].free()
    await asking
    assert wires.attempts == 1
    await wires.lines.take(stream=False)
    assert wires.attempts == 2, "and no longer"


async def test_a_further_connection_that_carries_nothing_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_lines, "_IDLE", 0.05)
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers |= {"echo": Said("x\n"), "follow": hang}
        streams = [await host._link.open(FOLLOW) for _ in range(8)]
        connection = await host._link.connection()
        assert server.sessions == [6, 2]
        for process in streams:
            process.hang_up()
        await until(lambda: server.sessions == [0])
        assert await host._link.connection() is connection, "the first stays"
        assert (await host.run(ECHO)).out == "x\n"
        assert (server.logins, host.connects) == (2, 1)


async def test_one_lost_connection_is_the_loss_of_what_it_carried(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers |= {"echo": Said("x\n"), "follow": hang}
        streams = [await host._link.open(FOLLOW) for _ in range(8)]
        connection = await host._link.connection()
        server.cut_one(1)
        for process in streams[6:]:
            with pytest.raises(asyncssh.ConnectionLost):
                await process.stdout.read(1)
        assert await host._link.connection() is connection
        assert host._link.holds(connection)
        await until(lambda: server.sessions == [6])
        server.cut_one(0)
        await connection.wait_closed()
        assert not host._link.holds(connection)
        assert (await host.run(ECHO)).out == "x\n"
        assert (server.logins, host.connects) == (3, 2)


async def test_the_last_places_of_the_first_connection_are_for_commands() -> None:
    wires = Wires()
    for _ in range(7):
        await wires.open(stream=True)
    assert wires.carry() == [(6, 0), (1, 0)]
    for _ in range(2):
        await wires.open(stream=False)
    assert wires.carry() == [(6, 1), (1, 1)], "the very last one to what can have no other"
    first = await wires.lines.first()
    await wires.lines.take(stream=False, on=first)
    assert wires.carry() == [(6, 2), (1, 1)]


async def test_what_the_host_never_ends_makes_another_connection_the_first() -> None:
    """A driver that is stuck keeps nvidia-smi for ever, and its session; an order needs one all the same."""
    wires = Wires()
    first = await wires.lines.first()
    stuck = [await wires.open(stream=False) for _ in range(8)]
    assert await wires.lines.first() is first, "they may end"
    for place in stuck:
        place.leave()
    second = await wires.lines.first()
    assert second is not first
    assert wires.lines.holds(first)
    for place in stuck:
        place.free()
        place.free()
    assert wires.carry() == [(0, 0), (0, 0)]


async def test_what_is_refused_where_nothing_stands_is_refused_everywhere() -> None:
    wires = Wires()
    assert not wires.lines.refused(await wires.lines.take(stream=False))
    await wires.open(stream=False)
    assert wires.lines.refused(await wires.lines.take(stream=False))
    await wires.open(stream=False)
    await wires.open(stream=False)
    assert wires.carry() == [(0, 1), (0, 1), (0, 1)]


async def test_places_are_given_in_the_order_of_asking_and_back_by_who_goes_away() -> None:
    wires = Wires()
    wires.lines._allowed = 1
    connection = await wires.lines.first()
    wires.lines._lines[0].most = 1
    held = await wires.open(stream=False)
    asking = [asyncio.create_task(wires.lines.take(stream=False, on=connection)) for _ in range(3)]
    await asyncio.sleep(0)
    asking[0].cancel()
    held.free()
    await asyncio.sleep(0)  # the second is given it
    asking[1].cancel()  # and does not come for it
    third = await asking[2]
    assert wires.carry() == [(0, 1)]
    third.free()
    assert wires.carry() == [(0, 0)]


async def test_who_waits_for_a_connection_that_is_lost_is_told() -> None:
    wires = Wires()
    connection = await wires.lines.first()
    for _ in range(8):
        await wires.open(stream=False)
    asking = asyncio.create_task(wires.lines.take(stream=False, on=connection))
    await asyncio.sleep(0)
    wires.made[0].close()
    with pytest.raises(HostUnreachable, match="lost"):
        await asking


async def test_a_further_connection_that_fails_is_no_loss_of_the_host() -> None:
    wires = Wires()
    first = await wires.lines.first()
    wires.errors = [away()]
    held = [await wires.open(stream=False) for _ in range(8)]
    asking = asyncio.create_task(wires.lines.take(stream=False))
    await until(lambda: not wires.errors)
    await asyncio.sleep(0)
    assert not asking.done()
    assert "one more: away" in wires.lines.describe()
    held[0].free()
    assert (await asking).line.connection is first


async def test_what_a_further_connection_failed_of_is_not_why_the_host_is_away() -> None:
    wires = Wires()
    await wires.lines.first()
    wires.errors = [away()]
    asking = [asyncio.create_task(wires.lines.take(stream=True)) for _ in range(9)]
    await until(lambda: not wires.errors)
    wires.made[0].close()
    await wires.lines.first()
    assert wires.attempts == 3
    for task in asking:
        task.cancel()


async def test_a_login_that_lacks_a_right_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    wires = Wires()
    first = await wires.lines.first()
    wires.lines.outdate(first)
    assert await wires.lines.first() is first, "it has just been made"
    monkeypatch.setattr(ssh_lines, "_OLD", 0.0)
    monkeypatch.setattr(ssh_lines, "_IDLE", 0.05)
    place = await wires.open(stream=False)
    wires.lines.outdate(first)
    second = await wires.lines.first()
    assert second is not first
    assert (await wires.lines.take(stream=False, on=first)).line.connection is first, (
        "what was promised on it"
    )
    assert (await wires.lines.take(stream=False)).line.connection is second
    wires.lines._lines[0].commands = 1
    place.free()
    await until(lambda: not wires.lines.holds(first))


async def test_a_host_that_is_away_is_not_asked_by_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_lines, "_HELD", 3600.0)
    monkeypatch.setattr(ssh_lines, "_LONGEST_HELD", 3600.0)
    wires = Wires()
    wires.errors = [away() for _ in range(9)]
    for _ in range(3):
        with pytest.raises(HostUnreachable, match="away"):
            await wires.lines.take(stream=True)
    for _ in range(3):
        with pytest.raises(HostUnreachable, match="away"):
            await wires.lines.take(stream=True)
        with pytest.raises(HostUnreachable, match="away"):
            await wires.lines.first()
    assert wires.attempts == 3
    wires.lines._not_before = 0.0
    wires.errors.clear()
    await wires.lines.first()
    assert wires.lines.made == 1


async def test_ways_to_a_port_take_no_place_and_hold_their_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ssh_lines, "_IDLE", 0.0)
    wires = Wires()
    async with wires.lines.way() as connection:
        for _ in range(8):
            (await wires.open(stream=False)).leave()
        second = await wires.lines.first()
        assert second is not connection
        assert wires.lines.holds(connection)
    assert [line.ways for line in wires.lines._lines] == [0, 0]


async def test_closing_ends_all_and_whoever_waits() -> None:
    wires = Wires()
    connection = await wires.lines.first()
    for _ in range(8):
        await wires.open(stream=False)
    asking = asyncio.create_task(wires.lines.take(stream=False, on=connection))
    await asyncio.sleep(0)
    await wires.lines.close()
    await wires.lines.close()
    with pytest.raises(HostUnreachable, match="closed here"):
        await asking
    assert all(wire.is_closed() for wire in wires.made)
    assert await wires.lines.first() is not connection

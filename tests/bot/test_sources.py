"""What the sources put on the queue, and how they come back after a loss."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest
from structlog.testing import capture_logs

from bot import sources
from bot.core.events import (
    Cursor,
    Event,
    HostLost,
    HostRestored,
    LineRead,
    LogLine,
    LogMissed,
    ProbeAnswered,
    SetupSeen,
    SmokeFinished,
    SmokeResult,
    UnitObserved,
)
from bot.core.journal import Position
from bot.core.redact import Redactor
from bot.core.setup import Setup
from bot.errors import CommandTimedOut, HostError, HostUnreachable
from bot.sources import RING_MOST, Inbox, Link, Piece
from tests.support.carriers import MEMBER, NEW, RUNNING, SECRET, UNIT, UP, MemoryHost, ScriptedProbe
from tests.support.journal_entries import BOOT, make_cursor, make_entry, write_entries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bot.clients.probe import Probe
    from bot.clients.ssh import Host

pytestmark = pytest.mark.looptime
GONE = HostUnreachable("llm-two", "llm-two: no connection: reset")
E = TypeVar("E", bound=Event)


@dataclass
class Wire:
    """One link to a host, and what was heard over it."""

    host: MemoryHost
    link: Link
    inbox: Inbox

    async def pieces(self, number: int) -> list[Piece]:
        async with asyncio.timeout(3600):
            return [await self.inbox.get() for _ in range(number)]

    async def heard(self, kind: type[E], number: int) -> list[E]:
        """The next `number` events of that kind; others are dropped."""
        found: list[E] = []
        async with asyncio.timeout(3600):
            while len(found) < number:
                piece = await self.inbox.get()
                found.extend(event for event in piece.events if isinstance(event, kind))
        return found


def make_wire(*, room: int = 0) -> Wire:
    host = MemoryHost([])
    return Wire(host, Link(MEMBER, UNIT, "system", cast("Host", host)), asyncio.Queue(room))


@asynccontextmanager
async def following(*, room: int = 0) -> AsyncIterator[Wire]:
    wire = make_wire(room=room)
    work = sources.follow_journal(wire.link, wire.inbox, redactor=Redactor((SECRET,)))
    task = asyncio.create_task(work)
    try:
        yield wire
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_lines_come_masked_with_the_place_where_the_journal_stands() -> None:
    async with following() as wire:
        wire.host.say(1, "Load weight begin.")
        wire.host.say(2, f"api_key={SECRET}")
        first, second = await wire.pieces(2)
    [event] = first.events
    assert isinstance(event, LineRead)
    assert (event.member, event.line.reading, event.line.invocation) == (MEMBER, "Load weight begin.", NEW)
    assert first.member == MEMBER
    assert isinstance(first.position, Position)
    assert first.position.cursor == make_cursor(1)
    [event] = second.events
    assert isinstance(event, LineRead)
    assert SECRET not in event.line.text
    assert [line.reading for line in wire.link.ring] == ["Load weight begin.", event.line.reading]


async def test_of_very_long_lines_fewer_are_remembered() -> None:
    async with following() as wire:
        link = wire.link
    long = "x" * (RING_MOST // 4)
    link.remember(LogLine(f"{number}{long}", "") for number in range(100))
    assert [line.text[0:2] for line in link.ring] == ["97", "98", "99"]
    link.remember(LogLine(str(number), "") for number in range(6000))
    assert (len(link.ring), link.ring[0].text, link.ring[-1].text) == (5000, "1000", "5999")
    link.remember([LogLine("half", "", partial=True)])
    assert link.ring[-1].text == "5999"


async def test_a_piece_of_an_entry_says_nothing_until_the_rest_came() -> None:
    data = write_entries(make_entry(1, "one line"))
    async with following() as wire:
        wire.host.journals[UNIT].put_nowait(data[:40])
        await asyncio.sleep(5)
        assert wire.inbox.empty()
        wire.host.journals[UNIT].put_nowait(data[40:])
        [line] = await wire.heard(LineRead, 1)
    assert line.line.reading == "one line"


@pytest.mark.parametrize("error", [GONE, None])
async def test_a_lost_journal_is_told_and_taken_up_at_its_last_place(error: HostUnreachable | None) -> None:
    async with following() as wire:
        wire.host.say(1, "first")
        wire.host.cut(error)
        wire.host.say(1, "first")  # the host hands over the entry of the cursor again
        wire.host.say(2, "second")
        _, lost, restored, second = await wire.pieces(4)
        assert lost.events == (HostLost(MEMBER, str(error) if error else "llm-two: the journal ended"),)
        assert restored.events == (HostRestored(MEMBER),)
        assert [event.line.reading for event in second.events if isinstance(event, LineRead)] == ["second"]
        (first, _), (position, _), *_ = wire.host.follows
        assert first is None
        assert position is not None
        assert position.cursor == make_cursor(1)


async def test_attempts_come_at_growing_distances_up_to_the_longest() -> None:
    async with following() as wire:
        with capture_logs() as logs:
            for _ in range(9):
                wire.host.cut(GONE)
            await wire.heard(HostLost, 9)
        times = wire.host.follow_times
    gaps = [later - sooner for sooner, later in pairwise(times)]
    steps = (0.5, 1, 2, 4, 8, 15, 15, 15)
    assert all(abs(gap / step - 1) <= 0.21 for gap, step in zip(gaps, steps, strict=True))
    assert {entry["event"] for entry in logs} == {"journal_lost"}


async def test_a_journal_that_brought_something_is_retried_soon_again() -> None:
    async with following() as wire:
        for _ in range(6):
            wire.host.cut(GONE)
        wire.host.say(1, "back again")
        wire.host.cut(GONE)
        wire.host.say(2, "and again")
        await wire.heard(LineRead, 2)
        times = wire.host.follow_times
    assert 0.4 <= times[-1] - times[-2] <= 0.61


async def test_a_journal_that_ends_at_once_each_time_is_retried_ever_later() -> None:
    async with following() as wire:
        for number in range(1, 10):
            wire.host.say(number, "as far as the file can be read")
            wire.host.cut(GONE)
        await wire.heard(HostLost, 9)
        times = wire.host.follow_times
    gaps = [later - sooner for sooner, later in pairwise(times)]
    steps = (0.5, 0.5, 0.5, 0.5, 1, 2, 4, 8)
    assert all(abs(gap / step - 1) <= 0.21 for gap, step in zip(gaps, steps, strict=True))


async def test_a_host_that_talks_faster_than_we_think_waits() -> None:
    async with following(room=2) as wire:
        for number in range(1, 9):
            wire.host.say(number, f"line {number}")
        await asyncio.sleep(60)
        assert wire.inbox.qsize() == 2
        assert wire.host.journals[UNIT].qsize() == 5
        lines = await wire.heard(LineRead, 8)
    assert [event.line.reading for event in lines] == [f"line {number}" for number in range(1, 9)]


async def test_who_is_stopped_while_it_waits_hangs_up_at_once() -> None:
    async with following(room=1) as wire:
        for number in range(1, 4):
            wire.host.say(number, f"line {number}")
        await asyncio.sleep(5)
        assert wire.host.following == 1
    assert wire.host.following == 0


async def test_an_observation_is_what_systemd_says() -> None:
    wire = make_wire()
    wire.host.units[UNIT] = replace(RUNNING, restarts=3)
    await sources.observe_unit(wire.link, wire.inbox)
    assert wire.inbox.get_nowait() == Piece((UnitObserved(MEMBER, wire.host.units[UNIT], wire.host.boot),))


async def test_a_host_that_does_not_tell_its_boot_is_observed_all_the_same() -> None:
    wire = make_wire()
    wire.host.boot_error = HostError("llm-two", "llm-two: no boot id: cat: not found")
    await sources.observe_unit(wire.link, wire.inbox)
    assert wire.inbox.get_nowait() == Piece((UnitObserved(MEMBER, RUNNING, None),))


@pytest.mark.parametrize("error", [GONE, CommandTimedOut("llm-two", "llm-two: hung")])
async def test_a_host_that_does_not_answer_when_asked_for_its_boot_is_asked_no_more(error: HostError) -> None:
    wire = make_wire()
    wire.host.boot_error = error
    await sources.observe_unit(wire.link, wire.inbox)
    assert wire.inbox.get_nowait() == Piece((HostLost(MEMBER, str(error)),))
    assert wire.host.shows == 0


async def test_a_host_that_does_not_answer_is_a_fact_too() -> None:
    wire = make_wire()
    wire.host.show_error = CommandTimedOut("llm-two", "llm-two: hung")
    await sources.observe_unit(wire.link, wire.inbox)
    assert wire.inbox.get_nowait() == Piece((HostLost(MEMBER, "llm-two: hung"),))
    assert wire.link.lost


async def test_a_quiet_journal_that_is_followed_again_is_restored_by_an_observation() -> None:
    async with following() as wire:
        wire.host.cut(GONE)
        await wire.heard(HostLost, 1)
        await sources.observe_unit(wire.link, wire.inbox)  # nobody follows yet: the host alone is no proof
        assert [type(event) for event in wire.inbox.get_nowait().events] == [UnitObserved]
        await asyncio.sleep(0.6)
        await sources.observe_unit(wire.link, wire.inbox)  # it may end at once again
        assert [type(event) for event in wire.inbox.get_nowait().events] == [UnitObserved]
        await asyncio.sleep(1.5)
        await sources.observe_unit(wire.link, wire.inbox)
        assert wire.inbox.get_nowait().events == (HostRestored(MEMBER),)
        assert [type(event) for event in wire.inbox.get_nowait().events] == [UnitObserved]
        await sources.observe_unit(wire.link, wire.inbox)
        assert [type(event) for event in wire.inbox.get_nowait().events] == [UnitObserved]


async def test_the_engine_s_answers_are_facts() -> None:
    wire, probe = make_wire(), ScriptedProbe()
    asked = datetime(2026, 5, 1, tzinfo=UTC)
    await sources.ask_engine(cast("Probe", probe), wire.inbox, asked=asked)
    await sources.run_smoke(cast("Probe", probe), wire.inbox, redactor=Redactor())
    assert wire.inbox.get_nowait() == Piece((ProbeAnswered(UP, asked),))
    assert wire.inbox.get_nowait() == Piece((SmokeFinished(probe.result),))


async def test_what_a_member_runs_with_is_looked_at_once() -> None:
    wire = make_wire()
    wire.host.setups = Setup(("python", "--tp", "8"))
    await sources.look_at_setup(wire.link, wire.inbox, redactor=Redactor())
    assert await wire.heard(SetupSeen, 1) == [SetupSeen(MEMBER, wire.host.setups)]
    wire.host.show_error = GONE
    await sources.look_at_setup(wire.link, wire.inbox, redactor=Redactor())
    assert await wire.heard(SetupSeen, 1) == [SetupSeen(MEMBER, None)]


async def test_what_a_smoke_test_says_is_masked() -> None:
    probe = ScriptedProbe(result=SmokeResult(passed=False, error=f"no {SECRET}", answer=SECRET))
    result = await sources.smoke_masked(cast("Probe", probe), redactor=Redactor((SECRET,)))
    assert result == SmokeResult(passed=False, error="no [masked]", answer="[masked]")


# ---- what following leaves out ----------------------------------------------------------------------------

KNOWN = Cursor(make_cursor(1))
AFTER = "2" * 32  # the boot after


@asynccontextmanager
async def following_on(**changes: Any) -> AsyncIterator[Wire]:
    """From the first entry on, as after a lost link or in the next process."""
    wire = make_wire()
    wire.host.boot = BOOT
    for name, value in changes.items():
        setattr(wire.host, name, value)
    wire.link.position = Position(KNOWN)
    task = asyncio.create_task(sources.follow_journal(wire.link, wire.inbox, redactor=Redactor()))
    try:
        yield wire
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.parametrize("found", [KNOWN, Cursor(make_cursor(2))])
async def test_a_journal_that_holds_all_of_it_is_only_followed(found: Cursor) -> None:
    async with following_on(found={KNOWN: found}) as wire:
        wire.host.say(2, "second")
        [piece] = await wire.pieces(1)
    assert [type(event) for event in piece.events] == [LineRead]
    assert wire.host.rests == []


@pytest.mark.parametrize("found", [Cursor(make_cursor(0x500)), None])
async def test_lines_that_are_gone_are_a_fact_before_those_that_follow(found: Cursor | None) -> None:
    async with following_on(found={KNOWN: found}) as wire:
        wire.host.say(0x500, "what is left")
        missed, line = await wire.pieces(2)
    [event] = missed.events
    assert isinstance(event, LogMissed)
    assert (event.until is None) == (found is None)
    assert missed.position is None  # no line was read for it
    assert [type(event) for event in line.events] == [LineRead]


async def test_they_are_told_before_the_host_counts_as_seen_again() -> None:
    """Since when it was not seen is what says whether they had been read before."""
    async with following_on() as wire:
        await asyncio.sleep(1)
        wire.host.found[KNOWN] = Cursor(make_cursor(0x500))
        wire.host.cut(GONE)
        await asyncio.sleep(5)
        await sources.observe_unit(wire.link, wire.inbox)
        events = [event for piece in await wire.pieces(4) for event in piece.events]
    assert [type(event) for event in events] == [HostLost, LogMissed, HostRestored, UnitObserved]


async def test_what_was_written_before_a_reboot_is_read_before_what_came_after() -> None:
    """`journalctl -f` shows the present boot alone."""
    rest = write_entries(make_entry(1, "the last that was read"), make_entry(2, "Stopping"))
    async with following_on(boot=AFTER, rest=rest) as wire:
        for piece in (after_boot(3, "Started"), GONE, after_boot(3, "Started"), after_boot(4, "and on")):
            wire.host.journals[UNIT].put_nowait(piece)
        first = (await wire.pieces(1))[0]
        lines = await wire.heard(LineRead, 2)
    assert [line.line.reading for line in first.events if isinstance(line, LineRead)] == ["Stopping"]
    assert isinstance(first.position, Position)
    assert first.position.cursor == make_cursor(2)
    assert [line.line.reading for line in lines] == ["Started", "and on"]
    assert wire.host.rests == [(UNIT, KNOWN)]
    assert next(place and place.cursor for place, _ in wire.host.follows) == make_cursor(2)


def after_boot(number: int, text: str) -> bytes:
    return write_entries(make_entry(number, text, __CURSOR=make_cursor(number).replace(BOOT, AFTER)))


async def test_a_start_of_which_nothing_was_read_ends_with_its_boot() -> None:
    wire = make_wire()
    wire.link.invocation = NEW
    task = asyncio.create_task(sources.follow_journal(wire.link, wire.inbox, redactor=Redactor()))
    await asyncio.sleep(1)
    wire.host.boot = "2" * 32
    wire.host.cut(GONE)
    await asyncio.sleep(2)
    task.cancel()
    await asyncio.wait({task})
    assert wire.host.follows == [(None, NEW), (Position(None), None)]

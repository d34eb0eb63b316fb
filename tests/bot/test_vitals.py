"""Whether a process is alive and ready, judged on real parts; nothing waits here for an outage to last."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bot.clients.slack import Outbox, connect_slack
from bot.clients.store import Store
from bot.vitals import EVERY, STUCK, Organs, Part, Report, Vitals
from tests.support.carriers import Backstage, backstage
from tests.support.practice import practise
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.redis import RedisServer

LONG = 1000.0


@dataclass
class Heard:
    answer: tuple[bool, str] = (True, "2 of 2 connections")

    async def hear(self) -> tuple[bool, str]:
        return self.answer


@dataclass
class Room:
    """Vitals of a process that runs; startups of small doubles."""

    store: Store
    outbox: Outbox
    stage: Backstage
    ears: Heard = field(default_factory=Heard)
    vitals: Vitals = field(default_factory=Vitals)

    def part(self, name: str) -> Part:
        return next(part for part in self.vitals.report().parts if part.name == name)

    def redis_answers_for_long(self) -> None:
        self.vitals._redis_back -= LONG


@pytest_asyncio.fixture
async def room(own_redis: RedisServer) -> AsyncIterator[Room]:
    store = await Store.open(own_redis.url)
    outbox = Outbox(connect_slack("xoxb-1", "http://127.0.0.1:9/api/"), store)
    async with backstage() as stage:
        room = Room(store, outbox, stage)
        room.vitals.attach(Organs(store, outbox, stage.startups, room.ears))
        room.vitals.stage = "running"
        await room.vitals.look()
        yield room
    await store.close()


async def test_what_does_its_work_is_alive_and_ready(room: Room) -> None:
    report = room.vitals.report()
    assert (report.alive, report.ready, report.problems()) == (True, True, ())
    assert room.vitals.depth == 0


@pytest.mark.parametrize("stage", ["starting", "stopping"])
async def test_who_starts_or_stops_is_alive_and_not_ready(room: Room, stage: str) -> None:
    room.vitals.stage = stage
    report = room.vitals.report()
    assert (report.alive, report.ready, report.problems()) == (True, False, (f"process: {stage}",))


def test_before_anything_is_attached_only_the_start_is_told() -> None:
    report = Vitals().report()
    assert (report.alive, report.ready) == (True, False)
    assert report.problems() == ("process: starting",)


async def test_there_is_nothing_to_look_at_before() -> None:
    with pytest.raises(RuntimeError, match="attached"):
        await Vitals().look()


async def test_a_redis_that_is_gone_makes_nobody_kill_the_process(room: Room, own_redis: RedisServer) -> None:
    own_redis.kill()
    await room.vitals.look()
    report = room.vitals.report()
    assert (report.alive, report.ready) == (True, False)
    assert room.part("redis").words == "has not answered for 0 s"
    assert room.store.link.errors >= 1
    assert room.vitals.depth is None
    room.store.leases.renewed -= LONG  # it cannot renew meanwhile
    assert not room.part("leases").good
    assert room.vitals.report().alive
    own_redis.start()
    await room.vitals.look()
    assert room.part("redis").good
    assert room.vitals.report().alive  # it has had no time to renew yet


@pytest.mark.parametrize(
    ("order", "way_back", "told"),
    [
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "maxmemory"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "read only"),
    ],
    ids=["full", "read-only"],
)
async def test_a_redis_that_answers_and_takes_nothing_makes_nobody_kill_the_process(
    room: Room, own_redis: RedisServer, order: str, way_back: str, told: str
) -> None:
    leases = room.store.leases
    leases.seconds = 1.0  # a round each third of it
    room.redis_answers_for_long()
    renewing = asyncio.create_task(leases.run())
    try:
        assert own_redis.ask(order) == "+OK"
        await until(lambda: leases.refused is not None)
        leases.renewed = time.monotonic() + LONG
        await room.vitals.look()
        assert room.part("redis").good  # it may be over in a moment
        leases.renewed -= 2 * LONG
        await room.vitals.look()
        assert told in room.part("redis").words
        assert "has taken nothing for 0 s" in room.part("redis").words
        assert (room.vitals.report().alive, room.vitals.report().ready) == (True, False)
        assert own_redis.ask(way_back) == "+OK"
        await until(lambda: leases.refused is None)
        await room.vitals.look()
        assert room.part("redis").good
    finally:
        renewing.cancel()


async def test_a_slack_that_is_gone_or_refuses_the_token_makes_nobody_kill_the_process(room: Room) -> None:
    room.ears.answer = (False, "0 of 2 connections")
    await room.vitals.look()
    report = room.vitals.report()
    assert (report.alive, report.problems()) == (True, ("slack: 0 of 2 connections",))
    room.ears.answer = (True, "2 of 2 connections")
    await room.vitals.look()
    room.outbox._outlet.locked = "token_revoked"
    report = room.vitals.report()
    assert (report.alive, report.problems()) == (True, ("slack: refuses the token: token_revoked",))


async def test_leases_that_are_not_renewed_while_redis_answers_are_ours_to_mend(room: Room) -> None:
    room.store.leases.renewed -= STUCK + 1
    assert room.part("leases") == Part("leases", good=False, words=f"renewed {STUCK + 1:.0f} s ago")
    room.redis_answers_for_long()
    assert room.part("leases").fatal
    assert not room.vitals.report().alive


async def test_an_outbox_that_looks_no_more_is_ours_to_mend(room: Room) -> None:
    room.outbox.beat -= STUCK + 1
    assert room.vitals.report().problems(fatal=True) == (f"outbox: has not looked for {STUCK + 1:.0f} s",)
    assert not room.vitals.report().alive


async def test_a_loop_that_comes_late_is_not_ready_and_then_not_alive(room: Room) -> None:
    room.vitals._beat -= 20
    assert (room.part("loop").good, room.vitals.report().alive) == (False, True)
    room.vitals._beat -= STUCK
    assert not room.vitals.report().alive


async def test_a_startup_that_takes_nothing_in_is_ours_to_mend_until_it_has_its_verdict() -> None:
    async with practise("healthy", speed=100) as practice:
        root = await practice.begin()
        await practice.reply(root, "Old process stopped")
        [running] = practice.app.startups.running.values()
        vitals = practice.app.vitals
        await until(lambda: vitals.report().ready)
        running.beat -= STUCK + 1
        report = vitals.report()
        assert not report.ready
        assert report.alive  # Redis answers for a moment only
        vitals._redis_back -= LONG
        assert vitals.report().problems(fatal=True)[0].startswith("startups: one of 1 has taken in nothing")
        await until(lambda: vitals.report().ready)  # the next tick
        await practice.verdict()
        assert vitals.report().ready


async def test_it_looks_for_ever_and_says_how_late_the_loop_is() -> None:
    async with practise("healthy", speed=100) as practice:
        vitals = practice.app.vitals
        await until(lambda: vitals.report().ready)
        seen, outbox = vitals._beat, practice.app.startups.ground.outbox
        looked, renewed = outbox.beat, practice.app.startups.ground.store.leases.renewed
        await until(lambda: vitals._beat > seen + EVERY / 2)
        await until(lambda: outbox.beat > looked)
        await until(lambda: practice.app.startups.ground.store.leases.renewed > renewed)
        assert vitals.report().problems() == ()
        await practice.app.close()
        assert vitals.report().problems()[0] == "process: stopping"


def test_a_report_names_what_is_wrong() -> None:
    parts = (Part("a", good=True, words="x"), Part("b", good=False, words="y", fatal=True))
    report = Report((*parts, Part("c", good=False, words="z")))
    assert (report.alive, report.ready) == (False, False)
    assert report.problems() == ("b: y", "c: z")
    assert report.problems(fatal=True) == ("b: y",)

"""What is looked at before anything is touched, and what follows from it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from bot.core.events import Member, OperationId, ServiceName, UserId, Verb
from bot.core.journal import Position
from bot.errors import CommandRefused, HostUnreachable, PermissionRefused
from bot.planning import costs, make_plan, nothing_to_watch, observe, prepare
from tests.support.carriers import (
    CLOSED,
    DEAD,
    MEMBER,
    OLD,
    RUNNING,
    SERVICE,
    UNIT,
    ask,
    backstage,
    configured,
)

if TYPE_CHECKING:
    from bot.core.events import UnitState
    from bot.core.request import Request

pytestmark = pytest.mark.looptime
OP = OperationId("op1")


async def test_a_look_notes_where_the_journal_and_the_log_file_end() -> None:
    async with backstage(configured(log_file="/var/log/kimi.log")) as stage:
        links = stage.ground.links(SERVICE)
        assert await observe(links, ask()) == {MEMBER: RUNNING}
        link = links[MEMBER]
        assert isinstance(link.position, Position)
        assert (link.position.cursor, link.kernel, link.invocation) == ("end", link.position, OLD)
        assert link.log == link.log_start == stage.host.file_end
        assert stage.host.orders == []


async def test_a_look_refuses_what_makes_no_sense_or_may_not_be_done() -> None:
    async with backstage() as stage:
        stage.host.units[UNIT] = DEAD
        with pytest.raises(CommandRefused, match="does not run"):
            await observe(stage.ground.links(SERVICE), ask(Verb.WATCH))
        stage.host.sudo_error = PermissionRefused("llm-two", "llm-two: no")
        with pytest.raises(PermissionRefused):
            await observe(stage.ground.links(SERVICE), ask())
        stage.host.show_error = HostUnreachable("llm-two", "llm-two: gone")
        with pytest.raises(HostUnreachable):
            await observe(stage.ground.links(SERVICE), ask())


@pytest.mark.parametrize(
    ("verb", "confirmed", "answers", "costly"),
    [
        (Verb.RESTART, False, True, True),
        (Verb.STOP, False, True, True),
        (Verb.RESTART, True, True, False),
        (Verb.START, False, True, False),
        (Verb.WATCH, False, True, False),
        (Verb.RESTART, False, False, False),
    ],
)
async def test_what_costs_is_asked_first(verb: Verb, confirmed: bool, answers: bool, costly: bool) -> None:
    async with backstage() as stage:
        if not answers:
            stage.probe.answer = CLOSED
        assert await costs(stage.ground, ask(verb, confirmed=confirmed)) is costly


@pytest.mark.parametrize(
    ("request_", "answers", "unit", "told"),
    [
        (ask(Verb.WATCH), True, RUNNING, True),
        (ask(Verb.WATCH, by=UserId("")), True, RUNNING, False),  # noticed, not asked for
        (ask(Verb.RESTART), True, RUNNING, False),
        (ask(Verb.WATCH), False, RUNNING, False),  # up, but not there yet
        (ask(Verb.WATCH), True, replace(RUNNING, active="activating", sub="start-pre"), False),
        (ask(Verb.WATCH), True, replace(RUNNING, job=17), False),
    ],
)
async def test_what_serves_is_not_starting(
    request_: Request, answers: bool, unit: UnitState, told: bool
) -> None:
    async with backstage() as stage:
        if not answers:
            stage.probe.answer = CLOSED
        long_up = replace(unit, active_since=stage.clock.now() - timedelta(hours=5))
        sentence = await nothing_to_watch(stage.ground, request_, {MEMBER: long_up})
        assert (sentence is not None and "(5h)" in sentence) is told


async def test_what_may_still_be_in_its_proof_is_starting() -> None:
    async with backstage() as stage:
        stable_for = stage.ground.section(SERVICE).stable_for
        for up, told in ((stable_for / 2, False), (stable_for * 2, True), (None, False)):
            since = None if up is None else stage.clock.now() - up
            unit = replace(RUNNING, active_since=since)
            sentence = await nothing_to_watch(stage.ground, ask(Verb.WATCH), {MEMBER: unit})
            assert (sentence is not None) is told


async def test_of_several_members_the_last_to_start_may_still_load_while_another_answers() -> None:
    async with backstage() as stage:
        for up, told in ((timedelta(minutes=5), False), (timedelta(days=2), True)):
            units = {
                MEMBER: replace(RUNNING, active_since=stage.clock.now() - timedelta(days=9)),
                Member("llm-three/u.service"): replace(RUNNING, active_since=stage.clock.now() - up),
            }
            sentence = await nothing_to_watch(stage.ground, ask(Verb.WATCH), units)
            assert (sentence is not None) is told


async def test_a_restart_reads_on_from_the_end_and_a_watch_from_the_beginning() -> None:
    async with backstage() as stage:
        lease = await stage.store.leases.claim(OP)
        assert lease is not None
        for verb, invocation, before in ((Verb.RESTART, None, OLD), (Verb.WATCH, OLD, None)):
            links = stage.ground.links(SERVICE)
            units = await observe(links, ask(verb))
            plan = await make_plan(stage.ground, ask(verb), identity=OP, units=units)
            running = prepare(stage.ground, plan, links=links, lease=lease)
            link = links[MEMBER]
            assert (link.invocation, plan.before) == (invocation, {MEMBER: before})
            assert (link.position is None) == (verb is Verb.WATCH)
            assert (MEMBER in running.operation.positions) == (verb is Verb.RESTART)
            assert (running.operation.operation, running.ledger.lease) == (OP, lease)
            assert running.begun == (verb is Verb.WATCH)
            assert stage.diary == []


async def test_a_plan_says_who_asked_and_why() -> None:
    async with backstage() as stage:
        request = replace(ask(), reason="new parser")
        plan = await make_plan(stage.ground, request, identity=OP, units={MEMBER: RUNNING})
    assert (plan.operation, plan.service, plan.reason, plan.by) == (OP, SERVICE, "new parser", request.by)
    assert plan.service == ServiceName("kimi-k2.5")


@pytest.mark.parametrize(
    ("changes", "followed"),
    [({}, True), ({"active": "deactivating"}, False), ({"job": 7}, False), ({"sub": "auto-restart"}, False)],
)
async def test_a_watch_is_of_the_run_that_is_up(changes: dict[str, Any], followed: bool) -> None:
    unit = replace(RUNNING, **changes)
    if unit.sub == "auto-restart":
        unit = replace(unit, active="activating")
    async with backstage() as stage:
        for verb, expected in ((Verb.WATCH, followed), (Verb.RESTART, False)):
            request = replace(ask(), verb=verb)
            plan = await make_plan(stage.ground, request, identity=OP, units={MEMBER: unit})
            assert plan.follows == ({MEMBER: unit.invocation} if expected else {})

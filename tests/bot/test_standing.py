"""`status`: what a service is at present, as far as it can be seen."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.baselines import ACCOUNT
from bot.core.account import Account, Failure
from bot.core.actions import Verdict
from bot.core.events import HostName, PhaseId, ProbeAnswer, Role, UnitName, UnitState, Verb
from bot.core.request import Standing
from bot.errors import HostUnreachable, StoreUnavailable
from bot.standing import doubt_answer, look
from tests.support.carriers import DEAD, MEMBER, RUNNING, SERVICE, UNIT, UP, Backstage, backstage, configured
from tests.support.outgoing import operation as make_operation

pytestmark = pytest.mark.looptime
GONE = HostUnreachable("llm-two", "llm-two: no connection: refused")


async def see(stage: Backstage) -> Any:
    return await look(stage.ground, SERVICE, startup=None, held=None)


async def test_a_service_that_answers_as_it_should_serves_since_its_start() -> None:
    async with backstage() as stage:
        since = stage.clock.now() - timedelta(hours=5)
        stage.host.units[UNIT] = replace(RUNNING, active_since=since)
        view = await see(stage)
    assert (view.standing, view.problem, view.model) == (Standing.SERVING, None, "kimi")
    assert timedelta(hours=5) <= view.uptime < timedelta(hours=5, seconds=5)
    assert view.hosts == (HostName("llm-two"),)
    assert view.last is None


@pytest.mark.parametrize(
    ("unit", "standing", "problem"),
    [
        (DEAD, Standing.STOPPED, None),
        (
            replace(RUNNING, active="activating", sub="auto-restart", restarts=7),
            Standing.BROKEN,
            f"systemd starts {MEMBER} over and over (7 times so far).",
        ),
        (
            replace(DEAD, active="failed", result="oom-kill"),
            Standing.BROKEN,
            f"{MEMBER} ended with result oom-kill.",
        ),
        (
            replace(DEAD, load="not-found"),
            Standing.BROKEN,
            f"{MEMBER}: systemd has no such unit; mend `unit` in the configuration.",
        ),
        (
            replace(DEAD, load="masked"),
            Standing.BROKEN,
            f"{MEMBER}: systemd says masked; mend `unit` in the configuration.",
        ),
        (
            replace(RUNNING, active="deactivating", sub="stop-sigterm"),
            Standing.STOPPING,
            f"{MEMBER} is deactivating (stop-sigterm).",
        ),
        (
            replace(RUNNING, active="activating", sub="start-pre"),
            Standing.STARTING,
            f"{MEMBER} is activating (start-pre).",
        ),
        (
            replace(RUNNING, active="maintenance", sub="maintenance"),
            Standing.UNPROVEN,
            f"{MEMBER} is maintenance (maintenance).",
        ),
    ],
)
async def test_what_systemd_says_of_it(unit: UnitState, standing: Standing, problem: str | None) -> None:
    async with backstage() as stage:
        stage.host.units[UNIT] = unit
        view = await see(stage)
        assert (view.standing, view.problem, view.uptime) == (standing, problem, None)
        assert stage.probe.checks == 0


async def test_one_member_down_is_no_service() -> None:
    members = [{"host": "llm-two", "unit": "one.service"}, {"host": "llm-two", "unit": "two.service"}]
    async with backstage(configured(host=None, unit=None, members=members)) as stage:
        assert (await see(stage)).hosts == (HostName("llm-two"),)
        stage.host.units[stage.ground.links(SERVICE).popitem()[1].unit] = DEAD
        view = await see(stage)
    assert (view.standing, view.problem) == (Standing.UNPROVEN, "llm-two/two.service is inactive (dead).")


async def test_of_several_members_the_one_amid_its_start_or_its_end_tells_the_standing() -> None:
    members = [{"host": "llm-two", "unit": "one.service"}, {"host": "llm-two", "unit": "two.service"}]
    async with backstage(configured(host=None, unit=None, members=members)) as stage:
        stage.host.units[UnitName("one.service")] = DEAD
        stage.host.units[UnitName("two.service")] = replace(RUNNING, active="activating", sub="start")
        view = await see(stage)
    assert (view.standing, view.problem) == (Standing.STARTING, "llm-two/two.service is activating (start).")


async def test_a_unit_that_reloads_serves_all_the_while() -> None:
    async with backstage() as stage:
        stage.host.units[UNIT] = replace(RUNNING, active="reloading", sub="reload")
        assert (await see(stage)).standing is Standing.SERVING


async def test_a_host_that_cannot_be_seen_says_why() -> None:
    async with backstage() as stage:
        stage.host.show_error = GONE
        view = await see(stage)
    assert (view.standing, view.problem) == (Standing.UNSEEN, str(GONE))


async def test_a_person_does_not_wait_for_a_host_that_is_gone() -> None:
    async with backstage() as stage:
        stage.host.gate.clear()
        began = asyncio.get_running_loop().time()
        view = await see(stage)
        assert asyncio.get_running_loop().time() - began < 4.5
    assert (view.standing, view.problem) == (Standing.UNSEEN, "llm-two has not answered for 4s.")


async def test_a_start_under_way_is_a_start_even_where_the_host_cannot_be_seen() -> None:
    async with backstage() as stage:
        stage.probe.answer = ProbeAnswer(error="connection refused")
        running = await stage.begin()
        startup = running.startup.view(stage.clock.now())
        seen = await look(stage.ground, SERVICE, startup=startup, held=None)
        assert (seen.standing, seen.problem, seen.startup) == (Standing.STARTING, None, startup)
        stage.host.show_error = GONE
        unseen = await look(stage.ground, SERVICE, startup=startup, held=None)
    assert (unseen.standing, unseen.problem, unseen.startup) == (Standing.STARTING, str(GONE), startup)


async def test_a_person_does_not_wait_for_an_engine_that_hangs() -> None:
    async with backstage() as stage:
        stage.probe.gate.clear()
        began = asyncio.get_running_loop().time()
        view = await see(stage)
        assert asyncio.get_running_loop().time() - began < 9
    assert (view.standing, view.problem) == (Standing.UNPROVEN, "/health has not answered within 8 s.")


@pytest.mark.parametrize(
    ("answer", "doubt"),
    [
        (UP, None),
        (replace(UP, listener=None), None),
        (ProbeAnswer(error="connection refused"), "The engine does not answer: connection refused."),
        (ProbeAnswer(), "The engine does not answer: no reason given."),
        (replace(UP, health=503), "/health answers 503."),
        (replace(UP, listener=False), "Its port is served by a process of another unit."),
        (replace(UP, models=None, models_status=401), "/v1/models does not answer as it should: 401."),
        (replace(UP, models=("kimi-k2", "b")), "/v1/models lists kimi-k2, b, not kimi."),
        (replace(UP, models=()), "/v1/models lists nothing, not kimi."),
    ],
)
async def test_what_speaks_against_a_service_that_runs(answer: ProbeAnswer, doubt: str | None) -> None:
    assert doubt_answer(answer, model="kimi") == doubt
    async with backstage() as stage:
        stage.probe.answer = answer
        view = await see(stage)
    assert (view.standing, view.problem) == (Standing.UNPROVEN if doubt else Standing.SERVING, doubt)


async def test_how_the_last_operation_ended() -> None:
    async with backstage() as stage:
        now = stage.clock.now()
        began, closed = now - timedelta(hours=2), now - timedelta(hours=1)
        stage.store.operations["op1"] = make_operation(began=began, closed=closed, verdict="failed")
        last = (await see(stage)).last
    assert last is not None
    assert (last.verb, last.verdict, last.took, last.link) == (
        Verb.RESTART,
        Verdict.FAILED,
        timedelta(hours=1),
        None,
    )
    assert timedelta(hours=1) <= last.age < timedelta(hours=1, seconds=5)


async def test_why_the_last_operation_failed() -> None:
    failure = Failure("Out of GPU memory", PhaseId.WEIGHTS, Role.TARGET)
    account = ACCOUNT.dump_json(Account(failure=failure)).decode()
    async with backstage() as stage:
        now = stage.clock.now()
        stage.store.operations["op1"] = make_operation(
            began=now, closed=now, verdict="failed", account=account
        )
        last = (await see(stage)).last
    assert last is not None
    assert last.failure == failure


async def test_it_took_as_long_as_its_thread_said() -> None:
    async with backstage() as stage:
        now = stage.clock.now()
        ended: dict[str, Any] = {"began": now - timedelta(minutes=9), "closed": now, "verdict": "healthy"}
        for account, took in (('{"took": 485.0}', 485), ("{", 540), ("", 540)):
            stage.store.operations["op1"] = make_operation(**ended, account=account)
            last = (await see(stage)).last
            assert last is not None
            assert last.took == timedelta(seconds=took)


async def test_without_redis_nothing_is_claimed() -> None:
    async with backstage() as stage:
        stage.store.away = True
        with pytest.raises(StoreUnavailable):
            await see(stage)

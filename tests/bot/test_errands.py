"""A smoke test now, and unit files read anew, as people ask for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from bot.core.events import ChannelId, HostName, MessageTs, SmokeResult, UserId
from bot.errands import Errands
from bot.errors import PermissionRefused, StoreUnavailable
from tests.support.carriers import SECRET, SERVICE, Backstage, backstage, configured

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.looptime
GOOD = SmokeResult(passed=True, first_token=0.31, tokens_per_second=84, answer=f"Hello {SECRET}")


def errands_of(stage: Backstage) -> Errands:
    stage.probe.result = GOOD
    return Errands(stage.ground, stage.startups)


async def test_a_smoke_test_is_told_beside_the_usual_and_masked() -> None:
    async with backstage() as stage:
        stage.store.baselines[SERVICE] = '{"speeds": {"first_token": [0.29], "tokens_per_second": [86]}}'
        message = await errands_of(stage).smoke(SERVICE)
    assert "first token 0.31s (usual 0.29s), 84 tokens/s (usual 86)" in message.text
    assert "Hello" in str(message.blocks)
    assert SECRET not in str(message)


async def test_while_one_runs_no_other_begins() -> None:
    async with backstage() as stage:
        errands = errands_of(stage)
        stage.probe.gate.clear()
        first = asyncio.create_task(errands.smoke(SERVICE))
        await stage.until(lambda: stage.probe.smokes)
        assert "runs already" in (await errands.smoke(SERVICE)).text
        stage.probe.gate.set()
        assert "passed" in (await first).text
        assert "passed" in (await errands.smoke(SERVICE)).text
    assert stage.probe.smokes == 2


async def test_while_a_startup_runs_its_own_no_other_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    async with backstage() as stage:
        errands, gate = errands_of(stage), asyncio.Event()

        async def smoke() -> SmokeResult:
            await gate.wait()
            return GOOD

        monkeypatch.setattr(stage.probe, "smoke", smoke)
        running = await stage.begin()
        await stage.until(lambda: running.looks.is_smoking)
        assert "runs already" in (await errands.smoke(SERVICE)).text
        gate.set()
        assert (await stage.closed(running)).verdict == "healthy"
        assert "passed" in (await errands.smoke(SERVICE)).text


async def test_one_that_breaks_off_keeps_nobody_off() -> None:
    async with backstage() as stage:
        errands = errands_of(stage)
        stage.probe.gate.clear()
        task = asyncio.create_task(errands.smoke(SERVICE))
        await stage.until(lambda: stage.probe.smokes)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        stage.probe.gate.set()
        assert "passed" in (await errands.smoke(SERVICE)).text


async def test_another_process_s_keeps_others_off_while_it_lives() -> None:
    async with backstage() as stage:
        leases, name = stage.store.leases, f"smoke/{SERVICE}"
        lease = await leases.claim(name)
        assert lease is not None
        leases.held[name] = (1 + leases.process, lease)
        assert "runs already" in (await errands_of(stage).smoke(SERVICE)).text
        leases.held[name] = (-1, lease)
        assert "passed" in (await errands_of(stage).smoke(SERVICE)).text


async def test_without_redis_nothing_is_done() -> None:
    async with backstage() as stage:
        stage.store.away = True
        with pytest.raises(StoreUnavailable):
            await errands_of(stage).smoke(SERVICE)
    assert stage.probe.smokes == 0


async def test_each_host_reads_its_units_anew_once() -> None:
    members = [{"host": "llm-two", "unit": f"node{number}.service"} for number in (0, 1)]
    async with backstage(configured(host=None, unit=None, members=members)) as stage:
        message = await errands_of(stage).reload(SERVICE)
        assert stage.host.reloads == ["system"]
        assert "systemd on llm-two has read its unit files anew" in message.text
        stage.host.change_errors = [PermissionRefused(HostName("llm-two"), "llm-two: no")]
        with pytest.raises(PermissionRefused):
            await errands_of(stage).reload(SERVICE)


@pytest.mark.parametrize(("reach", "notices"), [("ssh", 1), ("direct", 0)])
async def test_a_smoke_test_that_waits_for_its_host_says_so_early(reach: str, notices: int) -> None:
    async with backstage(configured(reach=reach)) as stage:
        errands = errands_of(stage)
        stage.host.gate.clear()
        stage.probe.gate.clear()
        told: list[tuple[str, ...]] = []

        async def slow(hosts: Sequence[str], seconds: float) -> None:
            assert seconds == 4
            told.append(tuple(hosts))

        task = asyncio.create_task(errands.smoke(SERVICE, slow=slow))
        await asyncio.sleep(10)
        assert told == [("llm-two",)] * notices
        stage.probe.gate.set()
        assert "passed" in (await task).text


async def test_a_reload_that_waits_for_its_host_says_so_early(monkeypatch: pytest.MonkeyPatch) -> None:
    async with backstage() as stage:
        told: list[tuple[str, ...]] = []

        async def slow(hosts: Sequence[str], seconds: float) -> None:
            assert seconds == 4
            told.append(tuple(hosts))

        async def reload(*, scope: str) -> None:
            assert scope
            await asyncio.sleep(10)

        monkeypatch.setattr(stage.host, "reload", reload)
        assert "has read its unit files anew" in (await errands_of(stage).reload(SERVICE, slow=slow)).text
    assert told == [("llm-two",)]


async def test_an_answer_goes_into_the_thread_it_was_asked_in() -> None:
    async with backstage() as stage:
        errands = errands_of(stage)
        message = await errands.smoke(SERVICE)
        where = {"channel": ChannelId("C0OPS"), "thread_ts": MessageTs("1.2")}
        for _ in range(2):
            await errands.post(message, by=UserId("U0ALICE"), token="t1", **where)  # type: ignore[arg-type]
        [queued] = stage.store.queued.values()
    assert (queued.kind, queued.channel, queued.thread_ts) == ("reply", "C0OPS", "1.2")
    assert queued.text.endswith("(<@U0ALICE>)")

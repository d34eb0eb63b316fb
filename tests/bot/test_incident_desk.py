"""What people ask of incidents and mutes: which one is meant, what is shown, what is done once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from bot.clients.store_watches import Watched, Watches, lease_name
from bot.core.command import Outcome
from bot.core.events import ChannelId, HostName, ServiceName, UserId
from bot.core.incident_state import IncidentId, Severity
from bot.core.monitor_state import Mute, WatchState
from bot.incident_desk import Desk
from bot.practice.workspace import CHANNEL
from bot.watch_plans import WATCH_STATE
from config.services import MemberSection
from tests.support.waiting import until
from tests.support.watchmen import HOST, SERVICE, watchmen

if TYPE_CHECKING:
    from bot.core.incident_state import IncidentPlan
    from tests.support.watchmen import Watchmen

FAR = HostName("llm-three")
BOB = UserId("U0BOB")
ALICE, OTHER, FURTHER = UserId("U0ALICE"), ServiceName("other"), ServiceName("further")


async def begin(room: Watchmen) -> IncidentPlan:
    plan = room.plan()
    await room.incidents().open(plan)
    await until(lambda: len(room.roots()) == 1)
    return plan


async def test_it_is_found_by_its_thread_and_by_its_id_where_it_may_be_named(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, desk = await begin(room), Desk(room.ground)
        found = None
        while found is None:
            await asyncio.sleep(0.05)
            found = await desk.at(ChannelId(CHANNEL), room.roots()[0].ts)  # type: ignore[arg-type]
        assert (found.incident, found.service, found.host) == (plan.incident, SERVICE, HOST)
        record = (await desk.find(plan.incident[:6], [SERVICE])).record
        assert record is not None
        assert record.incident == plan.incident
        hidden = await desk.find(plan.incident[:6], [OTHER])
        assert hidden.record is None
        assert hidden.problem is not None


async def test_the_list_tells_what_is_open_and_what_is_muted(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        desk = Desk(room.ground)
        assert "No incident" in (await desk.rows([SERVICE], service=None)).text
        plan = await begin(room)
        lease = await room.ground.store.leases.claim(lease_name(HOST))
        assert lease is not None
        mute = Mute(room.ground.clock.now() + timedelta(hours=1), ALICE, "tests")
        state = WATCH_STATE.dump_json(WatchState(mute=mute)).decode()
        await Watches(room.ground.store.link).write(lease, SERVICE, Watched(state=state))
        shown = await desk.rows([SERVICE], service=None)
        assert "1 incident open" in shown.text
        assert plan.incident[:8] in shown.text
        assert "tests" in str(shown.blocks)
        outage = await desk.outage_of(SERVICE)
        assert outage is not None
        assert outage.sentence == "process died by SIGSEGV"
        assert outage.is_down


async def test_what_is_asked_of_a_service_concerns_its_host_that_is_gone(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        seen = datetime.now(UTC)
        plan, desk = await begin_on(room, HOST, last_healthy=seen), Desk(room.ground)
        outage = await desk.outage_of(SERVICE)
        assert outage is not None
        assert outage.last_healthy == seen
        assert outage.incident == plan.incident[:8]
        told, outcome = await desk.resolve(SERVICE, None, by=ALICE, token="t1")
        assert outcome is Outcome.NOTHING
        assert f"`resolve {plan.incident[:8]}`" in told.text
        _, outcome = await desk.acknowledge(SERVICE, None, by=ALICE, token="t2")
        assert outcome is Outcome.DONE
        await until(lambda: any("acknowledged" in text for text in room.thread(room.roots()[0])))


async def test_the_host_of_each_member_is_the_service_s_concern(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, section = await begin_on(room, FAR), room.ground.section(SERVICE)
        units = tuple(MemberSection(host=host, unit="sglang-kimi.service") for host in (HOST, FAR))
        spread = section.model_copy(update={"members": units})
        configuration = room.ground.configuration.model_copy(update={"services": {SERVICE: spread}})
        desk = Desk(replace(room.ground, configuration=configuration))
        assert plan.incident[:8] in (await desk.rows([SERVICE], service=SERVICE)).text
        assert (await desk.find(plan.incident[:8], [SERVICE])).record is not None
        _, outcome = await desk.acknowledge(SERVICE, None, by=ALICE, token="t1")
        assert outcome is Outcome.DONE


async def test_one_host_may_tell_it_for_the_services_of_all(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        section = room.ground.section(SERVICE)
        away = section.model_copy(update={"host": FAR})
        services = {SERVICE: section, OTHER: away, FURTHER: away}
        hosts = {**room.ground.configuration.hosts, FAR: room.ground.configuration.hosts[HOST]}
        configuration = room.ground.configuration.model_copy(update={"services": services, "hosts": hosts})
        plan = await begin_on(room, HOST, affected=(SERVICE, OTHER))
        desk = Desk(replace(room.ground, configuration=configuration))
        assert plan.incident[:8] in (await desk.rows([OTHER], service=OTHER)).text
        assert plan.incident[:8] not in (await desk.rows([FURTHER], service=FURTHER)).text
        assert await desk.outage_of(FURTHER) is None
        _, outcome = await desk.acknowledge(OTHER, None, by=ALICE, token="t1")
        assert outcome is Outcome.DONE


async def test_what_is_configured_no_longer_is_shown_and_closed(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, section = await begin(room), room.ground.section(SERVICE)
        services = {OTHER: section, FURTHER: section}
        configuration = room.ground.configuration.model_copy(update={"services": services})
        desk = Desk(replace(room.ground, configuration=configuration))
        assert (await desk.find(plan.incident[:6], [OTHER])).record is None
        assert (await desk.find(plan.incident[:6], [OTHER, FURTHER])).record is not None
        assert plan.incident[:8] in str((await desk.rows([OTHER, FURTHER], service=None)).blocks)
        assert plan.incident[:8] not in str((await desk.rows([OTHER, FURTHER], service=OTHER)).blocks)
        _, outcome = await desk.resolve(None, plan.incident, by=ALICE, token="t1")
        assert outcome is Outcome.DONE
        await until(lambda: any("by hand" in text for text in room.thread(room.roots()[0])))


async def begin_on(room: Watchmen, host: HostName, **changes: Any) -> IncidentPlan:
    """A whole host is gone."""
    of_host: dict[str, Any] = {"subject": host, "host": host, "service": None, "severity": Severity.HOST}
    plan = room.plan(**of_host, members=(), invocations={}, **changes)
    await room.incidents().open(plan)
    await until(lambda: len(room.roots()) == 1)
    return plan


async def test_it_is_acknowledged_once_and_closed_once(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        desk = Desk(room.ground)
        _, outcome = await desk.acknowledge(SERVICE, None, by=ALICE, token="t0")
        assert outcome is Outcome.NOTHING
        await begin(room)
        _, outcome = await desk.acknowledge(SERVICE, None, by=ALICE, token="t1")
        assert outcome is Outcome.DONE
        await until(lambda: any("acknowledged" in text for text in room.thread(room.roots()[0])))
        _, outcome = await desk.acknowledge(SERVICE, None, by=ALICE, token="t2")
        assert outcome is Outcome.NOTHING
        _, outcome = await desk.resolve(SERVICE, None, by=ALICE, token="t3")
        assert outcome is Outcome.DONE
        await until(lambda: any("by hand" in text for text in room.thread(room.roots()[0])))
        _, outcome = await desk.resolve(SERVICE, None, by=ALICE, token="t4")
        assert outcome is Outcome.NOTHING
        assert await desk.outage_of(SERVICE) is None
        before = await desk.outage_before(SERVICE)
        assert before is not None
        assert before.over is not None
        assert timedelta() <= before.over <= before.age
        assert (before.sentence, before.acked_by) == ("process died by SIGSEGV", ALICE)
        assert await desk.outage_before(FURTHER) is None


async def test_of_two_at_once_one_is_told_to_be_on_it(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        desk = Desk(room.ground)
        await begin(room)
        answers = await asyncio.gather(
            *(desk.acknowledge(SERVICE, None, by=who, token=who) for who in (ALICE, BOB))
        )
        assert sorted(str(outcome) for _, outcome in answers) == ["done", "nothing to do"]
        [late] = [told.text for told, outcome in answers if outcome is Outcome.NOTHING]
        await until(lambda: any("acknowledged" in text for text in room.thread(room.roots()[0])))
        [said] = [text for text in room.thread(room.roots()[0]) if "acknowledged" in text]
        assert late.split(" ")[0] == said.split(" ")[0]


async def test_a_mute_goes_to_its_watch(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        poked: list[str] = []
        desk = Desk(room.ground, poked.append)
        _, outcome = await desk.unmute(SERVICE, by=ALICE, token="t0")
        assert outcome is Outcome.NOTHING
        await desk.mute(SERVICE, timedelta(hours=1), by=ALICE, reason="tests", token="t1")
        await desk.mute(SERVICE, timedelta(hours=1), by=ALICE, reason="tests", token="t1")
        _, outcome = await desk.unmute(SERVICE, by=ALICE, token="t2")
        assert outcome is Outcome.DONE
        words = await Watches(room.ground.store.link).words(HOST)
        assert [(word.kind, word.service) for word in words] == [("Muted", SERVICE), ("Unmuted", SERVICE)]
        assert poked == [HOST] * 3


async def test_a_file_is_sent_once_for_each_time_it_is_asked_for(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, desk = await begin(room), Desk(room.ground)
        for _ in range(2):
            await desk.export(plan.incident, by=ALICE, channel=ChannelId(CHANNEL), thread_ts=None, token="t1")
        await until(lambda: len(room.slack.files) == 1)
        await room.ground.outbox.drain(60)
        [file] = room.slack.files.values()
        assert b"# kimi" in file.content
        gone = await desk.export(
            IncidentId("f" * 32), by=ALICE, channel=ChannelId(CHANNEL), thread_ts=None, token="t2"
        )
        assert "no incident" in gone.text

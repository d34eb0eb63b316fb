"""Mutes of services and of hosts: who is told, what is shown, what an unmute leaves."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.clients.store_watches import Watches
from bot.core.command import Outcome
from bot.core.events import HostName, ServiceName, UserId
from bot.incident_desk import Desk
from bot.incident_mutes import Mutes
from config.services import MemberSection
from tests.support.waiting import until
from tests.support.watch_duty import Orders, serving, watch
from tests.support.watchmen import HOST, SERVICE, watchmen

if TYPE_CHECKING:
    from bot.ground import Ground
    from tests.support.watchmen import Watchmen

ALICE, FAR, OTHER = UserId("U0ALICE"), HostName("llm-three"), ServiceName("other")
HOUR = timedelta(hours=1)


def spread(ground: Ground) -> Ground:
    """Another service begins elsewhere and has a further member on the same host."""
    section, configuration = ground.section(SERVICE), ground.configuration
    units = tuple(MemberSection(host=host, unit="other.service") for host in (FAR, HOST))
    services = {SERVICE: section, OTHER: section.model_copy(update={"members": units})}
    hosts = {**configuration.hosts, FAR: configuration.hosts[HOST]}
    return replace(
        ground, configuration=configuration.model_copy(update={"services": services, "hosts": hosts})
    )


async def said(room: Watchmen, host: HostName) -> list[tuple[str, str]]:
    return [(word.kind, word.service) for word in await Watches(room.ground.store.link).words(host)]


async def test_a_host_is_muted_with_all_that_has_a_member_there(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        poked: list[str] = []
        mutes = Mutes(spread(room.ground), poked.append)
        await mutes.mute_host(HOST, HOUR, by=ALICE, reason="disk swap", token="t1")
        told, outcome = await mutes.mute_host(HOST, HOUR, by=ALICE, reason="disk swap", token="t1")
        assert outcome is Outcome.DONE
        assert "The host `llm-two` is muted until" in told.text
        assert f"`{SERVICE}` and `{OTHER}`" in told.text
        assert await said(room, HOST) == [("Muted", ""), ("Muted", SERVICE)]
        assert await said(room, FAR) == [("Muted", OTHER)]
        assert set(poked) == {HOST, FAR}
        told, outcome = await mutes.unmute_host(HOST, by=ALICE, token="t2")
        assert outcome is Outcome.DONE
        assert "no longer muted" in told.text
        assert await said(room, FAR) == [("Muted", OTHER), ("Unmuted", OTHER)]


async def test_a_host_on_which_nothing_is_watched_has_nothing_to_mute(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        _, outcome = await Mutes(room.ground).mute_host(FAR, HOUR, by=ALICE, reason="", token="t1")
        assert outcome is Outcome.DECLINED
        _, outcome = await Mutes(room.ground).unmute_host(FAR, by=ALICE, token="t2")
        assert outcome is Outcome.NOTHING


async def test_it_is_kept_by_the_watches_and_shown_as_one(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        watching = await watch(room, Orders())
        await serving(watching)
        desk = Desk(room.ground, lambda _: watching.poke())

        async def shown() -> str:
            return str((await desk.rows([SERVICE], service=None)).blocks)

        await desk.mute_host(HOST, HOUR, by=ALICE, reason="disk swap", token="t1")
        await until(lambda: watching.entries[SERVICE].watch.state.mute is not None)
        own = watching._machines.own
        assert own is not None
        await until(lambda: own.host_watch.state.mute is not None)
        while await desk.mute_of_host(HOST) is None or await desk.mute_of(SERVICE) is None:
            await until(lambda: True)
        mute = await desk.mute_of(SERVICE)
        assert mute is not None
        assert mute.host == HOST
        told = await shown()
        assert "Muted: host `llm-two` until" in told
        assert f"`{SERVICE}` until" not in told
        told_now, _ = await desk.unmute(SERVICE, by=ALICE, token="t2")
        assert "Its host `llm-two` still is." in told_now.text
        await until(lambda: watching.entries[SERVICE].watch.state.mute is None)
        await desk.mute(SERVICE, HOUR, by=ALICE, reason="own", token="t3")
        await until(lambda: watching.entries[SERVICE].watch.state.mute is not None)
        while await desk.mute_of(SERVICE) is None:
            await until(lambda: True)
        told_now, outcome = await desk.unmute_host(HOST, by=ALICE, token="t4")
        assert outcome is Outcome.DONE
        assert f"By its own name `{SERVICE}` still is." in told_now.text
        await until(lambda: own.host_watch.state.mute is None)
        while await desk.mute_of_host(HOST) is not None:
            await until(lambda: True)
        assert f"`{SERVICE}` until" in await shown()
        await watching.close()


async def test_a_shorter_one_of_its_own_stands_beside_its_hosts(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        watching = await watch(room, Orders())
        await serving(watching)
        desk = Desk(room.ground, lambda _: watching.poke())
        await desk.mute_host(HOST, HOUR, by=ALICE, reason="disk swap", token="t1")
        while await desk.mute_of(SERVICE) is None:
            await until(lambda: True)
        told = await desk.mute(SERVICE, HOUR / 2, by=ALICE, reason="new model", token="t2")
        assert f"With its host `{HOST}` it is until" in told.text
        await until(lambda: len(watching.entries[SERVICE].watch.state.beneath) == 1)
        while await desk.mute_of_host(HOST) is None or len(await desk._mutes_of(SERVICE)) == 1:
            await until(lambda: True)
        told_now, _ = await desk.unmute_host(HOST, by=ALICE, token="t3")
        assert f"By its own name `{SERVICE}` still is." in told_now.text
        await until(lambda: watching.entries[SERVICE].watch.state.beneath == [])
        mute = watching.entries[SERVICE].watch.state.mute
        assert mute is not None
        assert mute.reason == "new model"
        await watching.close()


async def test_a_name_that_a_service_and_a_host_have_means_the_service_and_says_so(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        named = ServiceName(HOST)
        services = {named: room.ground.section(SERVICE)}
        configuration = room.ground.configuration.model_copy(update={"services": services})
        mutes = Mutes(replace(room.ground, configuration=configuration))
        told = await mutes.mute(named, HOUR, by=ALICE, reason="", token="t1")
        assert "This is about the service; the host of the same name is left as it is." in told.text
        assert await said(room, HOST) == [("Muted", named)]
        told, _ = await mutes.unmute(named, by=ALICE, token="t2")
        assert "about the service" in told.text

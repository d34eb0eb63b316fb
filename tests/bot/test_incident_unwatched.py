"""What nobody watches any more ends by itself, and not while somebody with another configuration does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bot.clients.store_watches import Watches, lease_name
from bot.core.incident_state import Ending, Severity, incident_of
from bot.core.monitor_events import IncidentClosed
from bot.core.monitor_state import HostState, Sight
from bot.incident_ledger import STATE
from bot.incident_unwatched import Unwatched
from bot.monitor import Monitor
from bot.watch_orders import read_word
from tests.support.waiting import until
from tests.support.watch_duty import Orders
from tests.support.watchmen import HOST, SERVICE, watchmen

if TYPE_CHECKING:
    from bot.ground import Ground
    from bot.incidents import Incidents
    from config.services import Configuration
    from tests.support.watchmen import Watchmen

OFF = "its monitoring is switched off in the configuration"


def switched_off(ground: Ground) -> Configuration:
    section = ground.section(SERVICE)
    off = section.model_copy(update={"monitor": section.monitor.model_copy(update={"enabled": False})})
    return ground.configuration.model_copy(update={"services": {SERVICE: off}})


async def next_process(room: Watchmen) -> Incidents:
    ground = await room.another()
    incidents = room.incidents(replace(ground, configuration=switched_off(ground)))
    incidents.unwatched.after = 0.2
    return incidents


async def looks(incidents: Incidents, times: int = 20) -> None:
    """So many as would be enough, if nobody else watched."""
    for _ in range(times):
        await incidents.end_unwatched()
        await until(lambda: True)


async def test_it_ends_by_itself_and_says_why(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, ours = room.plan(), room.incidents()
        await ours.open(plan)
        await until(lambda: len(room.roots()) == 1)
        await ours.hand_over()
        theirs = await next_process(room)
        assert await theirs.adopt() == 1
        await theirs.end_unwatched()
        assert theirs.running[plan.incident].incident.state.ending is None  # it is young yet

        async def over() -> bool:
            await theirs.end_unwatched()
            return theirs.running[plan.incident].incident.state.ending is not None

        while not await over():
            await until(lambda: True)
        await until(
            lambda: any("nobody watches it any more" in text for text in room.thread(room.roots()[0]))
        )
        await until(lambda: f"is no longer watched: {OFF}" in room.roots()[0].plain)
        told = room.thread(room.roots()[0])
        assert sum("nobody watches it" in text for text in told) == 1
        assert not any("resolved" in text for text in [*told, room.roots()[0].plain])
        assert room.ground.tallies.endings == {Ending.UNWATCHED.value: 1}
        record = await theirs.store.read(plan.incident)
        assert record is not None
        assert record.over is not None
        assert STATE.validate_json(record.state).ended_why == OFF
        words = [read_word(word) for word in await Watches(room.ground.store.link).words(HOST)]
        [word] = [each for each in words if isinstance(each, IncidentClosed)]
        assert (word.incident, word.unwatched) == (plan.incident, True)
        for _ in range(3):
            await theirs.end_unwatched()
        assert len(room.thread(room.roots()[0])) == len(told)


async def test_while_a_process_with_the_old_configuration_watches_it_stays_open(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, ours, monitor = room.plan(), room.incidents(), Monitor(room.ground, Orders().carry)
        await monitor.share_out()
        await until(lambda: monitor.watching[HOST].rounds > 0)
        await ours.open(plan)
        await ours.hand_over()
        theirs = await next_process(room)
        theirs.unwatched.after = 0.0
        assert await theirs.adopt() == 1
        await looks(theirs)
        assert theirs.running[plan.incident].incident.state.ending is None
        await monitor.hand_over()
        await Watches(room.ground.store.link).mark(HOST, [])  # whoever has the host now does not watch it
        await theirs.end_unwatched()
        await until(lambda: theirs.running[plan.incident].incident.state.ending is Ending.UNWATCHED)


async def test_a_service_that_is_watched_again_begins_its_time_anew(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        watches = Watches(room.ground.store.link)
        unwatched = Unwatched(switched_off(room.ground), watches, room.ground.store.leases, after=0.1)
        plan = room.plan()
        assert await unwatched.find([plan]) == []
        await watches.mark(HOST, [SERVICE])
        assert await unwatched.find([plan]) == []
        await watches.mark(HOST, [])
        assert await unwatched.find([plan]) == []
        found: list[object] = []
        while not found:
            found = list(await unwatched.find([plan]))
        assert found == [(plan, OFF)]


async def test_what_a_process_of_an_earlier_release_may_watch_is_not_ended(redis_url: str) -> None:
    """It has the host, and marks nothing."""
    async with watchmen(redis_url) as room:
        leases = room.ground.store.leases
        off = Unwatched(switched_off(room.ground), Watches(room.ground.store.link), leases, after=0)
        lease = await leases.claim(lease_name(HOST))
        assert lease is not None
        assert await off.find([room.plan()]) == []
        await leases.let_go(lease)
        assert await off.find([room.plan()]) != []


async def test_a_host_is_watched_for_as_long_as_one_of_its_services_is(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        watches, now = Watches(room.ground.store.link), room.ground.clock.now()
        plan = room.plan(incident=incident_of(HOST, now), subject=HOST, service=None, severity=Severity.HOST)
        leases = room.ground.store.leases
        assert await Unwatched(room.ground.configuration, watches, leases, after=0).find([plan]) == []
        off = Unwatched(switched_off(room.ground), watches, leases, after=0)
        assert await off.find([plan]) == [(plan, "no service there is watched any more")]
        await watches.mark(HOST, [SERVICE])
        assert await off.find([plan]) == []
        assert HostState().sight is Sight.SEEN

"""Incidents over processes: opened once, taken up by the next, told by whoever knows something."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from bot.clients.leases import Lease
from bot.core.events import UserId
from bot.core.incident_events import Acknowledged
from bot.errors import StoreUnavailable
from tests.support.waiting import until
from tests.support.watchmen import SERVICE, watchmen

if TYPE_CHECKING:
    from bot.core.incident_state import IncidentPlan
    from bot.incidents import Incidents
    from tests.support.watchmen import Watchmen


def texts(room: Watchmen) -> list[str]:
    return [text for root in room.roots() for text in room.thread(root)]


async def opened(room: Watchmen) -> None:
    await until(lambda: len(room.roots()) == 1)


async def refused(incidents: Incidents, plan: IncidentPlan) -> bool:
    try:
        await incidents.open(plan)
    except StoreUnavailable:
        return True
    return False


async def test_it_is_opened_once_however_often_and_by_whomever(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, ours = room.plan(), room.incidents()
        theirs = room.incidents(await room.another())
        await ours.open(plan)
        await ours.open(plan)
        await theirs.open(plan)
        await opened(room)
        assert list(ours.running) == [plan.incident]
        assert theirs.running == {}
        [record] = await theirs.store.opened()
        assert (record.service, record.severity) == (SERVICE, "down")
        assert "is *down*" in room.roots()[0].text


async def test_what_another_process_knows_is_told_in_the_thread_once(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, ours = room.plan(), room.incidents()
        theirs = room.incidents(await room.another())
        await ours.open(plan)
        await opened(room)
        for _ in range(2):
            assert await theirs.tell(plan.incident, Acknowledged(UserId("U0ALICE")), name="ack:1")
        await until(lambda: any("acknowledged" in text for text in room.thread(room.roots()[0])))
        assert sum("acknowledged" in text for text in room.thread(room.roots()[0])) == 1


async def test_what_another_process_left_half_begun_is_asked_for_again(redis_url: str) -> None:
    """It died between the lease and the record, and nobody can know yet that it is dead."""
    async with watchmen(redis_url) as room:
        plan, ours, dead = room.plan(), room.incidents(), await room.another(owner="far@away/1/2/3")
        lease = await dead.store.leases.claim(plan.incident)
        assert lease is not None
        with pytest.raises(StoreUnavailable, match="not written it yet"):
            await ours.open(plan)
        await dead.store.leases.let_go(lease)
        await ours.open(plan)
        await opened(room)


async def test_it_is_opened_though_this_very_process_just_looks_for_it(redis_url: str) -> None:
    """They are indexed before they are written: a save that Redis did not take leaves a bare name."""
    async with watchmen(redis_url) as room:
        plan, ours = room.plan(), room.incidents()
        await ours.store.index(ours._begin(plan, Lease(plan.incident, 1, None, clean=True)).ledger.record)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(ours.adopt())
            while await refused(ours, plan):
                pass
        await opened(room)


async def test_one_that_is_being_stopped_opens_nothing(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        ours = room.incidents()
        await ours.hand_over()
        with pytest.raises(StoreUnavailable, match="being stopped"):  # so that whoever ordered it asks again
            await ours.open(room.plan())
        assert await ours.store.opened() == []

"""Incidents over processes: opened once, taken up by the next, told by whoever knows something."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.core.events import UserId
from bot.core.incident_events import Acknowledged, Recovered
from bot.errors import StoreUnavailable
from tests.support.waiting import until
from tests.support.watchmen import SERVICE, watchmen

if TYPE_CHECKING:
    from tests.support.watchmen import Watchmen


async def opened(room: Watchmen) -> None:
    await until(lambda: len(room.roots()) == 1)


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


async def test_the_next_process_goes_on_where_one_left(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, ours = room.plan(), room.incidents()
        theirs = room.incidents(await room.another())
        await ours.open(plan)
        await opened(room)
        assert await theirs.adopt() == 0
        await ours.hand_over()
        assert await theirs.adopt() == 1
        await theirs.tell(plan.incident, Recovered(room.ground.clock.now()), name="over")
        await until(lambda: any("resolved" in text for text in room.thread(room.roots()[0])))
        told = room.thread(room.roots()[0])
        assert sum("resolved" in text for text in told) == 1
        assert len(room.roots()) == 1
        record = await theirs.store.read(plan.incident)
        assert record is not None
        assert record.over is not None


async def test_one_that_is_being_stopped_opens_nothing(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        ours = room.incidents()
        await ours.hand_over()
        with pytest.raises(StoreUnavailable, match="being stopped"):  # so that whoever ordered it asks again
            await ours.open(room.plan())
        assert await ours.store.opened() == []

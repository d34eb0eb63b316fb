"""Incidents that Redis has lost and Slack still shows: the same thread goes on, once, whoever takes it up."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from bot.clients.store_watches import Watches
from bot.core.events import UserId
from bot.core.incident_events import Acknowledged, Recovered
from bot.core.incident_state import IncidentId
from bot.core.monitor_events import IncidentFound
from bot.errors import StoreUnavailable
from bot.incident_found import Remains
from bot.incident_ledger import STATE
from bot.watch_orders import read_word
from tests.support.waiting import until
from tests.support.watchmen import HOST, SERVICE, watchmen

if TYPE_CHECKING:
    from bot.clients.leases import Lease
    from bot.clients.slack_history import FoundRoot
    from bot.ground import Ground
    from bot.incidents import Incidents
    from tests.support.watchmen import Watchmen

GAP = "Redis came back empty"


async def lose(room: Watchmen, ours: Incidents) -> Ground:
    """The process ends, Redis is emptied, and the next process begins."""
    await ours.hand_over()
    await room.ground.outbox.drain(60)
    await room.ground.store.leases.close()
    await room.ground.store.link.ask(room.ground.store.link.redis.flushall())
    return await room.another()


async def test_the_next_process_goes_on_in_the_same_thread(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, ours = room.plan("process died by SIGSEGV & more"), room.incidents()
        await ours.open(plan)
        await until(lambda: len(room.roots()) == 1)
        await ours.tell(plan.incident, Acknowledged(UserId("U0ALICE")), name="ack")
        await until(lambda: any("acknowledged" in text for text in room.thread(room.roots()[0])))
        await until(lambda: "> is on it" in room.roots()[0].plain)
        ground = await lose(room, ours)
        theirs = room.incidents(ground)
        assert await theirs.take_up_lost() == 1
        assert await theirs.take_up_lost() == 0
        room.ground.outbox.wake()
        await until(lambda: any(GAP in text for text in room.thread(room.roots()[0])))
        [record] = await theirs.store.opened()
        assert (record.incident, record.service) == (plan.incident, SERVICE)
        assert STATE.validate_json(record.state).acked_by == "U0ALICE"
        [word] = await Watches(ground.store.link).words(HOST)
        assert read_word(word) == IncidentFound(plan.incident, plan.severity)
        assert await theirs.tell(plan.incident, Recovered(room.ground.clock.now()), name="over")
        await until(lambda: any("resolved" in text for text in room.thread(room.roots()[0])))
        await until(lambda: "First sign: process died by SIGSEGV &amp; more" in room.roots()[0].plain)
        assert sum(GAP in text for text in room.thread(room.roots()[0])) == 1
        assert len(room.roots()) == 1


async def test_until_slack_was_asked_nothing_that_is_told_gets_lost(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, ours = room.plan(), room.incidents()
        await ours.open(plan)
        await until(lambda: len(room.roots()) == 1)
        theirs = room.incidents(await lose(room, ours))
        with pytest.raises(StoreUnavailable, match="not written down again yet"):
            await theirs.tell(plan.incident, Recovered(room.ground.clock.now()), name="over")
        await theirs.take_up_lost()
        assert await theirs.tell(plan.incident, Recovered(room.ground.clock.now()), name="over")


async def test_one_that_nobody_can_make_sense_of_holds_up_no_other(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watchmen(redis_url) as room:
        bad, ours = room.plan(), room.incidents()
        good = replace(bad, incident=IncidentId("f" * 32))
        for plan in (bad, good):
            await ours.open(plan)
        await until(lambda: len(room.roots()) == 2)
        theirs = room.incidents(await lose(room, ours))
        sound = Remains.write_anew

        async def break_down(self: Remains, root: FoundRoot, lease: Lease) -> None:
            if root.operation == bad.incident:
                raise ZeroDivisionError
            await sound(self, root, lease)

        monkeypatch.setattr(Remains, "write_anew", break_down)
        with capture_logs() as logs:
            assert await theirs.take_up_lost() == 1
        assert [each["incident"] for each in logs if each["event"] == "incident_put_off"] == [bad.incident]
        assert await theirs.store.is_rebuilt()
        assert list(theirs.running) == [good.incident]


async def test_of_two_processes_one_takes_it_up(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, ours = room.plan(), room.incidents()
        await ours.open(plan)
        await until(lambda: len(room.roots()) == 1)
        ground = await lose(room, ours)
        both = [room.incidents(ground), room.incidents(await room.another())]
        assert sorted(await asyncio.gather(*(each.take_up_lost() for each in both))) == [0, 1]
        room.ground.outbox.wake()
        await until(lambda: any(GAP in text for text in room.thread(room.roots()[0])))
        assert sum(GAP in text for text in room.thread(room.roots()[0])) == 1


async def test_one_whose_end_stands_in_the_thread_is_only_shown_as_over(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, ours = room.plan(), room.incidents()
        await ours.open(plan)
        await until(lambda: len(room.roots()) == 1)
        root = room.roots()[0]
        shown = dict(root.metadata or {})
        await ours.tell(plan.incident, Recovered(room.ground.clock.now()), name="over")
        await until(lambda: any("resolved" in text for text in room.thread(root)))
        await until(lambda: "was down for" in room.roots()[0].text)
        ground = await lose(room, ours)
        room.roots()[0].metadata = shown  # as if the edit had not come through
        theirs = room.incidents(ground)
        assert await theirs.take_up_lost() == 1
        assert await Watches(ground.store.link).words(HOST) == []
        assert not any(GAP in text for text in room.thread(room.roots()[0]))


async def test_a_living_process_writes_its_own_down_again(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, ours = room.plan(), room.incidents()
        await ours.open(plan)
        await until(lambda: len(room.roots()) == 1)
        await until(lambda: ours.running[plan.incident].ledger.address is not None)
        await room.ground.store.link.ask(room.ground.store.link.redis.flushall())
        await room.ground.store.leases.renew()  # which finds out
        await until(lambda: not ours.running[plan.incident].ledger._unsaved)
        assert [each.incident for each in await ours.store.opened()] == [plan.incident]
        await room.ground.store.renew_epoch()
        assert await ours.take_up_lost() == 0
        assert await ours.store.is_rebuilt()
        assert not any(GAP in text for text in room.thread(room.roots()[0]))

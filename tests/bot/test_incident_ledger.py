"""What is told is on record; a Redis that came back empty gets all of it, though it falters amid that."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from bot.clients.store_incidents import IncidentStore
from bot.core.events import UserId
from bot.core.incident_events import Acknowledged
from bot.errors import StoreUnavailable
from bot.practice.slack_faults import FaultPlan
from tests.support.waiting import until
from tests.support.watchmen import watchmen

POST = "chat.postMessage"

if TYPE_CHECKING:
    import pytest

    from tests.support.watchmen import Watchmen


async def empty(room: Watchmen) -> None:
    await room.ground.store.link.ask(room.ground.store.link.redis.flushall())
    await room.ground.store.leases.renew()


async def test_one_that_falters_amid_being_filled_anew_gets_all_of_it(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watchmen(redis_url) as room:
        room.slack.faults.add(POST, FaultPlan.status(500), times=None)
        plan, ours = room.plan(), room.incidents()
        await ours.open(plan)
        await ours.tell(plan.incident, Acknowledged(UserId("U0ALICE")), name="ack")
        ledger = ours.running[plan.incident].ledger
        await until(lambda: len(ledger.sent._queued) > 1)
        sound, failures = IncidentStore.place, [StoreUnavailable("gone for a moment")]

        async def place(*words: Any) -> None:
            if failures:
                raise failures.pop()
            await sound(*words)

        monkeypatch.setattr(IncidentStore, "place", place)
        await empty(room)
        await until(lambda: not ledger._unsaved)
        assert await ours.store.open_names() == [plan.incident]
        room.slack.faults.clear()
        await until(lambda: len(room.roots()) == 1)
        await until(lambda: any("acknowledged" in text for text in room.thread(room.roots()[0])))


async def test_while_redis_is_away_nothing_is_told_and_then_all_of_it(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watchmen(redis_url) as room:
        plan, ours = room.plan(), room.incidents()
        await ours.open(plan)
        await until(lambda: len(room.roots()) == 1)
        sound, tried = IncidentStore.save, asyncio.Event()

        async def refuse(*_: Any, **__: Any) -> None:
            tried.set()
            raise StoreUnavailable("away")

        monkeypatch.setattr(IncidentStore, "save", refuse)
        await ours.tell(plan.incident, Acknowledged(UserId("U0ALICE")), name="ack")
        await tried.wait()
        before = ours.running[plan.incident].ledger.record
        assert not any("acknowledged" in text for text in room.thread(room.roots()[0]))
        monkeypatch.setattr(IncidentStore, "save", sound)
        await until(lambda: any("acknowledged" in text for text in room.thread(room.roots()[0])))
        assert ours.running[plan.incident].ledger.record != before

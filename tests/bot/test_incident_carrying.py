"""Incidents over processes: taken up by the next; a fault in one holds up no other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from structlog.testing import capture_logs

from bot.core.events import Ticked, UserId
from bot.core.incident import Incident
from bot.core.incident_events import Acknowledged, Recovered
from bot.core.incident_state import IncidentId
from tests.support.waiting import until
from tests.support.watchmen import watchmen

if TYPE_CHECKING:
    from datetime import datetime

    import pytest

    from bot.core.incident_events import IncidentEvent
    from tests.support.watchmen import Watchmen


def texts(room: Watchmen) -> list[str]:
    return [text for root in room.roots() for text in room.thread(root)]


async def opened(room: Watchmen) -> None:
    await until(lambda: len(room.roots()) == 1)


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


async def test_a_fault_of_ours_is_put_off_and_holds_up_no_other(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watchmen(redis_url) as room:
        bad, good, ours = room.plan(), replace(room.plan(), incident=IncidentId("f" * 32)), room.incidents()
        sound = Incident.handle

        def break_down(self: Incident, event: IncidentEvent, now: datetime) -> Any:
            if self.plan.incident == bad.incident and isinstance(event, Ticked):
                raise ZeroDivisionError
            return sound(self, event, now)

        monkeypatch.setattr(Incident, "handle", break_down)
        for plan in (bad, good):
            await ours.open(plan)
        with capture_logs() as logs:
            await ours.tell(good.incident, Acknowledged(UserId("U0ALICE")), name="ack")
            await until(lambda: list(ours.running) == [good.incident])
            assert [await ours.adopt() for _ in range(5)] == [0] * 5
            await until(lambda: any("acknowledged" in text for text in texts(room)))
        assert [each["incident"] for each in logs if each["event"] == "incident_put_off"] == [bad.incident]
        assert room.ground.store.leases.held == 2  # still ours: another process would break as well


async def test_one_that_this_version_cannot_read_is_left_to_another(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, ours = room.plan(), room.incidents()
        await ours.open(plan)
        await opened(room)
        await ours.hand_over()
        record = await ours.store.read(plan.incident)
        assert record is not None
        old, newer = room.incidents(await room.another()), room.incidents(await room.another())
        lease = await old.ground.store.leases.claim(plan.incident)
        assert lease is not None
        await old.store.save(record.model_copy(update={"state": '{"of": "tomorrow"}'}), lease=lease)
        with capture_logs() as logs:
            assert [await old.adopt() for _ in range(3)] == [0] * 3
        assert [each["event"] for each in logs].count("incident_not_restored") == 1
        lease = await newer.ground.store.leases.claim(plan.incident)
        assert lease is not None
        await newer.store.save(record, lease=lease)
        assert await newer.adopt() == 1

"""What was queued and had not reached Slack when Redis was emptied is told all the same, and once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.core.events import UserId
from bot.core.incident_events import Acknowledged, Recovered
from bot.core.pacing import POST
from bot.incident_sent import Sent
from bot.practice.slack_faults import FaultPlan
from tests.support.outgoing import edit, reply, root
from tests.support.waiting import until
from tests.support.watchmen import watchmen

if TYPE_CHECKING:
    from bot.incidents import Incidents
    from tests.support.watchmen import Watchmen


async def empty(room: Watchmen, ours: Incidents) -> None:
    """And this process notices."""
    await room.ground.store.link.ask(room.ground.store.link.redis.flushall())
    await room.ground.store.leases.renew()
    await until(lambda: all(not each.ledger._unsaved for each in ours.running.values()))


async def test_a_root_that_never_reached_slack_is_posted_with_all_behind_it(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        room.slack.faults.add(POST, FaultPlan.status(500), times=None)
        plan, ours = room.plan(), room.incidents()
        await ours.open(plan)
        await ours.tell(plan.incident, Acknowledged(UserId("U0ALICE")), name="ack")
        await until(lambda: len(ours.running[plan.incident].ledger.sent._queued) > 1)
        await empty(room, ours)
        room.slack.faults.clear()
        await until(lambda: len(room.roots()) == 1 and len(room.thread(room.roots()[0])) > 0)
        await until(lambda: any("acknowledged" in text for text in room.thread(room.roots()[0])))
        assert len(room.roots()) == 1


async def test_what_the_process_before_had_queued_is_not_lost_with_redis_either(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        room.slack.faults.add(POST, FaultPlan.status(500), times=None)
        plan, before = room.plan(), room.incidents()
        await before.open(plan)
        await before.tell(plan.incident, Acknowledged(UserId("U0ALICE")), name="ack")
        await until(lambda: len(before.running[plan.incident].ledger.sent._queued) > 1)
        await before.hand_over()
        ours = room.incidents()
        assert await ours.adopt() == 1
        await empty(room, ours)
        room.slack.faults.clear()
        await until(lambda: len(room.roots()) == 1)
        await until(lambda: any("acknowledged" in text for text in room.thread(room.roots()[0])))


async def test_a_reply_that_waited_is_told_and_none_twice(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, ours = room.plan(), room.incidents()
        await ours.open(plan)
        await until(lambda: len(room.roots()) == 1)
        await ours.tell(plan.incident, Acknowledged(UserId("U0ALICE")), name="ack")
        await until(lambda: any("acknowledged" in text for text in room.thread(room.roots()[0])))
        running = ours.running[plan.incident]
        await until(lambda: running.ledger.address is not None)
        assert await room.ground.outbox.drain(60)
        room.slack.faults.add(POST, FaultPlan.status(500), times=None)
        queued = len(running.ledger.sent._queued)
        running._hear(Recovered(room.ground.clock.now()))
        await until(lambda: len(running.ledger.sent._queued) > queued)
        await empty(room, ours)
        room.slack.faults.clear()
        await until(lambda: any("resolved" in text for text in room.thread(room.roots()[0])))
        await until(lambda: len(room.slack.files) == 1)
        assert await room.ground.outbox.drain(60)
        told = room.thread(room.roots()[0])
        assert len(room.roots()) == 1
        assert sum("acknowledged" in text for text in told) == 1
        assert sum("resolved" in text for text in told) == 1
        assert len(room.slack.files) == 1


async def test_only_so_many_are_remembered_and_the_root_always(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        sent = Sent(room.ground, None, "op1")
        sent.note([root(), edit("now")], {})
        for number in range(500):
            sent.note([reply(number)], {})
        assert next(iter(sent._queued)) == root().id
        assert list(sent._queued)[-1] == reply(499).id
        assert len(sent._queued) <= 201

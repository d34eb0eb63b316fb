"""Each word reaches the listener in order, at least once, whoever dies; nobody waits for one that hangs."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

import bot.deliveries as deliveries_module
from bot.clients.store_incidents import Delivery
from bot.clients.webhook import Answered
from bot.core.events import UserId
from bot.core.incident_events import Acknowledged, Recovered
from bot.core.incident_state import LINGER
from bot.deliveries import GIVE_UP, Deliveries, owed_of, within_bounds
from tests.support.incidents import Case
from tests.support.waiting import until
from tests.support.watchmen import watchmen

if TYPE_CHECKING:
    from bot.incidents import Incidents
    from tests.support.watchmen import Watchmen

NOW = datetime.now(UTC)
GOOD, BUSY, NEVER = Answered("delivered"), Answered("failed", "HTTP 503"), Answered("refused", "HTTP 400")


def word(number: int, event: str = "updated", **changes: object) -> Delivery:
    made = Delivery(id=f"i-{number}", event=event, body="{}", ordered=NOW)
    return made.model_copy(update=changes)


@dataclass
class Listener:
    """What it answers, in turn, the last for ever; None: it hangs."""

    answers: list[Answered | None] = field(default_factory=lambda: [GOOD])
    heard: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    called: int = 0

    async def send(self, delivery: Delivery) -> Answered:
        self.called += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            await asyncio.Event().wait()
        assert answer is not None
        if answer is GOOD:
            self.heard.append(delivery.id)
            self.events.append(delivery.event)
        return answer


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries_module, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(deliveries_module, "_OURS_EVERY", 0.02)


async def deliver(listener: Listener, *owed: Delivery) -> Counter[str]:
    """Until all is done with."""
    counts: Counter[str] = Counter()
    done = asyncio.Event()
    made = Deliveries(listener.send, counts, done.set)
    made.take(owed)
    running = asyncio.create_task(made.run())
    await until(lambda: made.done == {each.id for each in owed})
    running.cancel()
    return counts


async def test_in_order_and_again_until_it_is_taken() -> None:
    listener = Listener([BUSY, BUSY, GOOD])
    counts = await deliver(listener, word(1), word(2))
    assert listener.heard == ["i-1", "i-2"]
    assert counts == {"failed": 2, "delivered": 2}


async def test_what_is_refused_holds_up_nothing_behind_it() -> None:
    listener = Listener([NEVER, GOOD])
    with capture_logs() as logs:
        counts = await deliver(listener, word(1), word(2))
    assert listener.heard == ["i-2"]
    assert counts == {"refused": 1, "delivered": 1}
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["webhook_not_delivered"]


async def test_a_process_that_slept_tells_no_old_news() -> None:
    """Its lease is over: another one may have told more since."""
    listener, ours = Listener(), False
    made = Deliveries(listener.send, Counter(), asyncio.Event().set, is_ours=lambda: ours)
    made.take([word(1)])
    running = asyncio.create_task(made.run())
    await asyncio.sleep(0.1)
    assert listener.called == 0
    ours = True
    await until(lambda: listener.heard == ["i-1"])
    running.cancel()


async def test_in_the_end_it_is_given_up() -> None:
    old = word(1, ordered=NOW - GIVE_UP - timedelta(seconds=1))
    counts = await deliver(Listener([BUSY]), old)
    assert counts == {"failed": 1, "given_up": 1}


def test_a_word_has_the_id_that_stands_in_it() -> None:
    case = Case()
    [opened] = owed_of(case.actions)
    assert (opened.id, opened.event) == (case.webhooks()[0]["id"], "opened")
    assert opened.id in opened.body


def test_of_very_many_the_beginning_the_end_and_the_newest_are_kept() -> None:
    owed = [word(0, "opened"), *(word(number) for number in range(1, 9)), word(9, "resolved")]
    assert [each.id for each in within_bounds(owed, most=4)] == ["i-0", "i-7", "i-8", "i-9"]
    assert within_bounds(owed) == tuple(owed)


async def begin(room: Watchmen, listener: Listener) -> Incidents:
    incidents = room.incidents()
    incidents.webhook = listener  # type: ignore[assignment]
    return incidents


async def test_what_dies_with_a_process_before_it_was_sent_the_next_one_sends(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, hanging = room.plan(), Listener([None])
        ours = await begin(room, hanging)
        await ours.open(plan)
        await until(lambda: hanging.called == 1 and len(room.roots()) == 1)
        await ours.tell(plan.incident, Acknowledged(UserId("U0ALICE")), name="ack")
        await until(lambda: any("acknowledged" in text for text in room.thread(room.roots()[0])))
        assert hanging.called == 1  # and all else went on
        for task in tuple(ours._carriers):  # as if it were killed: nothing is handed over
            task.cancel()
        await room.ground.store.leases.close()
        theirs, listener = room.incidents(await room.another()), Listener()
        theirs.webhook = listener  # type: ignore[assignment]
        assert await theirs.adopt() == 1
        await until(lambda: not theirs.running[plan.incident].ledger.record.owed)
        assert listener.events[:2] == ["opened", "updated"]
        assert len(set(listener.heard)) == len(listener.heard)


async def test_what_was_taken_leaves_the_record(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan, listener = room.plan(), Listener()
        ours = await begin(room, listener)
        await ours.open(plan)
        await until(lambda: listener.events == ["opened"])
        await until(lambda: ours.running[plan.incident].ledger.record.owed == ())
        await until(lambda: len(room.roots()) == 1)
        while (record := await ours.store.read(plan.incident)) is None or record.owed:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert room.ground.tallies.webhooks == {"delivered": 1}


async def test_it_is_not_closed_before_all_was_told(redis_url: str) -> None:
    async with watchmen(redis_url, speed=20 * LINGER.total_seconds()) as room:
        plan, listener = room.plan(), Listener([None])
        ours = await begin(room, listener)
        await ours.open(plan)
        running = ours.running[plan.incident]
        await ours.tell(plan.incident, Recovered(room.ground.clock.now()), name="over")
        await until(lambda: running.incident.is_closed)
        assert running.ledger.record.closed is None
        for task in tuple(ours._carriers):
            task.cancel()
        await room.ground.store.leases.close()
        theirs, taking = room.incidents(await room.another()), Listener()
        theirs.webhook = taking  # type: ignore[assignment]
        assert await theirs.adopt() == 1
        await until(lambda: not theirs.running)
        assert taking.events == ["opened", "resolved"]
        record = await theirs.store.read(plan.incident)
        assert record is not None
        assert record.closed is not None
        assert await theirs.store.opened() == []

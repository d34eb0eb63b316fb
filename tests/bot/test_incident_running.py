"""One incident under way: the log is read, its end is told with a file, other tools hear, Redis may go."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from structlog.testing import capture_logs

from bot.clients.store_watches import Watches
from bot.clients.webhook import Answered
from bot.core.events import UserId
from bot.core.incident import Incident
from bot.core.incident_events import Acknowledged, Recovered, ResolvedByHand
from bot.core.incident_state import LINGER
from bot.core.monitor_events import IncidentFound
from bot.watch_orders import read_word
from tests.support.waiting import until
from tests.support.watchmen import HOST, watchmen

if TYPE_CHECKING:
    from datetime import datetime

    import pytest

    from bot.clients.store_incidents import Delivery
    from bot.core.incident_events import IncidentEvent
    from bot.incident_running import IncidentRunning
    from tests.support.watchmen import Watchmen

ALICE = UserId("U0ALICE")


class Listener:
    """Stands where the webhook does."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []

    async def send(self, delivery: Delivery) -> Answered:
        self.heard.append(json.loads(delivery.body))
        return Answered("delivered")


async def begin(room: Watchmen, listener: Listener | None = None) -> IncidentRunning:
    incidents = room.incidents()
    incidents.webhook = listener  # type: ignore[assignment]
    plan = room.plan()
    await incidents.open(plan)
    await until(lambda: len(room.roots()) == 1)
    return incidents.running[plan.incident]


async def test_the_log_of_the_run_that_broke_tells_the_cause(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        process = room.far.unit.process
        assert process is not None
        process.write(
            b"[2026-05-29 03:12:40 TP3] Scheduler hit an exception: Traceback (most recent call last):\n"
            b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total\n",
            pid=process.pid,
            comm="python",
        )
        await begin(room)
        await until(lambda: any("Out of GPU memory" in text for text in room.thread(room.roots()[0])))
        await until(lambda: "Out of GPU memory" in room.roots()[0].plain)


async def test_its_end_comes_with_a_file_and_other_tools_hear_of_all_of_it(redis_url: str) -> None:
    listener = Listener()
    async with watchmen(redis_url) as room:
        running = await begin(room, listener)
        running._hear(Recovered(room.ground.clock.now()))
        await until(lambda: len(room.slack.files) == 1)
        await until(lambda: "was down for" in room.roots()[0].text)
        [file] = room.slack.files.values()
        assert file.name.endswith(".md")
        await until(lambda: listener.heard[-1]["event"] == "resolved")
        assert [each["event"] for each in listener.heard][:1] == ["opened"]
        assert listener.heard[-1]["event"] == "resolved"
        assert len({each["id"] for each in listener.heard}) == len(listener.heard)


async def test_after_its_time_it_is_closed_for_good(redis_url: str) -> None:
    async with watchmen(redis_url, speed=20 * LINGER.total_seconds()) as room:
        running = await begin(room)
        running._hear(Recovered(room.ground.clock.now()))
        await until(lambda: running.incident.is_closed)
        await until(lambda: running.ledger.record.closed is not None)
        assert await running.ledger.store.opened() == []


async def test_a_fact_that_breaks_it_is_left_out_and_the_thread_goes_on(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watchmen(redis_url) as room:
        running = await begin(room)
        sound, name = Incident.handle, running.plan.incident

        def break_down(self: Incident, event: IncidentEvent, now: datetime) -> Any:
            if isinstance(event, Acknowledged):
                raise ZeroDivisionError
            return sound(self, event, now)

        monkeypatch.setattr(Incident, "handle", break_down)
        incidents = room.incidents()
        with capture_logs() as logs:
            await incidents.tell(name, Acknowledged(ALICE), name="ack")
            await incidents.tell(name, Recovered(room.ground.clock.now()), name="over")
            await until(lambda: any("resolved" in text for text in room.thread(room.roots()[0])))
        assert [each["kind"] for each in logs if each["event"] == "fact_broke"] == ["Acknowledged"]
        assert await running.ledger.store.facts(name) == []


async def test_a_person_closes_it_and_its_watch_is_told(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        running = await begin(room)
        running._hear(ResolvedByHand(ALICE))
        await until(lambda: any("by hand" in text for text in room.thread(room.roots()[0])))
        watches = Watches(room.ground.store.link)
        while not (words := await watches.words(HOST)):  # noqa: ASYNC110 - Redis alone knows
            await asyncio.sleep(0.05)
        [word] = words
        event = read_word(word)
        assert getattr(event, "incident", None) == running.plan.incident


async def test_who_died_before_the_watch_was_told_leaves_that_to_the_next(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watchmen(redis_url) as room:
        running = await begin(room)
        word_of = Watches.say
        monkeypatch.setattr(Watches, "say", hang)
        running._hear(ResolvedByHand(ALICE))
        await until(lambda: any("by hand" in text for text in room.thread(room.roots()[0])))
        assert running._task is not None
        running._task.cancel()  # as if it were killed
        await room.ground.store.leases.close()
        monkeypatch.setattr(Watches, "say", word_of)
        theirs = room.incidents(await room.another())
        watches = Watches(room.ground.store.link)
        for _ in range(2):  # it is told once, however often it is taken up
            assert await theirs.adopt() == 1
            while not (words := await watches.words(HOST)):  # noqa: ASYNC110 - Redis alone knows
                await asyncio.sleep(0.05)
            assert [getattr(read_word(word), "incident", None) for word in words] == [running.plan.incident]
            await theirs.hand_over()
            theirs = room.incidents(await room.another())


async def hang(*_: Any) -> None:
    await asyncio.Event().wait()


async def test_a_redis_that_came_back_empty_costs_neither_the_thread_nor_a_word(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        running = await begin(room)
        await until(lambda: running.ledger.address is not None)
        await room.ground.store.link.ask(room.ground.store.link.redis.flushall())
        running._hear(Recovered(room.ground.clock.now()))
        await until(lambda: any("resolved" in text for text in room.thread(room.roots()[0])))
        assert len(room.roots()) == 1


async def test_a_watch_that_began_anew_with_an_empty_redis_hears_of_it(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        running = await begin(room)
        await until(lambda: running.ledger.address is not None)
        await room.ground.store.link.ask(room.ground.store.link.redis.flushall())
        watches = Watches(room.ground.store.link)
        while not (words := await watches.words(HOST)):  # noqa: ASYNC110 - Redis alone knows
            await asyncio.sleep(0.05)
        assert [read_word(word) for word in words] == [
            IncidentFound(running.plan.incident, running.plan.severity)
        ]
        running._hear(Recovered(room.ground.clock.now()))
        await until(lambda: any("resolved" in text for text in room.thread(room.roots()[0])))

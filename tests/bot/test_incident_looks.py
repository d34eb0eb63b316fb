"""What an incident asks for beside facts: the threads of starts, once Slack has them, whoever began them."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import bot.incident_looks as looks_module
from bot.clients.records import Address, Holder
from bot.clients.store_incidents import Fact
from bot.core.events import ChannelId, MessageTs, OperationId, Ticked, UserId, Verb
from bot.core.incident_events import ServiceStart, StartFollowed, StartsSeen
from bot.core.incident_state import IncidentState, Severity, StartNote
from bot.incident_looks import Looks
from bot.watch_orders import pack_fact
from tests.support.outgoing import operation
from tests.support.waiting import until
from tests.support.watchmen import HOST, SERVICE, watchmen

if TYPE_CHECKING:
    import pytest

    from bot.core.incident_events import IncidentEvent
    from tests.support.watchmen import Watchmen

OPERATION, LINK = OperationId("op1"), "https://practice.slack.test/archives/C1/p1"


STATE, STARTED = IncidentState(Severity.HOST, affected=(SERVICE,)), datetime(2026, 5, 29, 3, tzinfo=UTC)
OF_HOST: dict[str, Any] = {
    "service": None,
    "subject": HOST,
    "severity": Severity.HOST,
    "members": (),
    "affected": (SERVICE,),
}


def looks(room: Watchmen, **changes: Any) -> Looks:
    heard: list[IncidentEvent] = []
    return Looks(room.ground, room.plan(**changes), heard.append)


async def stand(room: Watchmen, link: str | None = LINK) -> None:
    """Its root is in Slack."""
    store, at = room.ground.store, Address(channel=ChannelId("C1"), ts=MessageTs("1.2"), permalink=link)
    await store.save(operation(by=UserId("U0ALICE")), [])
    lease = await store.leases.claim(OPERATION)
    assert lease is not None
    await store.rebuild(operation(by=UserId("U0ALICE")), lease=lease, address=at, known=(), holder=None)


async def hold(room: Watchmen, verb: Verb, *, after: timedelta = timedelta(seconds=1)) -> None:
    since = room.ground.clock.now() + after
    assert (
        await room.ground.store.take(Holder(operation=OPERATION, service=SERVICE, verb=verb, since=since))
        is None
    )


async def test_a_start_is_told_with_its_link_and_with_who_asked(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        look, event = looks(room), StartFollowed(OPERATION, Verb.RESTART)
        assert await look.link_start(event) is None  # worth waiting for
        await stand(room)
        assert await look.link_start(event) == StartFollowed(
            OPERATION, Verb.RESTART, by=UserId("U0ALICE"), link=LINK
        )
        told = StartFollowed(OPERATION, Verb.WATCH, link="https://x")
        assert await look.link_start(told) is told


async def test_a_link_that_never_comes_holds_up_nothing_for_long(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks_module, "_LINK_WITHIN", 0.05)
    async with watchmen(redis_url) as room:
        look, event = looks(room), StartFollowed(OPERATION, Verb.WATCH, by=UserId("U1"))
        assert await look.link_start(event) is None
        since = time.monotonic()
        await until(lambda: time.monotonic() - since > 0.05)
        assert await look.link_start(event) == event


async def test_facts_keep_their_order_behind_a_start_that_waits_for_its_link(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        look = looks(room)
        start = pack_fact(StartFollowed(OPERATION, Verb.WATCH, by=UserId("U1")), name="start")
        facts = [pack_fact(Ticked(), name="one"), start, pack_fact(Ticked(), name="two")]
        assert await look.read(facts) == ([Ticked()], ["one"])
        await stand(room)
        events, heard = await look.read([*facts, Fact(id="three", kind="Dance", body="{}")])
        assert heard == ["one", "start", "two", "three"]
        assert [type(event).__name__ for event in events] == ["Ticked", "StartFollowed", "Ticked"]


async def test_of_a_host_the_starts_since_it_went_are_seen_once_they_have_a_thread(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        look = looks(
            room, service=None, subject=HOST, severity=Severity.HOST, members=(), affected=(SERVICE,)
        )
        assert await look.starts(STATE) == []
        await hold(room, Verb.WATCH)
        assert await look.starts(STATE) == []
        await stand(room)
        assert await look.starts(STATE) == [StartsSeen((ServiceStart(SERVICE, OPERATION, LINK),))]
        assert await look.starts(replace(STATE, starts=[StartNote(OPERATION, STARTED)])) == []
        assert await looks(room).starts(STATE) == []  # of a service its watch tells


async def test_neither_a_stop_nor_what_began_before_is_starting_again(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        look = looks(
            room, service=None, subject=HOST, severity=Severity.HOST, members=(), affected=(SERVICE,)
        )
        await stand(room)
        await hold(room, Verb.STOP)
        assert await look.starts(STATE) == []
        await room.ground.store.release(SERVICE, OPERATION)
        await hold(room, Verb.WATCH, after=-timedelta(hours=1))
        assert await look.starts(STATE) == []


async def test_the_thread_of_a_host_links_what_starts_on_it_again_once(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        incidents, plan = room.incidents(), room.plan(**OF_HOST)
        await incidents.open(plan)
        await until(lambda: len(room.roots()) == 1)
        await hold(room, Verb.WATCH)
        await stand(room)
        running = incidents.running[plan.incident]
        await until(lambda: any("Starting again" in text for text in room.thread(room.roots()[0])))
        for _ in range(3):
            await running._turn(ticked=True)
        assert await room.ground.outbox.drain(60)
        assert sum("Starting again" in text for text in room.thread(room.roots()[0])) == 1
        assert any(f"<{LINK}|its thread>" in text for text in room.thread(room.roots()[0]))

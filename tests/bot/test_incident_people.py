"""Who did what: of the services that an incident is about, in its time; names where Slack tells them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.clients.directory import People as Names
from bot.clients.records import AuditEntry
from bot.core.events import HostName, ServiceName, UserId
from bot.core.incident import fresh_state
from bot.core.incident_export import render_export
from bot.core.incident_state import Severity
from bot.errors import StoreUnavailable
from bot.incident_people import read_people
from bot.practice.workspace import ALICE
from tests.support.slack_app import web_client
from tests.support.watchmen import HOST, SERVICE, watchmen

if TYPE_CHECKING:
    from datetime import datetime

    import pytest

    from tests.support.watchmen import Watchmen


async def note(room: Watchmen, at: datetime, verb: str, *, service: str = SERVICE) -> None:
    entry = AuditEntry(at=at, user=UserId(ALICE), verb=verb, service=ServiceName(service), outcome="started")
    await room.ground.store.audit(entry)


async def test_what_concerns_it_is_told_with_names(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan = room.plan()
        for hours, verb in ((-2, "stop"), (-0.5, "restart"), (0.1, "ack"), (9, "start")):
            await note(room, plan.began + timedelta(hours=hours), verb)
        await note(room, plan.began, "restart", service="another")
        state, now = fresh_state(plan), plan.began + timedelta(hours=1)
        ground = replace(room.ground, people=Names(web_client(room.slack)))
        people = await read_people(ground, plan, state, now)
        assert people.deeds is not None
        assert [deed.verb for deed in people.deeds] == ["ack", "restart"]
        assert people.names == {ALICE: "alice"}
        assert "**alice**: restart → started" in render_export(plan, state, now, people)


async def test_of_a_host_all_that_was_on_it_counts(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        others = (SERVICE, ServiceName("another"))
        plan = room.plan(service=None, subject=HOST, severity=Severity.HOST, members=(), affected=others)
        await note(room, plan.began, "restart", service="another")
        people = await read_people(room.ground, plan, fresh_state(plan), plan.began)
        assert people.deeds is not None
        assert [deed.service for deed in people.deeds] == ["another"]
        assert people.names == {}


async def test_what_was_said_of_its_whole_host_concerns_it(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        plan = room.plan()
        for host in (HOST, HostName("elsewhere")):
            entry = AuditEntry(at=plan.began, user=UserId(ALICE), verb="mute", host=host, outcome="done")
            await room.ground.store.audit(entry)
        people = await read_people(room.ground, plan, fresh_state(plan), plan.began)
        assert people.deeds is not None
        assert [deed.host for deed in people.deeds] == [HOST]
        assert "mute llm-two → done" in render_export(plan, fresh_state(plan), plan.began, people)


async def test_a_redis_that_is_away_costs_just_that(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watchmen(redis_url) as room:

        async def fail(*_: object, **__: object) -> list[AuditEntry]:
            raise StoreUnavailable("away")

        monkeypatch.setattr("bot.clients.store_audit.Audits.read", fail)
        plan = room.plan()
        assert (await read_people(room.ground, plan, fresh_state(plan), plan.began)).deeds is None

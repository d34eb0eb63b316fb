"""Parts handed down: each operation gets links of its own."""

from __future__ import annotations

import pytest

from bot.core.events import Cursor
from bot.core.journal import Position
from tests.support.carriers import MEMBER, SERVICE, UNIT, backstage, configured
from tests.support.configurations import OPS

pytestmark = pytest.mark.looptime


async def test_a_link_knows_its_unit_its_scope_and_its_host() -> None:
    async with backstage(configured(scope="user")) as stage:
        [(member, link)] = stage.ground.links(SERVICE).items()
        assert (member, link.member, link.unit, link.scope) == (MEMBER, MEMBER, UNIT, "user")
        assert link.host is stage.ground.hosts[stage.host.name]


async def test_links_are_fresh_each_time() -> None:
    async with backstage() as stage:
        stage.ground.links(SERVICE)[MEMBER].position = Position(Cursor("c"))
        again = stage.ground.links(SERVICE)[MEMBER]
    assert (again.position, again.lost, list(again.ring)) == (None, False, [])


async def test_members_keep_the_order_of_the_configuration() -> None:
    units = ["z.service", "a.service", "m.service"]
    members = [{"host": "llm-two", "unit": unit} for unit in units]
    async with backstage(configured(host=None, unit=None, members=members)) as stage:
        assert [link.unit for link in stage.ground.links(SERVICE).values()] == units


async def test_a_service_is_told_in_its_own_channel_else_in_the_common_one() -> None:
    async with backstage() as stage:
        assert stage.ground.channel(SERVICE) == OPS
        assert stage.ground.section(SERVICE).model == "kimi"
    async with backstage(configured(channel="C0LAB")) as stage:
        assert stage.ground.channel(SERVICE) == "C0LAB"

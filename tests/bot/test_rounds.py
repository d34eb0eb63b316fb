"""A round over a real SSH connection: one command for all units, an answer in bounded time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bot.core.events import Member, UnitName, UnitState
from bot.core.redact import Redactor
from bot.rounds import ask, pace_of, patience_of, see
from bot.sources import Link
from tests.support.ssh import Said, connect, hang, serve
from tests.support.watchmen import SERVICE, watchmen

if TYPE_CHECKING:
    from pathlib import Path

    from bot.clients.ssh import Host

BOOT = "0b9c2f1e-51d5-4f4e-9f64-6a3f3c0d7a11\n"
SHOWN = "LoadState=loaded\nActiveState=active\n\nLoadState=loaded\nActiveState=failed\n"


def link(host: Host, name: str) -> Link:
    return Link(Member(f"far/{name}"), UnitName(name), "system", host)


async def test_all_units_of_a_host_are_seen_with_one_command(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["systemctl"], server.answers["cat"] = Said(SHOWN), Said(BOOT)
        links = [link(host, "a.service"), link(host, "b.service")]
        await see(links, within=10)
        seen = await see(links, within=10)
        assert [command[0] for command in server.commands] == ["cat", "systemctl", "systemctl"]
        assert seen.errors == {host.name: None}
        assert set(seen.boots.values()) == {BOOT.strip().replace("-", "")}
        states = [seen.units[each.member] for each in links]
        assert [each.active for each in states if isinstance(each, UnitState)] == ["active", "failed"]


async def test_a_host_that_does_not_answer_in_time_is_not_seen(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["cat"] = hang
        seen = await see([link(host, "a.service")], within=0.3)
        assert seen.units == {Member("far/a.service"): f"{host.name}: no answer within 0.3 s"}
        assert seen.errors[host.name] is not None


async def test_why_a_host_is_not_seen_is_told_with_what_bars_the_way(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        await server.stop()
        seen = await see([link(host, "a.service")], within=10)
        assert seen.barred == {host.name: "SSH is refused (connection refused)"}
        assert "refuses connections" in (seen.errors[host.name] or "")


async def test_one_scope_that_does_not_tell_does_not_hide_the_host(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["cat"] = Said(BOOT)
        server.answers["systemctl show"] = Said("ActiveState=active\n")
        server.answers["systemctl --user"] = Said(err="Failed to connect to bus: No medium found", status=1)
        mine = replace(link(host, "b.service"), scope="user")
        for links in ([link(host, "a.service"), mine], [mine, link(host, "a.service")]):
            seen = await see(links, within=10)
            assert (seen.errors, seen.barred) == ({host.name: None}, {})
            assert isinstance(seen.units[Member("far/a.service")], UnitState)
            assert "No medium found" in str(seen.units[Member("far/b.service")])


async def test_a_host_that_keeps_its_boot_to_itself_is_seen_all_the_same(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers["systemctl"] = Said("ActiveState=active\n")
        server.answers["cat"] = Said(err="cat: permission denied\n", status=1)
        seen = await see([link(host, "a.service")], within=10)
        assert isinstance(seen.units[Member("far/a.service")], UnitState)
        assert seen.boots == {}


async def test_an_engine_is_asked_as_much_as_is_wanted_and_no_longer(redis_url: str) -> None:
    async with watchmen(redis_url) as room:
        probe = room.ground.probes[SERVICE]
        whole = await ask(probe, whole=True, within=10, redactor=Redactor())
        assert (whole.health, whole.models) == (200, ("kimi-k2.5",))
        commands = len(room.far.commands)
        short = await ask(probe, whole=False, within=10, redactor=Redactor())
        assert (short.health, short.models, short.listener) == (200, None, None)
        assert len(room.far.commands) == commands
        room.far.engine.manners.silent = True
        late = await ask(probe, whole=False, within=0.3, redactor=Redactor())
        assert (late.health, late.error) == (None, "no answer within 0 s")


def test_a_look_that_is_waited_for_leaves_time_for_enough_of_them() -> None:
    """`failures` times `every` and two seconds: the first begins within one, the others come sooner."""
    for every in (5.0, 15.0, 60.0):
        for failures in (1, 2, 3, 10):
            first = pace_of(every, failures=failures, doubt=False)
            others = (failures - 1) * pace_of(every, failures=failures, doubt=True)
            assert first + others + patience_of(every) <= failures * every + 2
            assert pace_of(every, failures=failures, doubt=True) >= patience_of(every)  # none is missed
    assert patience_of(0.1) == 2.0

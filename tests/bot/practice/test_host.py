"""The practice host over real SSH."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncssh
import httpx
import pytest

from bot.clients.ssh import Host
from bot.clock import Clock
from bot.core.events import Cursor, HostName, LogLine, UnitName, Verb
from bot.core.journal import Decoder
from bot.core.redact import Redactor
from bot.errors import (
    CommandTimedOut,
    HostKeyRejected,
    HostUnreachable,
    LoginRefused,
    PermissionRefused,
    UnitUnknown,
)
from bot.practice.host import PracticeHost
from bot.practice.scenarios import SCENARIOS, Scenario, Stage
from config.services import HostSection
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SYSTEM = "system"


@asynccontextmanager
async def new_host(
    scenario: Scenario = SCENARIOS["healthy"], *, speed: float = 500, **options: Any
) -> AsyncIterator[PracticeHost]:
    host = PracticeHost(Clock(speed), scenario, **options)
    await host.start()
    try:
        yield host
    finally:
        await host.stop()


@asynccontextmanager
async def new_client(host: PracticeHost, *, sudo: bool = True, **changes: Any) -> AsyncIterator[Host]:
    section = HostSection(
        address=host.address,
        port=host.port,
        user=changes.get("user", host.user),
        identity_file=str(changes.get("identity_file", host.identity_file)),
        known_hosts=str(changes.get("known_hosts", host.known_hosts)),
        sudo=sudo,
    )
    client = Host(HostName("llm-two"), section, command_timeout=changes.get("patience", 30))
    try:
        yield client
    finally:
        await client.close()


def unit_of(host: PracticeHost) -> UnitName:
    return UnitName(host.unit_name)


async def follow_until(client: Host, host: PracticeHost, text: str) -> list[LogLine]:
    """All lines from the end of the journal on, until one has the text."""
    decoder, lines = Decoder(Redactor()), list[LogLine]()
    async with asyncio.timeout(30), aclosing(client.follow_journal(unit_of(host), scope=SYSTEM)) as stream:
        async for data in stream:
            lines += decoder.feed(data)
            if any(text in line.reading for line in lines):
                return lines
    raise AssertionError("the journal ended")


async def test_a_restart_over_ssh_is_followed_to_a_service_that_answers() -> None:
    async with new_host(api_key="k") as host, new_client(host) as client:
        before = await client.show(unit_of(host), scope=SYSTEM)
        assert (before.active, before.sub) == ("active", "running")
        following = asyncio.create_task(follow_until(client, host, "fired up and ready"))
        await host.journal.watched()
        await client.change(unit_of(host), Verb.RESTART, scope=SYSTEM)
        lines = await following
        after = await client.show(unit_of(host), scope=SYSTEM)
        assert after.invocation not in {before.invocation, None}
        assert lines[-1].invocation == after.invocation
        assert sum("Completed" in line.reading for line in lines) == 65 + 3
        assert not any("api_key='k'" in line.text for line in lines)
        assert await client.listener_belongs(host.engine.port, unit_of(host), scope=SYSTEM) is True
        tunnel = await client.tunnel("127.0.0.1", host.engine.port)
        transport = httpx.AsyncHTTPTransport(uds=str(tunnel))
        async with httpx.AsyncClient(transport=transport, base_url="http://engine") as http:
            assert (await http.get("/health")).status_code == 200
            assert (await http.get("/v1/models")).status_code == 401
        assert next(words for words in host.commands if "restart" in words)[-4:] == (
            "systemctl",
            "restart",
            "--no-block",
            host.unit_name,
        )


async def test_before_a_healthy_scenario_the_service_has_served_for_hours() -> None:
    async with new_host() as host, new_client(host) as client:
        state = await client.show(unit_of(host), scope=SYSTEM)
        assert state.active_since is not None
        assert (host.clock.now() - state.active_since).total_seconds() > 5 * 3600
        assert state.cpu is not None
        assert state.cpu.total_seconds() > 3600
        assert await client.journal_end(scope=SYSTEM) == host.journal.entries[-1].cursor
        assert await client.boot_id() == host.journal.boot
        async with httpx.AsyncClient(base_url=host.engine_url) as http:
            assert (await http.get("/health")).status_code == 200


@pytest.mark.parametrize(("before", "active"), [("stopped", "inactive"), ("down", "failed")])
async def test_a_service_that_does_not_run_before(before: Any, active: str) -> None:
    async def wait(stage: Stage) -> None:
        await stage.forever()

    async with new_host(Scenario("s", "S", (wait,), before=before)) as host, new_client(host) as client:
        assert (await client.show(unit_of(host), scope=SYSTEM)).active == active
        assert await client.knock("127.0.0.1", host.engine.port) is not None
        await client.change(unit_of(host), Verb.START, scope=SYSTEM)
        await until(lambda: host.unit.active == "active")
        await client.change(unit_of(host), Verb.STOP, scope=SYSTEM)
        await until(lambda: host.unit.active == "inactive")


async def test_a_stray_listener_is_not_the_units() -> None:
    async with new_host(SCENARIOS["port-in-use"], speed=2000) as host, new_client(host) as client:
        await client.change(unit_of(host), Verb.RESTART, scope=SYSTEM)
        await until(lambda: host.unit.result == "exit-code")
        assert await client.listener_belongs(host.engine.port, unit_of(host), scope=SYSTEM) is False


async def test_a_user_unit_needs_no_sudo() -> None:
    async with new_host(user_unit=True) as host, new_client(host) as client:
        assert (await client.show(unit_of(host), scope="user")).active == "active"
        assert (await client.show(unit_of(host), scope=SYSTEM)).load == "not-found"
        before = host.unit.invocation
        await client.change(unit_of(host), Verb.RESTART, scope="user")
        await until(lambda: host.unit.active == "active" and host.unit.invocation != before)


async def test_only_our_key_and_our_name_get_in(tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(stranger))
    async with new_host() as host:
        async with new_client(host, identity_file=stranger) as client:
            with pytest.raises(LoginRefused):
                await client.boot_id()
        async with new_client(host, user="root") as client:
            with pytest.raises(LoginRefused):
                await client.boot_id()
        other = tmp_path / "known_hosts"
        key = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
        other.write_text(f"[127.0.0.1]:{host.port} {key}")
        async with new_client(host, known_hosts=other) as client:
            with pytest.raises(HostKeyRejected):
                await client.boot_id()


async def test_no_way_to_other_ports() -> None:
    async with new_host() as host, new_client(host) as client:
        assert isinstance(await client.knock("127.0.0.1", host.port), PermissionRefused)
        assert await client.knock("127.0.0.1", host.engine.port) is None
        host.unkind.no_forwarding = True
        assert isinstance(await client.knock("127.0.0.1", host.engine.port), PermissionRefused)


async def test_a_host_that_refuses() -> None:
    async with new_host() as host, new_client(host) as client:
        before = host.unit.invocation
        host.unkind.sudo_refused = True
        with pytest.raises(PermissionRefused):
            await client.change(unit_of(host), Verb.RESTART, scope=SYSTEM)
        host.unkind.sudo_refused = False
        with pytest.raises(UnitUnknown):
            await client.change(UnitName("other.service"), Verb.RESTART, scope=SYSTEM)
        host.unkind.journal_unreadable = True
        with pytest.raises(PermissionRefused):
            await client.journal_end(scope=SYSTEM)
        assert host.unit.invocation == before
        async with new_client(host, sudo=False) as plain:
            with pytest.raises(PermissionRefused):
                await plain.change(unit_of(host), Verb.RESTART, scope=SYSTEM)


async def test_a_host_that_hangs() -> None:
    async with new_host() as host, new_client(host, patience=0.2) as client:
        host.unkind.hang = True
        with pytest.raises(CommandTimedOut):
            await client.boot_id()
        host.unkind.hang = False
        assert await client.boot_id() == host.journal.boot


async def test_a_link_cut_after_the_verb_leaves_it_carried_out() -> None:
    async with new_host() as host, new_client(host) as client:
        before = host.unit.invocation
        host.unkind.cut_after_verb = True
        with pytest.raises(HostUnreachable) as lost:
            await client.change(unit_of(host), Verb.RESTART, scope=SYSTEM)
        assert lost.value.sent
        await until(lambda: host.unit.active == "active" and host.unit.invocation != before)


async def test_dropped_connections_and_a_closed_door() -> None:
    async with new_host() as host, new_client(host) as client:
        following = asyncio.create_task(follow_until(client, host, "never said"))
        await host.journal.watched()
        await host.drop()
        with pytest.raises(HostUnreachable):
            await following
        assert await client.boot_id() == host.journal.boot
        port = host.port
        await host.close_door()
        with pytest.raises(HostUnreachable):
            await client.show(unit_of(host), scope=SYSTEM)
        await host.open_door()
        assert host.port == port
        assert await client.boot_id() == host.journal.boot


async def test_a_follower_that_left_leaves_nothing_running() -> None:
    async with new_host() as host, new_client(host) as client:
        stream = client.follow_journal(unit_of(host), scope=SYSTEM)
        reading = asyncio.ensure_future(anext(stream))
        await host.journal.watched()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await stream.aclose()
        await until(lambda: not host.journal.is_watched)


async def test_a_bare_session_gets_no_shell() -> None:
    async with (
        new_host() as host,
        asyncssh.connect(
            host.address,
            host.port,
            username=host.user,
            client_keys=[str(host.identity_file)],
            known_hosts=str(host.known_hosts),
            config=None,
        ) as connection,
    ):
        assert (await connection.run()).exit_status == 127
        shown = await connection.run(f"journalctl -u {host.unit_name} -n 1 -o json")
        assert isinstance(shown.stdout, str)
        assert json.loads(shown.stdout)["_SYSTEMD_UNIT"] == host.unit_name


async def test_keys_are_private_and_gone_afterwards() -> None:
    async with new_host() as host:
        folder = host.identity_file.parent
        assert host.identity_file.stat().st_mode & 0o777 == 0o600
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()
    with pytest.raises(RuntimeError, match="not started"):
        _ = host.identity_file
    await host.stop()


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_reboot_is_another_boot_with_the_unit_up_or_not(enabled: bool) -> None:
    async with new_host() as host, new_client(host) as client:
        before = await client.show(unit_of(host), scope=SYSTEM)
        boot, last = await client.boot_id(), host.journal.entries[-1].cursor
        await host.reboot(enabled=enabled)
        assert await client.boot_id() == host.journal.boot != boot
        after = await client.show(unit_of(host), scope=SYSTEM)
        assert after.invocation != before.invocation
        assert (after.active, after.job) == ("active" if enabled else "inactive", None)
        assert enabled or after.invocation is None
        decoder = Decoder(Redactor())
        rest = client.read_rest(unit_of(host), scope=SYSTEM, cursor=Cursor(last))
        lines = [line async for data in rest for line in decoder.feed(data)]
        boots = [line.boot for line in lines]
        assert boots == sorted(boots, key=lambda one: one != boot)
        assert [line.reading for line in lines if line.reading.startswith("Stopping")]
        assert set(boots) == ({boot, host.journal.boot} if enabled else {boot})

"""Orders to a real systemd, and what it says afterwards."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from bot.clients.probe import Probe
from bot.core.events import InvocationId, UnitName, Verb
from bot.errors import PermissionRefused, UnitUnknown
from tests.systemd.following import READY, eventually, follow_until, here, read_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bot.clients.ssh import Host
    from tests.systemd.real_host import RealHost

SWIFT = {"distributed": 0.05, "weights": 0.1, "memory": 0.05, "graphs": 0.05, "warmup": 0.1}
SMALL = UnitName("small.service")
SMALL_FILE = """\
[Service]
ExecStart=/bin/sh -c 'echo hello from a user; sleep 1000'
"""


async def start(host: Host, real_host: RealHost) -> None:
    """A healthy engine, ready."""
    await real_host.set_scenario(seconds=SWIFT)
    position = await here(host)
    await host.change(real_host.unit, Verb.START, scope="system")
    await follow_until(host, real_host, READY, position=position)


async def test_a_stopped_unit(host: Host, real_host: RealHost) -> None:
    unit = await host.show(real_host.unit, scope="system")
    assert (unit.load, unit.active, unit.down, unit.main_pid) == ("loaded", "inactive", True, 0)
    assert (unit.memory, unit.read) == (None, None)


async def test_a_running_unit(host: Host, real_host: RealHost) -> None:
    await start(host, real_host)
    unit = await host.show(real_host.unit, scope="system")
    assert (unit.active, unit.sub, unit.result, unit.job) == ("active", "running", "success", None)
    assert unit.main_pid == await real_host.main_pid()
    assert unit.cpu is not None
    assert unit.active_since is not None
    assert not unit.need_daemon_reload


async def test_a_changed_unit_file_is_noticed(host: Host, real_host: RealHost) -> None:
    await start(host, real_host)  # systemd forgets a unit that does nothing, and then reads its file anew
    await real_host.run(f"touch -d '+1 minute' /etc/systemd/system/{real_host.unit}")
    assert (await host.show(real_host.unit, scope="system")).need_daemon_reload
    await real_host.run("systemctl daemon-reload")
    assert not (await host.show(real_host.unit, scope="system")).need_daemon_reload


async def test_killed_by_the_kernels_hand(host: Host, real_host: RealHost) -> None:
    await start(host, real_host)
    position = await here(host)
    await real_host.run(f"kill -9 {await real_host.main_pid()}")
    lines, _ = await follow_until(host, real_host, "Failed with result", position=position)
    unit = await host.show(real_host.unit, scope="system")
    assert (unit.active, unit.result, unit.exec_code, unit.exec_status) == ("failed", "signal", 2, 9)
    assert any(line.fields.get("EXIT_STATUS") in {"9", "KILL"} for line in lines)


async def test_a_stop(host: Host, real_host: RealHost) -> None:
    await start(host, real_host)
    await host.change(real_host.unit, Verb.STOP, scope="system")

    async def stopped() -> bool:
        return (await host.show(real_host.unit, scope="system")).down

    await eventually(stopped)


async def test_an_unknown_unit(host: Host) -> None:
    assert (await host.show(UnitName("nothing.service"), scope="system")).load == "not-found"


async def test_sudo_lets_exactly_one_unit_through(host: Host, stranger: Host, real_host: RealHost) -> None:
    with pytest.raises(PermissionRefused, match="`kimi-bot host-setup`"):
        await host.change(UnitName("ssh.service"), Verb.RESTART, scope="system")
    await host.check_sudo(real_host.unit, Verb.RESTART, scope="system")
    with pytest.raises(PermissionRefused, match="sudo does not let stranger restart"):
        await stranger.check_sudo(real_host.unit, Verb.RESTART, scope="system")
    with pytest.raises(PermissionRefused, match="sudo does not let stranger restart"):
        await stranger.change(real_host.unit, Verb.RESTART, scope="system")


async def test_whose_port_it_is(host: Host, stranger: Host, real_host: RealHost) -> None:
    port = real_host.engine_port
    assert await host.listener_belongs(port, real_host.unit, scope="system") is None
    await start(host, real_host)
    assert await host.listener_belongs(port, real_host.unit, scope="system") is True
    assert await stranger.listener_belongs(port, real_host.unit, scope="system") is True
    assert await host.listener_belongs(port, UnitName("ssh.service"), scope="system") is False


async def test_someone_else_on_the_port(host: Host, real_host: RealHost) -> None:
    port = real_host.engine_port
    serve = f"/usr/bin/python3 -m http.server --bind 127.0.0.1 {port}"
    await real_host.run(f"systemd-run --unit=squatter {serve}")
    try:

        async def listens() -> bool:
            return await host.knock("127.0.0.1", port) is None

        await eventually(listens)
        position = await here(host)
        await real_host.set_scenario(seconds=SWIFT)
        await host.change(real_host.unit, Verb.START, scope="system")
        await follow_until(host, real_host, "address already in use", position=position)
        assert await host.listener_belongs(port, real_host.unit, scope="system") is False
    finally:
        await real_host.run("systemctl stop squatter")


async def test_the_engine_answers_through_the_tunnel(host: Host, real_host: RealHost) -> None:
    smoke = {"tool_call": True, "reasoning": True}
    probe = Probe(real_host.service_section(smoke=smoke), host=host, api_key=None)
    assert (await probe.check()).error == "connection refused"
    await start(host, real_host)
    answer = await probe.check()
    assert (answer.health, answer.models, answer.listener, answer.error) == (
        200,
        (real_host.model,),
        True,
        None,
    )
    result = await probe.smoke()
    assert (result.passed, result.tool_call, result.reasoning) == (True, True, True)
    assert result.tokens_per_second is not None


@pytest.fixture
async def small(real_host: RealHost) -> AsyncIterator[UnitName]:
    """A unit of the user's own."""
    folder = "/home/kimi/.config/systemd/user"
    await real_host.run(f"mkdir -p {folder}; printf %s {shlex.quote(SMALL_FILE)} > {folder}/{SMALL}")
    as_user = "runuser -u kimi -- env XDG_RUNTIME_DIR=/run/user/1000 systemctl --user"
    await real_host.run(f"chown -R kimi: /home/kimi/.config; {as_user} daemon-reload")
    yield SMALL
    await real_host.run(f"{as_user} stop {SMALL}")


async def test_a_unit_of_the_users_own(host: Host, small: UnitName) -> None:
    await host.change(small, Verb.START, scope="user")

    async def runs() -> bool:
        return (await host.show(small, scope="user")).active == "active"

    await eventually(runs)
    invocation: InvocationId | None = (await host.show(small, scope="user")).invocation
    by_start = await read_all(host.read_journal(small, scope="user", invocation=invocation))
    by_unit = await read_all(host.read_journal(small, scope="user"))
    assert any("hello from a user" in line.text for line in by_start)
    assert [line.text for line in by_unit][-len(by_start) :] == [line.text for line in by_start]


async def test_a_users_unit_nobody_knows(host: Host) -> None:
    with pytest.raises(UnitUnknown):
        await host.change(UnitName("nothing.service"), Verb.RESTART, scope="user")


async def test_a_rank_that_hangs_in_graph_capture(host: Host, real_host: RealHost) -> None:
    await real_host.set_scenario("hang-in-graphs", seconds=SWIFT)
    position = await here(host)
    await host.change(real_host.unit, Verb.START, scope="system")
    await follow_until(host, real_host, "Capture cuda graph end", position=position)
    unit = await host.show(real_host.unit, scope="system")

    async def ended() -> set[str]:
        stream = host.read_journal(real_host.unit, scope="system", invocation=unit.invocation)
        lines = [line.text for line in await read_all(stream)]
        return {line.split("]")[0][-3:] for line in lines if "Capture cuda graph end" in line}

    async def all_but_one() -> bool:
        return await ended() == {f"TP{rank}" for rank in range(8)} - {"TP5"}

    await eventually(all_but_one)
    assert (await host.show(real_host.unit, scope="system")).active == "active"

"""A real sshd that allows few sessions a connection: all that is followed or asked for has one."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

import pytest

from bot.clients import ssh_lines
from bot.clients.ssh import Host
from bot.core.events import UnitName, Verb
from bot.errors import PermissionRefused
from tests.systemd.following import PATIENCE, eventually
from tests.systemd.real_host import STRANGER

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from tests.systemd.real_host import RealHost

UNITS = [UnitName(f"talker-{number}.service") for number in range(5)]
FOLDER = "/home/kimi/.config/systemd/user"
AS_USER = "runuser -u kimi -- env XDG_RUNTIME_DIR=/run/user/1000 systemctl --user"
TALKER = '[Service]\\nExecStart=/bin/sh -c "while :; do echo talk of %%n; sleep 0.5; done"\\n'
ALLOWED = 3
LIMIT = "/etc/ssh/sshd_config.d/limit.conf"
# A reload of sshd returns before it listens again; a restart waits for that, and sessions outlive it.
READ_AGAIN = "systemctl reset-failed ssh; systemctl restart ssh"
# What ignores that it shall end, as a process does that is stuck in a driver.
STUBBORN = ("sh", "-c", 'trap "" TERM HUP PIPE; sleep 77.5')


@pytest.fixture
async def few(real_host: RealHost) -> AsyncIterator[RealHost]:
    """Few sessions, and five units of the user's own that go on talking."""
    await real_host.run(f"echo MaxSessions {ALLOWED} > {LIMIT}; {READ_AGAIN}")
    await real_host.run(f"mkdir -p {FOLDER}")
    for unit in UNITS:
        await real_host.run(f"printf '{TALKER}' > {FOLDER}/{unit}")
    await real_host.run(f"chown -R kimi: /home/kimi/.config; {AS_USER} daemon-reload")
    yield real_host
    await real_host.attempt(f"{AS_USER} stop {' '.join(UNITS)}")
    await real_host.run(f"rm -f {LIMIT} {FOLDER}/talker-*; {AS_USER} daemon-reload; {READ_AGAIN}")
    await real_host.attempt("pkill -KILL -u kimi -f 'sleep 77.5'")


@pytest.fixture
async def visitor(few: RealHost) -> AsyncIterator[Host]:
    """Connected after the limit was set."""
    host = Host(few.name, few.section)
    yield host
    await host.close()


async def pour(stream: AsyncGenerator[bytes, None], heard: bytearray) -> None:
    async with aclosing(stream):
        async for data in stream:
            heard += data


async def nobody_follows(real: RealHost) -> bool:
    return (await real.attempt("pgrep -u kimi -x journalctl")).status != 0


async def test_five_units_are_followed_at_once_and_commands_have_room(few: RealHost, visitor: Host) -> None:
    for unit in UNITS:
        await visitor.change(unit, Verb.START, scope="user")
    heard = {unit: bytearray() for unit in UNITS}
    streams = [pour(visitor.follow_journal(unit, scope="user"), heard[unit]) for unit in UNITS]
    streams += [pour(visitor.follow_kernel(), bytearray()) for _ in UNITS]  # as each startup has two
    following = [asyncio.create_task(stream) for stream in streams]

    async def all_heard() -> bool:
        assert not any(task.done() for task in following)
        return all(f"talk of {unit}".encode() in heard[unit] for unit in UNITS)

    await eventually(all_heard)
    states = await asyncio.gather(*(visitor.show(unit, scope="user") for unit in UNITS * 4))
    assert {state.active for state in states} == {"active"}
    promise = await visitor.promise(20)
    await visitor.change(UNITS[0], Verb.RESTART, scope="user", promise=promise)
    path = await visitor.tunnel("127.0.0.1", few.ssh_port)  # a forwarded port is no session
    ways = [await asyncio.open_unix_connection(str(path)) for _ in range(2 * ALLOWED)]
    for reader, _ in ways:
        assert await reader.read(4) == b"SSH-"
    for _, writer in ways:
        writer.close()
    assert visitor.connects == 1
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    await eventually(lambda: nobody_follows(few))


async def test_commands_that_never_end_leave_room_for_an_order(few: RealHost, visitor: Host) -> None:
    stuck = [asyncio.create_task(visitor.run(STUBBORN)) for _ in range(2 * ALLOWED)]

    async def all_run() -> bool:
        return (await few.attempt("pgrep -c -u kimi -f '^sleep 77.5'")).out.strip() == str(len(stuck))

    await eventually(all_run)
    for task in stuck:
        task.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)
    async with asyncio.timeout(PATIENCE):
        await visitor.change(UNITS[0], Verb.START, scope="user", promise=await visitor.promise(10))
        assert (await visitor.show(UNITS[0], scope="user")).active == "active"
    assert await all_run(), "they are there still"


async def test_what_was_begun_while_its_asker_went_away_ends_on_the_host(
    few: RealHost, visitor: Host
) -> None:
    await visitor.uptime()
    for step in range(24):
        task = asyncio.create_task(pour(visitor.follow_journal(UNITS[0], scope="user"), bytearray()))
        await asyncio.sleep(step * 0.01)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await eventually(lambda: nobody_follows(few))
    assert visitor.connects == 1


async def test_a_right_that_was_given_later_is_seen_without_a_restart(
    stranger: Host, real_host: RealHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The groups of a connection are those of its login; sshd keeps them for as long as it lives."""
    monkeypatch.setattr(ssh_lines, "_OLD", 0.0)
    with pytest.raises(PermissionRefused):
        await stranger.journal_end(scope="system")
    await real_host.run(f"usermod -aG systemd-journal {STRANGER}")
    try:
        assert await stranger.journal_end(scope="system") is not None
    finally:
        await real_host.run(f"gpasswd -d {STRANGER} systemd-journal")
    assert stranger.connects == 1

"""The journal of a real systemd, read over a real sshd: bars, long lines, restarts, cursors."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from bot.core.events import Origin, UnitName, Verb
from bot.errors import HostUnreachable, PermissionRefused
from tests.systemd.fake_engine import DEFAULTS, long_text
from tests.systemd.following import READY, eventually, follow_until, here, read_all

if TYPE_CHECKING:
    from bot.clients.ssh import Host
    from tests.systemd.real_host import RealHost

SWIFT = {"distributed": 0.05, "weights": 0.4, "memory": 0.05, "graphs": 0.05, "warmup": 0.1}


async def test_a_start_from_beginning_to_ready(host: Host, real_host: RealHost) -> None:
    position = await here(host)
    await host.change(real_host.unit, Verb.RESTART, scope="system")
    lines, _ = await follow_until(host, real_host, READY, position=position)
    readings = [line.reading for line in lines]
    assert any("12/64" in reading for reading in readings)
    assert sum("Load weight end." in reading for reading in readings) == DEFAULTS["ranks"]
    pids = {line.pid for line in lines if "Load weight end." in line.reading}
    assert len(pids) == DEFAULTS["ranks"]
    assert lines[0].origin is Origin.MANAGER
    unit = await host.show(real_host.unit, scope="system")
    assert {line.invocation for line in lines} == {unit.invocation}
    assert {line.boot for line in lines} == {await host.boot_id()}


async def test_what_plain_journalctl_hides_is_read(host: Host, real_host: RealHost) -> None:
    """A bar begins with a carriage return, so plain journalctl shows `[87B blob data]`."""
    await real_host.set_scenario(seconds=SWIFT)
    position = await here(host)
    await host.change(real_host.unit, Verb.RESTART, scope="system")
    lines, _ = await follow_until(host, real_host, READY, position=position)
    invocation = (await host.show(real_host.unit, scope="system")).invocation
    shown = await real_host.run(f"journalctl --no-pager _SYSTEMD_INVOCATION_ID={invocation}")
    assert shown.count("B blob data]") == 65  # 0/64 to 64/64
    assert "Completed" not in shown
    bars = [line.reading for line in lines if "Completed" in line.reading]
    assert [bar.split("| ")[1].split(" ")[0] for bar in bars] == [f"{done}/64" for done in range(65)]
    assert not any("\r" in bar for bar in bars)


async def test_a_line_of_120_kilobytes_comes_whole(host: Host, real_host: RealHost) -> None:
    await real_host.set_scenario("long-line", seconds=SWIFT)
    position = await here(host)
    await host.change(real_host.unit, Verb.RESTART, scope="system")
    lines, _ = await follow_until(host, real_host, READY, position=position)
    assert [line.text for line in lines if len(line.text) > 10_000] == [long_text(120_000)]
    entries = await real_host.run(
        f"journalctl --no-pager -o json --all -u {real_host.unit} -b | grep line-max"
    )
    pieces = [json.loads(entry)["MESSAGE"] for entry in entries.splitlines()]
    assert [len(piece) for piece in pieces] == [49_152, 49_152]  # and a third that ends as lines do


@pytest.mark.parametrize("words", ["server_args=", "12/64", "TP3] Load weight begin", "TP5] Load weight end"])
async def test_resuming_at_a_cursor_loses_nothing_and_doubles_nothing(
    host: Host, real_host: RealHost, words: str
) -> None:
    await real_host.set_scenario(seconds={**SWIFT, "warmup": 1.0})  # the ready line is not among the first
    position = await here(host)
    await host.change(real_host.unit, Verb.RESTART, scope="system")
    first, position = await follow_until(host, real_host, words, position=position)
    await host.close()
    second, _ = await follow_until(host, real_host, READY, position=position)
    invocation = (await host.show(real_host.unit, scope="system")).invocation
    whole = await read_all(host.read_journal(real_host.unit, scope="system", invocation=invocation))
    followed = [line.cursor for line in (*first, *second)]
    assert followed == [line.cursor for line in whole][: len(followed)]
    assert READY in second[-1].text


async def test_a_restart_is_a_new_start(host: Host, real_host: RealHost) -> None:
    await real_host.set_scenario(seconds=SWIFT)
    position = await here(host)
    await host.change(real_host.unit, Verb.START, scope="system")
    _, position = await follow_until(host, real_host, READY, position=position)
    before = await host.show(real_host.unit, scope="system")
    await host.change(real_host.unit, Verb.RESTART, scope="system")
    lines, _ = await follow_until(host, real_host, READY, position=position)
    after = await host.show(real_host.unit, scope="system")
    assert before.invocation != after.invocation
    invocations = [line.invocation for line in lines]
    assert set(invocations) == {before.invocation, after.invocation}
    assert invocations == sorted(invocations, key=lambda one: one == after.invocation)
    alone = await read_all(host.read_journal(real_host.unit, scope="system", invocation=after.invocation))
    assert {line.invocation for line in alone} == {after.invocation}
    assert alone[0].origin is Origin.MANAGER


async def test_one_start_is_followed_without_a_position(host: Host, real_host: RealHost) -> None:
    await real_host.set_scenario(seconds=SWIFT)
    await host.change(real_host.unit, Verb.START, scope="system")
    invocation = (await host.show(real_host.unit, scope="system")).invocation
    data = b""
    async for piece in host.follow_journal(real_host.unit, scope="system", invocation=invocation):
        data += piece
        if READY.encode() in data:
            break
    assert b"server_args=" in data


async def test_the_last_lines_and_the_last_minutes(host: Host, real_host: RealHost) -> None:
    await real_host.set_scenario(seconds=SWIFT)
    position = await here(host)
    await host.change(real_host.unit, Verb.START, scope="system")
    await follow_until(host, real_host, READY, position=position)
    last = await read_all(host.read_journal(real_host.unit, scope="system", lines=3))
    assert [READY in line.text for line in last] == [False, False, True]
    recent = await read_all(host.read_journal(real_host.unit, scope="system", since=timedelta(minutes=10)))
    assert any("server_args=" in line.text for line in recent)
    assert await read_all(host.read_journal(UnitName("nothing.service"), scope="system")) == []


async def test_closing_ends_the_remote_journalctl(host: Host, real_host: RealHost) -> None:
    await real_host.set_scenario(seconds=SWIFT)
    position = await here(host)
    await host.change(real_host.unit, Verb.START, scope="system")
    await follow_until(host, real_host, READY, position=position)

    async def gone() -> bool:
        return not (await real_host.attempt("pgrep -x journalctl")).out

    await eventually(gone)


async def test_a_lost_link_is_told_and_the_journal_goes_on_from_its_cursor(
    host: Host, real_host: RealHost
) -> None:
    await real_host.set_scenario(seconds=SWIFT)
    position = await here(host)
    stream = host.follow_journal(real_host.unit, scope="system", position=position)
    await host.change(real_host.unit, Verb.START, scope="system")
    await anext(stream)
    await real_host.run("pkill -KILL -u kimi -x sshd")
    with pytest.raises(HostUnreachable):
        async for _ in stream:
            pass
    lines, _ = await follow_until(host, real_host, READY, position=position)
    assert any("server_args=" in line.text for line in lines)


async def test_a_user_without_the_right_is_told_so(stranger: Host, real_host: RealHost) -> None:
    with pytest.raises(PermissionRefused, match="usermod -aG systemd-journal stranger"):
        await stranger.journal_end(scope="system")
    with pytest.raises(PermissionRefused, match="usermod -aG systemd-journal stranger"):
        await anext(stranger.follow_journal(real_host.unit, scope="system"))

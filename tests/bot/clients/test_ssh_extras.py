"""What a host lets hang is waited for a moment, and then asked for no more."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from bot.clients import ssh_extras
from bot.clients.ssh_extras import HUNG, Extras
from bot.clients.ssh_link import Link
from bot.core.events import UnitName, Verb
from bot.errors import HostUnreachable
from tests.support.ssh import Process, Said, SshServer, connect, hang, serve

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 5, 29, tzinfo=UTC)
UNIT = UnitName("sglang-kimi.service")
SHOWN = "ControlGroup=/system.slice/sglang-kimi.service\nCPUUsageNSec=5000000000\nTasksCurrent=9\n"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_extras, "SOON", 0.1)
    monkeypatch.setattr(ssh_extras, "WITHIN", 0.3)


def link_to(server: SshServer) -> Link:
    return Link(server.name, server.section(), connect_timeout=5, command_timeout=5, keepalive=5)


async def test_what_hangs_twice_is_left_alone(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        server.answers["nvidia-smi"] = hang
        link = link_to(server)
        extras = Extras(link)
        for _ in range(4):
            assert (await extras.run_soon(("nvidia-smi", "-L"))).status == HUNG
        assert server.commands == [["nvidia-smi", "-L"]] * 2
        assert (await extras.run(("uname",))).status == 127, "other commands are asked all the same"
        await link.close()


async def test_what_is_slow_has_its_answer_where_nobody_waits_for_it(tmp_path: Path) -> None:
    async def dawdle(_: list[str], process: Process) -> None:
        await asyncio.sleep(0.2)
        process.stdout.write(b"there\n")
        process.exit(0)

    async with serve(tmp_path) as server:
        server.answers["nvidia-smi"] = dawdle
        link = link_to(server)
        extras = Extras(link)
        assert (await extras.run_soon(("nvidia-smi", "-L"))).status == HUNG
        assert (await extras.run(("nvidia-smi", "-L"))).out == "there\n"
        assert (await extras.run_soon(("nvidia-smi", "-L"))).status == HUNG
        assert (await extras.run(("nvidia-smi", "-L"))).status == 0, "it did not hang twice in a row"
        await link.close()


async def test_after_its_pause_it_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_extras, "_PAUSE", 0.0)
    async with serve(tmp_path) as server:
        server.answers["ss"] = hang
        link = link_to(server)
        extras = Extras(link)
        for _ in range(3):
            assert (await extras.run_soon(("ss", "-l"))).status == HUNG
        server.answers["ss"] = Said("LISTEN\n")
        assert (await extras.run_soon(("ss", "-l"))).out == "LISTEN\n"
        await link.close()


async def test_a_lost_link_is_an_error_and_no_hanging_command(tmp_path: Path) -> None:
    async with serve(tmp_path) as server:
        link = link_to(server)
        await server.stop()
        with pytest.raises(HostUnreachable):
            await Extras(link).run(("ss", "-l"))
        await link.close()


async def test_a_host_where_all_but_systemd_hangs_is_measured_and_ordered(tmp_path: Path) -> None:
    async with serve(tmp_path) as server, connect(server) as host:
        server.answers |= dict.fromkeys(("sudo -n -l", "find", "grep", "timeout", "ss", "cat"), hang)
        server.answers |= {"systemctl show": Said(SHOWN), "sudo -n systemctl": Said()}
        await host.check_sudo(UNIT, Verb.RESTART, scope="system")
        await host.change(UNIT, Verb.RESTART, scope="system")
        sample = await host.sample(UNIT, scope="system", at=NOW, model="/models/kimi")
        assert (sample.cpu, sample.tasks) == (timedelta(seconds=5), 9)
        assert (sample.processes, sample.gpus, sample.model_size) == (None, None, None)
        assert await host.listener_belongs(30000, UNIT, scope="system") is None


async def test_they_leave_sessions_to_what_matters(tmp_path: Path) -> None:
    now = most = 0

    async def count(_: list[str], process: Process) -> None:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        await asyncio.sleep(0.05)
        now -= 1
        process.exit(0)

    async with serve(tmp_path) as server:
        server.answers["look"] = count
        link = link_to(server)
        extras = Extras(link)
        await asyncio.gather(*(extras.run(("look", str(number))) for number in range(6)))
        assert len(server.commands) == 6
        assert most == 2
        await link.close()

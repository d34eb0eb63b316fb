"""What the check says of hosts, units, log files and engines, and how to mend what is wrong."""

from __future__ import annotations

import asyncio
import itertools
import re
import socket
from typing import TYPE_CHECKING

import asyncssh

from bot.clients.ssh import Host
from bot.errors import HostUnreachable
from bot.practice.engine import ServerStatus
from tests.support.checking import bench
from tests.support.commands import kimi

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def test_what_is_wrong_on_the_host_is_said_with_its_remedy(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url) as made:
        made.host.unkind.sudo_refused = True
        assert "kimi-bot host-setup" in (await made.wrong())["unit sglang-kimi.service"]
        made.host.unkind.sudo_refused = False
        made.host.unkind.reload_refused = True
        assert await made.wrong() == {
            "unit sglang-kimi.service": "llm-two: sudo refuses daemon-reload: see kimi-bot host-setup"
        }
        made.host.unkind.reload_refused = False
        made.host.unkind.journal_unreadable = True
        assert "systemd-journal" in (await made.wrong())["host llm-two"]
        made.host.unkind.journal_unreadable = False
        made.host.unkind.unit_unknown = True
        wrong = await made.wrong()
        assert "not-found" in wrong["unit sglang-kimi.service"]
        made.host.unkind.unit_unknown = False
        made.host.engine.manners.models = ("kimi-k2",)
        wrong = await made.wrong()
        assert wrong == {"service kimi-k2.5": "/v1/models lists kimi-k2, not kimi-k2.5."}


async def test_a_service_that_is_stopped_is_no_fault(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url, before="stopped") as made:
        found = await made.check()
        assert await made.wrong() == {}
        ended = await kimi("check", "--config", str(made.write()), environment=made.environ)
    assert found["unit sglang-kimi.service"].words == "llm-two: inactive (dead)"
    assert found["service kimi-k2.5"].words == "stopped: `start kimi-k2.5` in chat starts it"
    assert ended.status == 0
    assert [line.split()[0] for line in ended.out.splitlines()] == [*["ok"] * 6, "note", "note"]


async def test_a_unit_that_failed_is_a_fault_with_its_remedy(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url, before="down") as made:
        wrong = await made.wrong()
    assert set(wrong) == {"unit sglang-kimi.service", "service kimi-k2.5"}
    told = wrong["unit sglang-kimi.service"]
    assert re.match(r"llm-two: failed \((exit-code|signal)\): ", told)
    assert "`why kimi-k2.5` in chat, or its journal there, tells of what; mend that" in told


async def test_who_answers_in_the_place_of_a_stopped_unit_is_a_fault(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url, before="stopped") as made:
        await made.host.engine.open(pid=99, cgroup="/system.slice/other.service")
        made.host.engine.status = ServerStatus.UP
        wrong = await made.wrong()
    assert wrong == {"service kimi-k2.5": "Its port is served by a process of another unit."}


async def test_a_stopped_unit_whose_address_answers_is_not_the_one_that_serves(
    tmp_path: Path, redis_url: str
) -> None:
    async with bench(tmp_path, redis_url, before="stopped") as made:
        made.more = 'reach = "direct"\n'  # whose port it is, nobody tells
        await made.host.engine.open(pid=99, cgroup="/system.slice/other.service")
        made.host.engine.status = ServerStatus.UP
        assert "name the unit that serves there" in (await made.wrong())["service kimi-k2.5"]


async def test_a_wrong_key_of_the_engine_and_a_host_that_is_away(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url) as made:
        made.environ["ENGINE_KEY"] = "sk-of-another"
        assert "401" in (await made.wrong())["service kimi-k2.5"]
        await made.host.close_door()
        wrong = await made.wrong()
        assert set(wrong) == {"host llm-two", "unit sglang-kimi.service", "service kimi-k2.5"}
        assert "llm-two" in wrong["host llm-two"]


FAR = """
[hosts.llm-three]
address = "127.0.0.1"
port = {port}
user = "kimi"
identity_file = "{identity}"
known_hosts = "{known}"
"""
FOUR = """
[services."{name}"]
host = "llm-three"
unit = "{name}.service"
url = "http://127.0.0.1:1"
model = "{name}"
log_file = "/var/log/{name}.log"
"""


async def test_of_a_host_that_does_not_answer_its_own_row_says_why_and_the_others_that_alone(
    tmp_path: Path, redis_url: str
) -> None:
    names = ["a", "b", "c", "d"]
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    async with bench(tmp_path, redis_url) as made:
        files = {"identity": made.host.identity_file, "known": made.host.known_hosts}
        made.more = FAR.format(port=port, **files) + "".join(FOUR.format(name=name) for name in names)
        wrong = await made.wrong()
        why = wrong.pop("host llm-three")
        assert f"127.0.0.1:{port} refuses connections" in why
        rows = [
            (f"unit {name}.service", f"log file /var/log/{name}.log", f"service {name}") for name in names
        ]
        short = "not looked at: llm-three did not answer"
        assert wrong == dict.fromkeys(itertools.chain(*rows), short)
        made.more = made.more.replace(f"port = {port}", f"port = {made.host.port}")
        made.more = made.more.replace(str(made.host.identity_file), str(strange_key(tmp_path)))
        wrong = await made.wrong()
        assert "key" in wrong.pop("host llm-three")
        assert set(wrong.values()) == {"not looked at: kimi did not get into llm-three"}


async def test_hosts_that_are_gone_are_waited_for_side_by_side(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[str] = set()
    both = asyncio.Event()

    async def boot_id(self: Host) -> str:
        asked.add(self.name)
        if len(asked) == 2:
            both.set()
        await both.wait()
        raise HostUnreachable(self.name, f"{self.name} does not answer.")

    monkeypatch.setattr(Host, "boot_id", boot_id)
    async with bench(tmp_path, redis_url) as made:
        files = {"identity": made.host.identity_file, "known": made.host.known_hosts}
        made.more = FAR.format(port=made.host.port, **files)
        async with asyncio.timeout(60):
            findings = await made.check()
    hosts = [found for subject, found in findings.items() if subject.startswith("host ")]
    assert [found.words for found in hosts] == ["llm-two does not answer.", "llm-three does not answer."]


def strange_key(folder: Path) -> Path:
    path = folder / "strange"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(path)
    return path


async def test_a_log_file_is_looked_at(tmp_path: Path, redis_url: str) -> None:
    path = "/var/log/kimi.log"
    async with bench(tmp_path, redis_url, log_file=path) as made:
        made.more = f'log_file = "{path}"\n'
        assert (await made.check())[f"log file {path}"].words == "llm-two: readable"
        assert made.host.log is not None
        made.host.log.unreadable = True
        assert "setfacl" in (await made.wrong())[f"log file {path}"]
        made.more = 'log_file = "/var/log/other.log"\n'
        found = (await made.check())["log file /var/log/other.log"]
        assert (found.good, "not there yet" in found.words) == (True, True)


async def test_a_users_own_units_need_no_group(tmp_path: Path, redis_url: str) -> None:
    async with bench(tmp_path, redis_url, user_unit=True) as made:
        made.more = 'scope = "user"\n'
        assert await made.wrong() == {}

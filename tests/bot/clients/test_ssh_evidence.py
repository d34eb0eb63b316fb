"""One sample of a host over a real SSH connection, kind and unkind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from bot.clients.ssh_evidence import GPUS_FAILED, NO_GPUS, NO_PROCESSES, NO_READS, NO_SHARDS
from bot.core.events import InvocationId, UnitName
from bot.errors import HostUnreachable, UnitUnknown
from tests.support.ssh import Said, SshServer, connect, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

UNIT = UnitName("sglang-kimi.service")
AT = datetime(2026, 5, 29, 23, 49, tzinfo=UTC)
SHOWN = (
    "InvocationID=0f3c1d2e4b5a69788796a5b4c3d2e1f0\nControlGroup=/system.slice/sglang-kimi.service\n"
    "CPUUsageNSec=61000000000\nMemoryCurrent=[not set]\nTasksCurrent=702\nIOReadBytes=[not set]\n"
)
SMI = "timeout 8 nvidia-smi"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SshServer]:
    async with serve(tmp_path) as server:
        server.answers = {
            "systemctl show": Said(SHOWN),
            "find -L /models/kimi": Said("100\n200\n"),
            "find /sys/fs/cgroup/system.slice": Said("10\n11\n", "find: no such file\n", 1),
            "grep -a -o -H -E -e": Said(
                "/proc/10/io:read_bytes: 40\n/proc/11/cmdline:sglang::scheduler_TP0\n"
                "/proc/11/io:read_bytes: 2\n/proc/11/maps:model-00003-of-00064.safetensors\n"
            ),
            SMI: Said("0, 75612, 81559, 100\n"),
        }
        yield server


async def test_a_kind_host_tells_it_all(server: SshServer) -> None:
    async with connect(server) as host:
        sample = await host.sample(UNIT, scope="system", at=AT, model="/models/kimi")
    assert (sample.at, sample.cpu, sample.tasks) == (AT, timedelta(seconds=61), 702)
    assert sample.invocation == InvocationId("0f3c1d2e4b5a69788796a5b4c3d2e1f0")
    assert sample.memory is None
    assert sample.read == 42
    assert sample.ranks == {"TP0": 11}
    assert sample.shard is not None
    assert (sample.shard.number, sample.model_size, sample.gpu_memory) == (3, 300, 75612 * 2**20)
    assert sample.refused == ()


async def test_the_command_line_of_a_process_is_never_asked_for_whole(server: SshServer) -> None:
    server.answers["systemctl --user show"] = Said(SHOWN)
    async with connect(server) as host:
        await host.sample(UNIT, scope="user", at=AT)
    assert all("cat" not in command or "cgroup.procs" in command for command in server.commands)
    assert ["systemctl", "--user", "show"] in [command[:3] for command in server.commands]
    [grep] = [command for command in server.commands if command[0] == "grep"]
    assert grep[-6:] == [f"/proc/{pid}/{name}" for name in ("cmdline", "io", "maps") for pid in (10, 11)]


async def test_the_counter_of_systemd_goes_before_the_sum_of_proc(server: SshServer) -> None:
    server.answers["systemctl show"] = Said(SHOWN.replace("IOReadBytes=[not set]", "IOReadBytes=7"))
    server.answers["grep -a -o -H -E -e"] = Said("", "grep: /proc/10/io: Permission denied\n", 2)
    async with connect(server) as host:
        sample = await host.sample(UNIT, scope="system", at=AT)
    assert sample.read == 7
    assert NO_READS not in sample.refused


async def test_what_is_refused_is_named_and_no_error(server: SshServer) -> None:
    del server.answers[SMI]
    denied = "".join(f"grep: /proc/10/{name}: Permission denied\n" for name in ("io", "maps"))
    server.answers["grep -a -o -H -E -e"] = Said("/proc/11/cmdline:sglang::scheduler_TP0\n", denied, 2)
    async with connect(server) as host:
        sample = await host.sample(UNIT, scope="system", at=AT)
        await host.sample(UNIT, scope="system", at=AT)
    assert (sample.read, sample.shard, sample.gpus, sample.model_size) == (None,) * 4
    assert sample.ranks == {"TP0": 11}
    assert sample.refused == (NO_READS, NO_SHARDS, NO_GPUS)
    assert sum("nvidia-smi" in command for command in server.commands) == 1


async def test_a_driver_that_fails_is_asked_again(server: SshServer) -> None:
    server.answers[SMI] = Said("No devices were found\n", "", 6)
    async with connect(server) as host:
        sample = await host.sample(UNIT, scope="system", at=AT)
        await host.sample(UNIT, scope="system", at=AT)
    assert sample.refused == (GPUS_FAILED,)
    assert sum("nvidia-smi" in command for command in server.commands) == 2


async def test_groups_that_cannot_be_listed(server: SshServer) -> None:
    server.answers["find /sys/fs/cgroup/system.slice"] = Said("", "find: no such file\n", 1)
    async with connect(server) as host:
        sample = await host.sample(UNIT, scope="system", at=AT)
    assert sample.processes is None
    assert sample.refused == (NO_PROCESSES,)


async def test_a_stopped_unit_has_nothing_to_refuse(server: SshServer) -> None:
    server.answers["systemctl show"] = Said("ControlGroup=\nInvocationID=\n")
    async with connect(server) as host:
        sample = await host.sample(UNIT, scope="system", at=AT)
    assert (sample.processes, sample.refused, sample.invocation) == ((), (), None)


async def test_the_size_of_the_model_is_asked_for_once(server: SshServer) -> None:
    async with connect(server) as host:
        for _ in range(2):
            await host.sample(UNIT, scope="system", at=AT, model="/models/kimi")
    assert sum("-L" in command for command in server.commands) == 1


async def test_a_hubs_model_is_measured_where_the_units_environment_says(server: SshServer) -> None:
    folder = "/data/hf/hub/models--moonshotai--Kimi-K2.5/snapshots"
    server.answers = {
        f"systemctl show {UNIT} -p Environment,User": Said(
            "Environment=HF_HOME=/data/hf HF_TOKEN=hf_secret\nUser=llm\n"
        ),
        f"find -L {folder}": Said("100 model-00001-of-00002.safetensors\n"),
        **server.answers,
    }
    async with connect(server) as host:
        first = await host.sample(UNIT, scope="system", at=AT, model="moonshotai/Kimi-K2.5")
        server.answers[f"find -L {folder}"] = Said("100 a.safetensors\n150 b.safetensors\n")
        second = await host.sample(UNIT, scope="system", at=AT, model="moonshotai/Kimi-K2.5")
    assert (first.model_size, second.model_size) == (100, 250)


async def test_a_lost_link_is_an_error(server: SshServer) -> None:
    async with connect(server) as host:
        await host.sample(UNIT, scope="system", at=AT)
        await server.stop()
        with pytest.raises(HostUnreachable):
            await host.sample(UNIT, scope="system", at=AT)


async def test_a_name_that_is_no_units_goes_nowhere(server: SshServer) -> None:
    async with connect(server) as host:
        with pytest.raises(UnitUnknown):
            await host.sample(UnitName("--all"), scope="system", at=AT)
    assert server.commands == []


async def test_a_stack_by_whoever_may(server: SshServer) -> None:
    server.answers["py-spy dump --pid 11"] = Said("Process 11: sglang\n")
    server.answers["py-spy dump --pid 12"] = Said("", "Permission Denied: Try running again\n", 1)
    server.answers["sudo -n py-spy dump --pid 12"] = Said("Process 12: sglang\n")
    async with connect(server) as host:
        assert await host.dump_stack(11) == "Process 11: sglang\n"
        assert await host.dump_stack(12) == "Process 12: sglang\n"
        assert await host.dump_stack(13) is None
    async with connect(server, sudo=False) as host:
        assert await host.dump_stack(12) is None

"""What a real host lets be measured of a unit, and what it keeps to itself."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bot.clients.ssh_evidence import NO_GPUS, NO_READS, NO_SHARDS
from bot.core.events import UnitName, Verb
from tests.systemd.following import eventually, follow_until, here

if TYPE_CHECKING:
    from bot.clients.ssh import Host
    from bot.core.evidence import Sample
    from tests.systemd.real_host import RealHost

SWIFT = {"distributed": 0.05, "weights": 0.1, "memory": 0.05, "graphs": 0.05, "warmup": 0.1}
MODEL = "/opt/models/kimi-k2.5"
SHARD = "model-00003-of-00064.safetensors"
READER = UnitName("reader.service")
# Reads a file from disk, past the page cache, and keeps a shard mapped.
READER_FILE = f"""\
[Service]
ExecStart=/usr/bin/python3 -c 'import mmap, time; f = open("{MODEL}/{SHARD}", "rb"); \\
    m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); print(m[0], flush=True); time.sleep(1000)'
"""


async def take(host: Host, unit: UnitName, *, scope: str = "system") -> Sample:
    return await host.sample(unit, scope=scope, at=datetime.now(UTC), model=MODEL)


async def hang_in_graphs(host: Host, real_host: RealHost) -> None:
    await real_host.set_scenario("hang-in-graphs", seconds=SWIFT)
    position = await here(host)
    await host.change(real_host.unit, Verb.START, scope="system")
    await follow_until(host, real_host, "Capture cuda graph end", position=position)


async def test_processes_by_rank_and_what_is_refused(host: Host, real_host: RealHost) -> None:
    await hang_in_graphs(host, real_host)
    sample = await take(host, real_host.unit)
    unit = await host.show(real_host.unit, scope="system")
    assert sample.invocation == unit.invocation
    assert set(sample.ranks) == {f"TP{rank}" for rank in range(8)}
    assert len(set(sample.ranks.values())) == 8
    assert sample.cpu is not None
    assert sample.gpus is None
    assert sample.shard is None
    assert set(sample.refused) == {NO_READS, NO_SHARDS, NO_GPUS}  # the unit runs as root, kimi does not


async def test_a_rank_that_is_killed_is_seen_no_more(host: Host, real_host: RealHost) -> None:
    await hang_in_graphs(host, real_host)
    ranks = (await take(host, real_host.unit)).ranks
    [(rank, pid)] = [(rank, pid) for rank, pid in ranks.items() if rank == "TP5"]
    await real_host.run(f"kill -9 {pid}")

    async def gone() -> bool:
        return set((await take(host, real_host.unit)).ranks) == set(ranks) - {rank}

    await eventually(gone)
    assert (await host.show(real_host.unit, scope="system")).active == "active"


async def test_a_stopped_unit_is_measured_too(host: Host, real_host: RealHost) -> None:
    sample = await take(host, real_host.unit)
    assert (sample.ranks, sample.read, sample.memory) == ({}, None, None)


async def test_bytes_and_shards_of_ones_own_processes(host: Host, real_host: RealHost) -> None:
    folder = "/home/kimi/.config/systemd/user"
    as_user = "runuser -u kimi -- env XDG_RUNTIME_DIR=/run/user/1000 systemctl --user"
    await real_host.run(f"mkdir -p {folder} {MODEL} && head -c 9000000 /dev/urandom > {MODEL}/{SHARD}")
    await real_host.run(f"head -c 1000 /dev/urandom > {MODEL}/{SHARD.replace('03', '04')}")
    await real_host.run(f"printf %s {shlex.quote(READER_FILE)} > {folder}/{READER}")
    await real_host.run(f"chown -R kimi: /home/kimi/.config; {as_user} daemon-reload")
    await host.change(READER, Verb.START, scope="user")

    async def mapped() -> bool:
        shard = (await take(host, READER, scope="user")).shard
        return shard is not None and (shard.number, shard.total) == (3, 64)

    try:
        await eventually(mapped)
        sample = await take(host, READER, scope="user")
        assert sample.read is not None
        assert sample.model_size == 9_001_000
        assert sample.refused == (NO_GPUS,)
    finally:
        await real_host.run(f"{as_user} stop {READER}")


async def test_a_driver_as_there_is_one(host: Host, real_host: RealHost) -> None:
    smi = "#!/bin/sh\nprintf '0, 75612, 81559, 100\\n1, 4, 81559, [N/A]\\n'\n"
    await real_host.run(f"printf %b {shlex.quote(smi)} > /usr/bin/nvidia-smi; chmod 755 /usr/bin/nvidia-smi")
    try:
        gpus = (await take(host, real_host.unit)).gpus
        assert gpus is not None
        assert [(gpu.index, gpu.utilisation) for gpu in gpus] == [(0, 100), (1, None)]
    finally:
        await real_host.run("rm /usr/bin/nvidia-smi")

"""Samples what a host measures of a unit: a few fixed commands, begun together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import structlog

from bot.clients.ssh_extras import HUNG
from bot.clients.ssh_link import Finished
from bot.core.evidence import (
    HUB_PROPERTIES,
    PROCESS_PATTERN,
    SAMPLE_PROPERTIES,
    WEIGHT_FILES,
    Counters,
    Facts,
    Gpu,
    Sample,
    hub_folders,
    parse_counters,
    parse_gpus,
    parse_pids,
    parse_processes,
    parse_sizes,
)

if TYPE_CHECKING:
    from datetime import datetime

    from bot.core.events import UnitName

log = structlog.get_logger()

Run: TypeAlias = Callable[[Sequence[str]], Awaitable[Finished]]

# Where a unit's group may be: version 1 keeps systemd's own hierarchy apart, or has version 2 beside it.
_MOUNTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")
_NVIDIA_SMI = (
    "timeout",
    "8",  # a driver that is stuck lets it hang for ever
    "nvidia-smi",
    "--query-gpu=index,memory.used,memory.total,utilization.gpu",
    "--format=csv,noheader,nounits",
)
_MOST_PROCESSES = 1000  # sshd hands a command on as one argument, which the kernel limits to 128 KiB
_LONG = 200  # characters of a complaint that are logged
NO_COMMAND = 127
NO_GPUS = "GPUs (no nvidia-smi)"
GPUS_FAILED = "GPUs (nvidia-smi fails)"
NO_PROCESSES = "processes (the unit's control group cannot be listed)"
NO_READS = "bytes read (set IOAccounting=yes in the unit, or let kimi's user read /proc/PID/io)"
NO_SHARDS = "which shard is mapped (/proc/PID/maps belongs to another user)"


class Sampler:
    """One host's. Remembers what does not change between two samples."""

    def __init__(self, run: Run, *, dump: Run) -> None:
        """`run` answers soon, whatever hangs; `dump` waits for what takes its time."""
        self._run = run
        self._dump = dump
        self._gpus = True  # whether there is an nvidia-smi to ask
        self._sizes: dict[str, int | None] = {}

    async def sample(
        self, systemctl: Sequence[str], unit: UnitName, *, at: datetime, model: str | None = None
    ) -> Sample:
        """What a host refuses is None and named in `refused`; only a lost link is an error."""
        (counters, facts), gpus, size = await asyncio.gather(
            self._look_at_unit(systemctl, unit), self._look_at_gpus(), self._measure(systemctl, unit, model)
        )
        read = counters.read
        if read is None and facts is not None:
            read = facts.read
        return Sample(
            at=at,
            invocation=counters.invocation,
            cpu=counters.cpu,
            memory=counters.memory,
            tasks=counters.tasks,
            read=read,
            processes=facts.processes if facts is not None else None,
            shard=facts.shard if facts is not None else None,
            gpus=gpus,
            model_size=size,
            refused=_refused(facts, gpus, read=read, asked=self._gpus),
        )

    async def dump_stack(self, pid: int, *, sudo: bool) -> str | None:
        """Where a process stands in its code; None where py-spy is not installed or not permitted.

        A process of another user takes root, which only the operator's own sudoers line gives.
        """
        dump = ("py-spy", "dump", "--pid", str(pid))
        for command in (dump, ("sudo", "-n", *dump)) if sudo else (dump,):
            finished = await self._dump(command)
            if finished.status == 0 and finished.out.strip():
                return finished.out
            if finished.status == NO_COMMAND:
                return None  # and no sudo that is refused shall be mailed to the host's owner
            log.debug("no_stack", command=command[0], complaint=finished.complaint[:_LONG])
        return None

    async def _look_at_unit(self, systemctl: Sequence[str], unit: UnitName) -> tuple[Counters, Facts | None]:
        shown = await self._run((*systemctl, "show", unit, "-p", ",".join(SAMPLE_PROPERTIES)))
        counters = parse_counters(shown.out)
        return counters, await self._look_at_processes(counters.group) if counters.group else Facts()

    async def _look_at_processes(self, group: str) -> Facts | None:
        folders = [mount + group for mount in _MOUNTS]
        listed = await self._run(("find", *folders, "-name", "cgroup.procs", "-exec", "cat", "{}", "+"))
        pids = parse_pids(listed.out)
        if not 0 < len(pids) <= _MOST_PROCESSES:  # half of them would look as if the others had died
            log.debug("processes_untold", group=group, complaint=listed.complaint[:_LONG])
            return None
        # Titles first: of a long answer the end is cut, and a rank without its title would count as gone.
        files = [f"/proc/{pid}/{name}" for name in ("cmdline", "io", "maps") for pid in pids]
        found = await self._run(("grep", "-a", "-o", "-H", "-E", "-e", PROCESS_PATTERN, *files))
        return parse_processes(found.out, found.err)

    async def _look_at_gpus(self) -> tuple[Gpu, ...] | None:
        if not self._gpus:
            return None
        finished = await self._run(_NVIDIA_SMI)
        if finished.status == NO_COMMAND:
            self._gpus = False
            return None
        if finished.status:
            log.debug("gpus_untold", status=finished.status, complaint=finished.complaint[:_LONG])
        return parse_gpus(finished.out) or None

    async def _measure(self, systemctl: Sequence[str], unit: UnitName, model: str | None) -> int | None:
        """Bytes of the weights on disk. A folder is looked at once; what comes from a hub may still grow."""
        if model is None or model in self._sizes:
            return None if model is None else self._sizes[model]
        folders: tuple[str, ...] = (model,)
        depth = 1
        if not model.startswith("/"):
            shown = await self._run((*systemctl, "show", unit, "-p", ",".join(HUB_PROPERTIES)))
            folders, depth = hub_folders(shown.out, model), 2
        if not folders:
            return None
        named = [word for ending in WEIGHT_FILES for word in ("-o", "-name", f"*{ending}")][1:]
        wanted = ("-maxdepth", str(depth), "(", *named, ")", "-printf", r"%s %f\n")
        finished = await self._run(("find", "-L", *folders, *wanted))
        if finished.status == HUNG:
            return None  # a slow disk may tell the next time
        size = parse_sizes(finished.out)
        if model.startswith("/"):
            self._sizes[model] = size
        return size


def _refused(
    facts: Facts | None, gpus: tuple[Gpu, ...] | None, *, read: int | None, asked: bool
) -> tuple[str, ...]:
    told = [] if facts is not None else [NO_PROCESSES]
    if read is None and facts is not None and "io" in facts.refused:
        told.append(NO_READS)
    if facts is not None and "maps" in facts.refused:
        told.append(NO_SHARDS)
    if gpus is None:
        told.append(GPUS_FAILED if asked else NO_GPUS)
    return tuple(told)

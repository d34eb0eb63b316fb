"""What a practice host measures and lets be seen: control groups, /proc, GPUs, stacks, files of weights."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from bot.practice.systemctl import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.practice.process import Process
    from bot.practice.shell import Unkindness
    from bot.practice.units import Unit

MODELS = "/models/"
SHARDS = 64
SHARD = 8_546_875_000  # bytes of each; the model's 64 are 547 GB
WEIGHTS = SHARDS * SHARD
_GROUPS = "/sys/fs/cgroup"
_GPU_TOTAL = 143_771  # MiB, of an H200
_IDLE = 4  # MiB that the driver holds
_MIB = 2**20
_PID = re.compile(r"^/proc/([0-9]+)/(cmdline|io|maps)$")
_NO_SMI = "timeout: failed to run command 'nvidia-smi': No such file or directory\n"
_DENIED = (
    "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'\n"
)


class Instruments:
    def __init__(self, units: dict[str, Unit], unkind: Unkindness, *, gpus: int) -> None:
        self._units = units
        self._unkind = unkind
        self._gpus = gpus

    def answer(self, words: Sequence[str], *, root: bool) -> Answer | None:
        """What a command prints; None for one that is none of these."""
        match list(words):
            case ["find", "-L", folder, *_]:
                return _list_weights(folder)
            case ["find", first, *_] if first.startswith(_GROUPS):
                return self._list_processes(words[1:])
            case ["grep", "-a", "-o", "-H", "-E", "-e", pattern, *files]:
                return self._grep(pattern, files)
            case ["timeout", _, "nvidia-smi", *_]:
                return self._ask_driver()
            case ["py-spy", "dump", "--pid", pid]:
                return self._dump(int(pid), root=root)
            case _:
                return None

    # -- processes -----------------------------------------------------------------------------

    def _running(self) -> list[tuple[Unit, Process]]:
        return [(unit, unit.process) for unit in self._units.values() if unit.process is not None]

    def _list_processes(self, words: Sequence[str]) -> Answer:
        folders = [word for word in words if word.startswith(_GROUPS)]
        missing = "".join(f"find: '{each}': No such file or directory\n" for each in folders[1:])
        pids = [
            pid
            for unit, process in self._running()
            if _GROUPS + unit.file.cgroup in folders
            for pid in _titles(unit, process)
        ]
        return Answer(1, output="".join(f"{pid}\n" for pid in pids), error=missing)

    def _grep(self, pattern: str, files: Sequence[str]) -> Answer:
        wanted = re.compile(pattern, re.MULTILINE)
        out, complaints = "", ""
        for name in files:
            content = self._read(name)
            if isinstance(content, Answer):
                complaints += content.error
            else:
                out += "".join(f"{name}:{match[0]}\n" for match in wanted.finditer(content))
        return Answer(2 if complaints else 0 if out else 1, output=out, error=complaints)

    def _read(self, name: str) -> str | Answer:
        """A file of /proc; an Answer that complains where it is not there or not to be read."""
        found = _PID.match(name)
        for unit, process in self._running() if found is not None else ():
            titles = _titles(unit, process)
            pid = int(found[1]) if found is not None else 0
            if pid not in titles:
                continue
            kind = PurePosixPath(name).name
            if kind == "cmdline":
                return titles[pid]
            if self._unkind.processes_closed:
                return Answer(2, error=f"grep: {name}: Permission denied\n")
            return _accounts(process, pid) if kind == "io" else _mappings(process, pid)
        return Answer(2, error=f"grep: {name}: No such file or directory\n")

    def _dump(self, pid: int, *, root: bool) -> Answer:
        if self._unkind.no_py_spy:
            return Answer(127, error="sh: 1: py-spy: not found\n")
        if not root:
            return Answer(1, error=_DENIED)
        for unit, process in self._running():
            if pid in _titles(unit, process):
                return Answer(output=_stack(pid, _titles(unit, process)[pid]))
        return Answer(1, error=f"Error: Failed to open process {pid} - check if it is running.\n")

    # -- GPUs ----------------------------------------------------------------------------------

    def _ask_driver(self) -> Answer:
        if self._unkind.no_nvidia_smi:
            return Answer(127, error=_NO_SMI)
        meters = [process.meter for _, process in self._running()]
        used = _IDLE + sum(meter.gpu_bytes for meter in meters) // _MIB
        busy = max((meter.utilisation for meter in meters), default=0)
        rows = (f"{index}, {used}, {_GPU_TOTAL}, {busy}\n" for index in range(self._gpus))
        return Answer(output="".join(rows))


def _titles(unit: Unit, process: Process) -> dict[int, str]:
    """Command lines by pid, as processes write them over with titles of their own."""
    ranks = {pid: f"sglang::scheduler_TP{rank}" for rank, pid in process.ranks.items()}
    return {process.pid: unit.file.command_line, **ranks, process.pid + 3: "sglang::detokenizer"}


def _share(process: Process, pid: int) -> int:
    ranks = len(process.ranks)
    return process.meter.read_bytes // ranks if ranks and pid in process.ranks.values() else 0


def _accounts(process: Process, pid: int) -> str:
    read = _share(process, pid)
    return (
        f"rchar: {read + 912_004}\nwchar: 51822\nsyscr: 4410\nsyscw: 911\nread_bytes: {read}\n"
        "write_bytes: 4096\ncancelled_write_bytes: 0\n"
    )


def _mappings(process: Process, pid: int) -> str:
    """The libraries, and while a rank reads, the shard it reads."""
    mapped = "7f21a4000000-7f21a5c00000 r-xp 00000000 08:01 412 /usr/lib/x86_64-linux-gnu/libcuda.so.1\n"
    if process.meter.reads and pid in process.ranks.values():
        number = min(process.meter.read_bytes // SHARD + 1, SHARDS)
        name = f"model-{number:05d}-of-{SHARDS:06d}.safetensors"
        mapped += f"7f1c00000000-7f1dfd6f0000 r--s 00000000 103:02 88 {MODELS}kimi-k2.5/{name}\n"
    return mapped


def _list_weights(folder: str) -> Answer:
    if not folder.startswith(MODELS):
        return Answer(1, error=f"find: '{folder}': No such file or directory\n")
    names = (f"model-{number:05d}-of-{SHARDS:06d}.safetensors" for number in range(1, SHARDS + 1))
    return Answer(output="".join(f"{SHARD} {name}\n" for name in names))


def _stack(pid: int, title: str) -> str:
    return (
        f"Process {pid}: {title}\nPython v3.12.3 (/opt/sglang/bin/python3.12)\n\n"
        'Thread 0x7F3A0C (active): "MainThread"\n'
        "    all_reduce (torch/distributed/distributed_c10d.py:2810)\n"
        "    capture_one_batch_size (model_executor/cuda_graph_runner.py:688)\n"
        "    capture (model_executor/cuda_graph_runner.py:541)\n"
        "    run_scheduler_process (managers/scheduler.py:3012)\n"
    )

"""The few lines of the kernel that explain a failure: whom the OOM killer ended, which GPU broke."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.core.startup_state import MemberState

_MATTERS = re.compile(
    r"oom-kill:|Killed process \d|NVRM: Xid|amdgpu.{0,200}(?:GPU reset|ring .{0,40} timeout)"
)
_CHOSEN = re.compile(r"oom-kill:.*?task_memcg=(?P<group>[^,]*),task=(?P<task>[^,]*),pid=(?P<pid>\d+)")
_KILLED = re.compile(r"Killed process (?P<pid>\d+) \((?P<task>[^)]*)\)")
_FAULT = re.compile(r"NVRM: Xid .*?pid='?(?P<pid>\d+)")
# Names an engine's processes give themselves, as far as the kernel's 15 characters go.
_ENGINES = re.compile(r"sglang|VLLM|vllm|EngineCore|ray::|llama-server|text-generation|trtllm", re.IGNORECASE)
_MOST_PIDS = 64


def matters(reading: str) -> bool:
    """The cheap look: most of what a kernel says has nothing to do with an engine."""
    return _MATTERS.search(reading) is not None


def belongs(reading: str, member: MemberState, *, pids: frozenset[int]) -> bool:
    """Whether the line is about a process of the unit. `pids`: those that wrote to its log.

    The OOM killer first names the group of the process it has chosen, then the process it killed; where both
    lines are there, the group decides. A fault of a GPU that names no process may be anybody's, so it counts.
    """
    if chosen := _CHOSEN.search(reading):
        ours = member.unit_name in chosen["group"].split("/")
        known = member.chosen if ours else member.spared
        known[:] = [*known, int(chosen["pid"])][-_MOST_PIDS:]
        return ours
    if killed := _KILLED.search(reading):
        pid = int(killed["pid"])
        if pid in member.chosen:
            return True
        if pid in member.spared:
            return False
        return _is_known(pid, member, pids) or _ENGINES.match(killed["task"]) is not None
    fault = _FAULT.search(reading)
    return fault is None or not pids or _is_known(int(fault["pid"]), member, pids)


def is_kill(reading: str) -> bool:
    return _KILLED.search(reading) is not None or _CHOSEN.search(reading) is not None


def read_pid(reading: str) -> int | None:
    """The process that was killed."""
    found = _KILLED.search(reading) or _CHOSEN.search(reading)
    return int(found["pid"]) if found else None


def read_culprit(reading: str) -> int | None:
    """The process whose work a GPU failed at; None where the line names none."""
    found = _FAULT.search(reading)
    return int(found["pid"]) if found else None


def names_process(reading: str) -> bool:
    """The line that says it best: with the process and its memory."""
    return _KILLED.search(reading) is not None


def _is_known(pid: int, member: MemberState, pids: frozenset[int]) -> bool:
    return pid in pids or (member.unit is not None and pid == member.unit.main_pid)

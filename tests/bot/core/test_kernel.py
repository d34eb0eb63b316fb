"""Which of the kernel's lines matter, and whose they are."""

from __future__ import annotations

import pytest

from bot.core.events import UnitState
from bot.core.kernel import belongs, is_kill, matters, names_process, read_culprit, read_pid
from bot.core.startup_state import MemberState

CHOSEN = (
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,"
    "task_memcg=/system.slice/{unit},task=sglang::schedul,pid={pid},uid=1000"
)
KILLED = "Out of memory: Killed process {pid} ({task}) total-vm:412118536kB, anon-rss:118203944kB, UID:1000"
LIMIT = "Memory cgroup out of memory: Killed process {pid} ({task}) total-vm:1024kB, anon-rss:512kB, UID:1000"
XID = "NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus."
XID_OF = "NVRM: Xid (PCI:0000:4e:00): 31, pid={pid}, name=python3, Ch 00000008, intr 00000000."
OURS = frozenset({501, 502})


def member(**changes: object) -> MemberState:
    made = MemberState(unit_name="sglang-kimi.service")
    for key, value in changes.items():
        setattr(made, key, value)
    return made


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (CHOSEN.format(unit="x.service", pid=1), True),
        (KILLED.format(pid=1, task="x"), True),
        (LIMIT.format(pid=1, task="x"), True),
        (XID, True),
        ("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!", True),
        ("usb 1-1: new high-speed USB device number 4 using xhci_hcd", False),
        ("nvidia-uvm: Loaded the UVM driver, major device number 511.", False),
    ],
)
def test_few_lines_matter(reading: str, expected: bool) -> None:
    assert matters(reading) is expected


def test_the_group_that_was_chosen_decides() -> None:
    ours, others = member(), member()
    assert belongs(CHOSEN.format(unit="sglang-kimi.service", pid=9), ours, pids=frozenset())
    assert belongs(KILLED.format(pid=9, task="nobody knows"), ours, pids=frozenset())
    assert not belongs(CHOSEN.format(unit="other.service", pid=9), others, pids=OURS)
    assert not belongs(KILLED.format(pid=9, task="sglang::schedul"), others, pids=OURS)


@pytest.mark.parametrize(
    ("pid", "task", "expected"),
    [(501, "python3", True), (9, "sglang::schedul", True), (9, "postgres", False), (4711, "python3", True)],
)
def test_without_a_group_the_process_decides(pid: int, task: str, expected: bool) -> None:
    unit = UnitState(load="loaded", active="active", sub="running", main_pid=4711)
    assert belongs(LIMIT.format(pid=pid, task=task), member(unit=unit), pids=OURS) is expected


def test_a_fault_of_a_gpu_counts_unless_it_names_a_strangers_process() -> None:
    assert belongs(XID, member(), pids=OURS)
    assert belongs(XID_OF.format(pid=501), member(), pids=OURS)
    assert not belongs(XID_OF.format(pid=9), member(), pids=OURS)
    assert belongs(XID_OF.format(pid=9), member(), pids=frozenset())  # nothing is known yet


def test_what_a_kill_says() -> None:
    chosen, killed = CHOSEN.format(unit="x", pid=7), KILLED.format(pid=7, task="x")
    assert (is_kill(chosen), names_process(chosen), read_pid(chosen)) == (True, False, 7)
    assert (is_kill(killed), names_process(killed), read_pid(killed)) == (True, True, 7)
    assert (is_kill(XID), read_pid(XID)) == (False, None)


def test_whose_work_a_gpu_failed_at() -> None:
    assert read_culprit("NVRM: Xid (PCI:0000:4f:00): 31, pid='4711', name=python3, Ch 0000001b") == 4711
    assert read_culprit("NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus.") is None

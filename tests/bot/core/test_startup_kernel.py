"""What the kernel's lines do to a startup, and what they do not."""

from __future__ import annotations

from datetime import timedelta

from bot.core.actions import Verdict, VerdictReached
from bot.core.events import LineRead, LogLine, Origin
from tests.support.startup_runs import BEGAN, MEMBER, RUNNING, Run

KILLED = "Out of memory: Killed process {pid} (sglang::schedul) total-vm:9kB, anon-rss:118203944kB, UID:1000"
CHOSEN = "oom-kill:constraint=CONSTRAINT_NONE,task_memcg=/system.slice/{unit},task=x,pid={pid},uid=0"
XID = "NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus."


def loading() -> Run:
    """Both ranks load weights; TP0 is process 100, TP1 process 101."""
    run = Run()
    run.start_process()
    run.observe(RUNNING)
    for rank, pid in (("TP0", 100), ("TP1", 101)):
        run.say("Load weight begin. avail mem=78.50 GB", rank=rank, pid=pid)
    return run


def kernel(run: Run, text: str, *, ago: float = 0) -> None:
    at = run.now - timedelta(seconds=ago)
    run.tell(LineRead(MEMBER, LogLine(text, text, at=at, origin=Origin.KERNEL)))


def end_by_kill(run: Run, result: str) -> VerdictReached:
    run.systemd("sglang-kimi.service: Main process exited, code=killed, status=9/KILL")
    run.systemd(f"sglang-kimi.service: Failed with result '{result}'.")
    run.observe(RUNNING, active="failed", sub="failed", result=result, exec_code=2, exec_status=9, main_pid=0)
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.FAILED
    return run.replies(VerdictReached)[-1]


def test_a_rank_that_the_kernel_killed_is_the_cause() -> None:
    run = loading()
    kernel(run, CHOSEN.format(unit="sglang-kimi.service", pid=101))
    kernel(run, KILLED.format(pid=101))
    told = end_by_kill(run, "oom-kill")
    assert told.cause is not None
    assert "ran out of memory (RAM)" in told.cause
    assert told.root_error == KILLED.format(pid=101)
    assert told.rank == "TP1"
    assert told.phase == "weights"


def test_it_is_the_cause_too_where_the_engine_ends_itself_after_it() -> None:
    run = loading()
    kernel(run, KILLED.format(pid=101))
    told = end_by_kill(run, "signal")
    assert told.root_error == KILLED.format(pid=101)


def test_a_rank_killed_in_an_engine_that_waits_for_it_for_ever_is_a_failure() -> None:
    run = loading()
    kernel(run, KILLED.format(pid=101))
    run.unit = RUNNING
    run.wait_for_verdict(30)
    assert run.startup.verdict is Verdict.FAILED


def test_sigkill_alone_is_the_engines_own_hand() -> None:
    told = end_by_kill(loading(), "signal")
    assert told.cause is not None
    assert "does not mean that memory ran out" in told.cause
    assert told.root_error is None


def test_what_was_killed_elsewhere_or_before_is_nobodys_matter() -> None:
    run = loading()
    kernel(run, CHOSEN.format(unit="other.service", pid=7))
    kernel(run, KILLED.format(pid=7))
    kernel(run, KILLED.format(pid=101), ago=3600)
    kernel(run, "usb 1-1: new device")
    told = end_by_kill(run, "signal")
    assert told.root_error is None


def test_a_gpu_that_fell_off_the_bus_is_named() -> None:
    run = loading()
    kernel(run, XID)
    told = end_by_kill(run, "signal")
    assert told.cause is not None
    assert "Xid 79" in told.cause
    assert told.root_error == XID


def test_the_kernels_lines_are_no_progress() -> None:
    run = loading()
    lines = run.startup.state.lines
    since = run.startup.state.silence.since
    run.wait(5)
    kernel(run, XID)
    assert run.startup.state.lines == lines
    assert run.startup.state.silence.since == since
    assert run.now > BEGAN

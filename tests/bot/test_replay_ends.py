"""Saved logs of services that died: who says so, and what it is called."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from bot.replay import replay
from tests.support.journals import Journal, journal, tp

if TYPE_CHECKING:
    from bot.core.outcome import Outcome


def run(log: Journal | str) -> Outcome:
    data = log.encode() if isinstance(log, str) else log.data()
    return replay(io.BytesIO(data), engine="auto")


@pytest.mark.parametrize(
    "end", ["Killed", "Segmentation fault (core dumped)", "Fatal Python error: Bus error"]
)
def test_death_without_a_traceback_is_failure(end: str) -> None:
    assert run(journal().launched().connected().loading().bare(end)).phase == "weights"
    assert run(journal().healthy().bare(end)).state == "failed"


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        ("[1]+  Killed                  nohup python3 -m sglang.launch_server", "killed"),
        ("[1]    4242 killed     python3 -m sglang.launch_server", "killed"),
        ("zsh: segmentation fault  python3 -m sglang.launch_server", "segfault"),
        ("command terminated with exit code 137", "child-killed"),
        ("kimi-1 exited with code 137", "child-killed"),
        ('python: /src/lib/Alloc.cpp:40: void f(int): Assertion `a != b && "no"\' failed.', "abort"),
        ("Failed: Cuda error /src/custom_all_reduce.cuh:368 'invalid argument'", "custom-all-reduce"),
        ("kimi-1 exited with code 139", "segfault"),
        ("nvshmem initialization failed, exiting", "nvshmem"),
        ("Command terminated by signal 9", "child-killed"),
        ("/start.sh: line 4:    42 Terminated              python3 -m sglang.launch_server", "terminated"),
        ("Process finished with exit code 139 (interrupted by signal 11: SIGSEGV)", "segfault"),
        ("Floating point exception (core dumped)", "fatal-signal"),
        ("*** SIGSEGV received at time=1742 on cpu 3 ***", "segfault"),
        ("*** SIGSEGV (@0x0) received by PID 7 (TID 0x7f) from PID 0; stack trace: ***", "segfault"),
        ("      Reason:       OOMKilled", "memory-limit"),
        ("Back-off restarting failed container kimi in pod kimi-0", "restart-loop"),
        ("(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM)", "host-out-of-memory"),
        ("[2026-05-29 23:49:40] Child process unexpectedly failed with exitcode=9. pid=7", "child-killed"),
        ("Fatal Python error: none_dealloc: deallocating None", "abort"),
        (
            "Memory access fault by GPU node-3 (Agent handle: 0x1) on address 0x2. Reason: Unknown.",
            "rocm",
        ),
        (
            ":0:rocdevice.cpp  :3586: 12 us:  Queue 0x1 aborting with error : HSA_STATUS_ERROR_EXCEPTION",
            "rocm",
        ),
        (
            "rocBLAS error: Cannot read /opt/rocm/lib/TensileLibrary.dat: for GPU arch : gfx1",
            "gpu-unsupported",
        ),
        (
            "[rank1]:[E529 ProcessGroupNCCL.cpp:1] Process group watchdog thread terminated with exception: ",
            "nccl-timeout",
        ),
    ],
)
def test_who_else_tells_of_death(end: str, cause: str) -> None:
    outcome = run(journal().launched().connected().loading().bars(upto=2).bare(end))
    assert (outcome.state, outcome.phase) == ("failed", "weights")
    assert outcome.cause is not None
    assert outcome.cause.id == cause


@pytest.mark.parametrize("command", ["nvidia-smi dmon", "python3 -m http.server 30000"])
def test_what_else_a_script_ends_is_its_own_affair(command: str) -> None:
    log = journal().launched().connected().loading().bars(upto=2)
    told = log.bare(f"/start.sh: line 4:    42 Terminated              {command}")
    assert run(told).state == "starting"


@pytest.mark.parametrize(
    "line",
    [
        "*** SIGTERM received at time=1742 on cpu 3 ***",
        "(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM)",
        'OCI runtime exec failed: exec failed: exec: "curl": executable file not found in $PATH: unknown',
    ],
)
def test_what_ends_beside_the_engine_ends_no_start(line: str) -> None:
    log = journal().launched().connected().loading().bars(upto=2).bare(line)
    assert run(log.bars().loaded()).state == "starting"


@pytest.mark.parametrize(
    "end",
    [
        "/usr/bin/python3: No module named sglang",
        "sglang serve: error: argument --attention-backend: invalid choice: 'x' (choose from 'a', 'b')",
        "docker: Error response from daemon: could not select device driver",
        'exec: "python3": executable file not found in $PATH',
        "exec /usr/bin/python3: exec format error",
    ],
)
def test_what_never_started_failed(end: str) -> None:
    outcome = run(end + "\n")
    assert (outcome.state, outcome.phase) == ("failed", "process")


def test_without_a_root_all_that_follows_from_it_is_evidence() -> None:
    log = journal().launched().connected().loading().bars(upto=2)
    log.say("Rank 0 scheduler is dead. Please check if there are relevant logs.").say("Exit code: -9")
    cause = run(log).cause
    assert cause is not None
    assert cause.id == "host-out-of-memory"
    assert [line.partition(".")[0] for line in cause.evidence] == [
        "Rank 0 scheduler is dead",
        "Exit code: -9",
    ]


def test_the_stack_of_a_crash_tells_its_phase_where_nothing_else_does() -> None:
    stack = [
        "Current thread 0x00007f01 (most recent call first):",
        '  File "/opt/engine/kernel.py", line 4 in forward',
        '  File "/opt/engine/scheduler.py", line 9 in event_loop_overlap',
        '  File "/opt/engine/loader.py", line 9 in load_model',
    ]
    outcome = run("\n".join(["Fatal Python error: Segmentation fault", "", *stack]))
    assert (outcome.state, outcome.phase) == ("failed", "ready")
    log = journal().launched().connected().loading().bare("Fatal Python error: Segmentation fault", *stack)
    assert run(log).phase == "weights"


def test_a_signal_that_hits_the_logger_is_no_root() -> None:
    log = journal().healthy().bare("--- Logging error ---", "Traceback (most recent call last):")
    log.bare('  File "/usr/lib/python3/logging.py", line 1, in emit')
    log.bare("RuntimeError: reentrant call inside <_io.BufferedWriter name='<stderr>'>")
    log.bare("Message: 'Received sigquit from a child process. It usually means the child failed.'")
    assert run(log).state == "failed"
    outcome = run(log.bare("Killed"))
    assert outcome.cause is not None
    assert outcome.cause.id == "child-died"


def test_the_shells_word_is_the_last_and_not_the_first() -> None:
    log = journal("0.5.8", tp(2)).launched().connected().loading()
    log.bare("Traceback (most recent call last):", '  File "x.py", line 1, in f', "KeyError: 'layers.1'")
    outcome = run(log.bars().sigquit().bare("Killed"))
    assert outcome.cause is not None
    assert outcome.cause.evidence[0] == "KeyError: 'layers.1'"

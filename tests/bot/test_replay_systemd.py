from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from bot.replay import replay
from tests.support.journals import Journal, journal

if TYPE_CHECKING:
    from bot.core.outcome import Outcome

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has no more"
SYSTEMD = "May 29 23:51:00 llm-two systemd[1]: kimi.service: "
EXITED = "Main process exited, code="


@pytest.mark.parametrize(
    ("ends", "cause"),
    [
        ([f"{EXITED}killed, status=9/KILL", "Failed with result 'signal'."], "own-kill"),
        ([f"{EXITED}exited, status=3/NOTIMPLEMENTED", "Failed with result 'exit-code'."], "ended-with-error"),
        ([f"{EXITED}dumped, status=11/SEGV", "Failed with result 'core-dump'."], "segfault"),
        ([f"{EXITED}dumped, status=6/ABRT", "Failed with result 'core-dump'."], "abort"),
        ([f"{EXITED}dumped, status=7/BUS", "Failed with result 'core-dump'."], "bus-error"),
        ([f"{EXITED}exited, status=203/EXEC", "Failed with result 'exit-code'."], "unit-command"),
        (["A process of this unit has been killed by the OOM killer."], "host-out-of-memory"),
        ([f"{EXITED}killed, status=9/KILL", "Failed with result 'oom-kill'."], "host-out-of-memory"),
        (["Failed with result 'timeout'."], "unit-timeout"),
        (["Failed with result 'watchdog'."], "unit-watchdog"),
        (["Start request repeated too quickly.", "Failed with result 'start-limit-hit'."], "start-limit"),
    ],
)
def test_systemd_tells_how_it_ended(ends: list[str], cause: str) -> None:
    log = "\n".join(f"May 29 23:49:00 llm-two sglang[7]: {line}" for line in _loading().lines)
    outcome = run(log + "\n" + "".join(f"{SYSTEMD}{end}\n" for end in ends))
    assert (outcome.state, outcome.phase) == ("failed", "weights")
    assert outcome.cause is not None
    assert outcome.cause.id == cause


def run(log: str) -> Outcome:
    return replay(io.BytesIO(log.encode()), engine="auto")


def _loading() -> Journal:
    return journal().launched().connected().loading().bars(upto=2)


@pytest.mark.parametrize(
    ("result", "cause"), [("signal", "gpu-out-of-memory"), ("oom-kill", "host-out-of-memory")]
)
def test_the_logs_own_root_counts_more_than_all_but_the_oom_killer(result: str, cause: str) -> None:
    lines = _loading().scheduler_exception("TP3", OOM).sigquit().lines
    log = "\n".join(f"May 29 23:49:00 llm-two sglang[7]: {line}" for line in lines)
    outcome = run(f"{log}\n{SYSTEMD}Failed with result '{result}'.\n")
    assert outcome.cause is not None
    assert outcome.cause.id == cause


STATUS = """\
● kimi.service - Kimi
     Loaded: loaded (/etc/systemd/system/kimi.service; enabled; preset: enabled)
     Active: activating (auto-restart) (Result: exit-code) since Fri 2026-05-29 23:49:47 UTC; 2s ago
    Process: 4711 ExecStart=/opt/kimi/bin/serve /models/kimi (code=exited, status={status})
   Main PID: 4711 (code=exited, status={status})
        CPU: 16.4s

"""


@pytest.mark.parametrize(
    ("status", "cause"), [("203/EXEC", "unit-command"), ("1/FAILURE", "ended-with-error")]
)
def test_the_head_of_systemctl_status_tells_how_it_ended(status: str, cause: str) -> None:
    outcome = run(STATUS.format(status=status))
    assert outcome.cause is not None
    assert (outcome.state, outcome.cause.id) == ("failed", cause)


def test_the_tail_of_systemctl_status_tells_why() -> None:
    lines = _loading().scheduler_exception("TP3", OOM).sigquit().lines[-9:]
    tail = "\n".join(f"May 29 23:49:00 llm-two sglang[7]: {line}" for line in lines)
    outcome = run(f"{STATUS.format(status='1/FAILURE')}{tail}\n{SYSTEMD}{EXITED}exited, status=1/FAILURE\n")
    assert outcome.cause is not None
    assert outcome.cause.id == "gpu-out-of-memory"


def test_a_service_that_runs_has_not_failed() -> None:
    head = STATUS.replace("activating (auto-restart) (Result: exit-code)", "active (running)")
    outcome = run(head.format(status="0/SUCCESS") + _loading().text())
    assert outcome.state == "starting"


def test_other_units_of_the_host_are_no_starts_and_no_ends_of_this_one() -> None:
    host = "May 29 23:50:00 llm-two systemd[1]: "
    others = (
        f"{host}Started session-6.scope - Session 6 of User kim.\n"
        f"{host}fstrim.service: Main process exited, code=exited, status=64/USAGE\n"
        f"{host}fstrim.service: Failed with result 'exit-code'.\n"
        f"{host}Stopping user@1000.service - User Manager for UID 1000...\n"
    )
    lines = "\n".join(f"May 29 23:49:00 llm-two sglang[7]: {line}" for line in _loading().lines)
    log = f"{host}Started kimi.service - Kimi.\n{lines}\n{others}"
    assert (run(log).state, run(log).phase) == ("starting", "weights")
    assert run(f"{log}{SYSTEMD}Failed with result 'signal'.\n").state == "failed"


def test_a_stop_says_what_systemd_said_of_it() -> None:
    lines = "\n".join(f"May 29 23:49:00 llm-two sglang[7]: {line}" for line in _loading().lines)
    stopping = f"{lines}\nMay 29 23:50:00 llm-two systemd[1]: Stopping kimi.service - Kimi...\n"
    stopped = run(stopping)
    assert stopped.cause is not None
    assert (stopped.cause.id, stopped.cause.evidence) == ("stopped", ("Stopping kimi.service - Kimi...",))
    killed = run(
        f"{stopping}{SYSTEMD}State 'stop-sigterm' timed out. Killing.\n"
        f"{SYSTEMD}{EXITED}killed, status=9/KILL\n{SYSTEMD}Failed with result 'timeout'.\n"
    )
    assert killed.cause is not None
    assert (killed.state, killed.phase, killed.cause.id) == ("failed", "stopping", "unit-timeout")


def test_a_start_that_takes_too_long_has_failed_before_its_processes_are_gone() -> None:
    lines = "\n".join(f"May 29 23:49:00 llm-two sglang[7]: {line}" for line in _loading().lines)
    outcome = run(f"{lines}\n{SYSTEMD}start operation timed out. Terminating.\n")
    assert outcome.cause is not None
    assert (outcome.state, outcome.phase, outcome.cause.id) == ("failed", "weights", "unit-timeout")


def test_a_command_that_is_not_there_is_told_by_the_process_that_was_to_become_it() -> None:
    outcome = run(
        "May 29 23:49:00 llm-two systemd[1]: Started kimi.service - Kimi.\n"
        "May 29 23:49:00 llm-two (serve)[7]: kimi.service: Failed to locate executable /opt/kimi/serve: x\n"
    )
    assert outcome.cause is not None
    assert (outcome.state, outcome.phase, outcome.cause.id) == ("failed", "process", "unit-command")


@pytest.mark.parametrize("then", ["Stopping kimi.service - Kimi...", "Stopped kimi.service - Kimi."])
def test_a_start_that_failed_is_not_one_that_was_stopped(then: str) -> None:
    lines = _loading().scheduler_exception("TP3", OOM).sigquit().lines
    log = "\n".join(f"May 29 23:49:00 llm-two sglang[7]: {line}" for line in lines)
    outcome = run(f"{log}\nMay 29 23:51:00 llm-two systemd[1]: {then}\n")
    assert outcome.cause is not None
    assert (outcome.state, outcome.phase, outcome.cause.id) == ("failed", "weights", "gpu-out-of-memory")


def test_what_is_printed_while_it_is_stopped_is_no_reason() -> None:
    lines = "\n".join(f"May 29 23:49:00 llm-two sglang[7]: {line}" for line in _loading().lines)
    stopping = f"{lines}\nMay 29 23:50:00 llm-two systemd[1]: Stopping kimi.service - Kimi...\n"
    said = "May 29 23:50:01 llm-two sglang[7]: "
    left = f"{stopping}{said}Traceback (most recent call last):\n{said}SystemExit: 0\n"
    assert run(left).to_json()["cause"]["id"] == "stopped"
    interrupted = f"{stopping}{said}KeyboardInterrupt\n"
    assert run(interrupted).to_json()["cause"]["id"] == "interrupted"
    killed = f"{interrupted}{SYSTEMD}State 'stop-sigterm' timed out. Killing.\n"
    assert run(killed).to_json()["cause"]["id"] == "unit-timeout"

"""How systemd tells the end of a unit, in fields and in words, and how it is told on."""

from __future__ import annotations

import pytest

from bot.core.downfall import Said, is_crash, note_end, note_state, read_exit, read_manager, say_end, say_loop
from bot.core.events import LogLine, Origin, UnitState
from bot.core.startup_state import MemberState

UNIT = "sglang-kimi.service"


def line(text: str, **fields: str) -> LogLine:
    return LogLine(text, text, origin=Origin.MANAGER, fields=fields)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"Starting {UNIT} - Kimi...", Said.STARTING),
        (f"Started {UNIT} - Kimi.", Said.STARTING),
        (f"Stopping {UNIT} - Kimi...", Said.STOPPING),
        (f"Stopped {UNIT} - Kimi.", Said.STOPPED),
        (f"Failed to start {UNIT} - Kimi.", Said.NOT_STARTED),
        (f"{UNIT}: Main process exited, code=killed, status=9/KILL", Said.EXITED),
        (f"{UNIT}: Failed with result 'signal'.", Said.FAILED),
        (f"{UNIT}: Deactivated successfully.", Said.DEACTIVATED),
        (f"{UNIT}: Scheduled restart job, restart counter is at 3.", Said.RESTARTING),
        (f"{UNIT}: A process of this unit has been killed by the OOM killer.", Said.OUT_OF_MEMORY),
        (f"{UNIT}: State 'stop-sigterm' timed out. Killing.", Said.FORCED),
        (f"{UNIT}: Start request repeated too quickly.", Said.TOO_OFTEN),
        (f"{UNIT}: Consumed 3h 2min 1s CPU time.", None),
        (f"{UNIT}: Killing process 42 (python) with signal SIGKILL.", None),
    ],
)
def test_systemds_words(text: str, said: Said | None) -> None:
    assert read_manager(line(text)) is said


def test_the_message_id_counts_before_the_words() -> None:
    assert read_manager(line("Gestoppt.", MESSAGE_ID="9d1aaa27d60140bd96365438aad20286")) is Said.STOPPED


def test_a_helper_process_that_fails_is_not_the_end_of_the_unit() -> None:
    text = f"{UNIT}: Control process exited, code=exited, status=1/FAILURE"
    assert read_manager(line(text, MESSAGE_ID="98e322203f7a4ed290d09fe03c09fe15")) is None


def test_exit_from_words_or_fields() -> None:
    assert read_exit(line("u: Main process exited, code=killed, status=9/KILL")) == "killed 9"
    assert read_exit(line("Hauptprozess beendet", EXIT_CODE="exited", EXIT_STATUS="3")) == "exited 3"
    assert read_exit(line("Hauptprozess beendet")) is None


def test_what_systemds_lines_tell_is_kept() -> None:
    member = MemberState(restarts=0)
    note_end(member, Said.EXITED, line(f"{UNIT}: Main process exited, code=exited, status=1/FAILURE"))
    note_end(member, Said.FAILED, line(f"{UNIT}: Failed with result 'exit-code'."))
    note_end(member, Said.RESTARTING, line("Neustart geplant", N_RESTARTS="4"))
    assert (member.exit, member.result, member.counter) == ("exited 1", "exit-code", 4)


def test_what_the_state_tells_does_not_overwrite_the_lines() -> None:
    member = MemberState(restarts=0, result="oom-kill", exit="killed 9")
    note_state(member, UnitState("loaded", "failed", "failed", result="signal", exec_code=1, exec_status=3))
    assert (member.result, member.exit) == ("oom-kill", "killed 9")


@pytest.mark.parametrize(
    ("sub", "restarts", "counter"),
    [("auto-restart", 0, 1), ("auto-restart-queued", 1, 1), ("running", 2, 2), ("running", 0, None)],
)
def test_the_counter_counts_only_when_the_wait_is_over(sub: str, restarts: int, counter: int | None) -> None:
    member = MemberState(restarts=0)
    note_state(member, UnitState("loaded", "activating", sub, restarts=restarts))
    assert member.counter == counter


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (MemberState(result="oom-kill", exit="killed 9"), "ran out of memory"),
        (MemberState(result="start-limit-hit"), f"`systemctl reset-failed {UNIT}`"),
        (MemberState(result="signal", exit="killed 9"), "does not mean that memory ran out"),
        (MemberState(result="core-dump", exit="dumped 11"), "SIGSEGV"),
        (MemberState(result="signal", exit="killed 200"), "signal 200"),
        (MemberState(result="exit-code", exit="exited 3"), "exit status 3"),
        (MemberState(exit="exited 0"), "ended by itself, without an error"),
        (MemberState(), "ended by itself, without an error"),
        (MemberState(stopping=True, exit="killed 15"), "stopped outside chat"),
        (MemberState(result="timeout"), "ran out of time (timeout)"),
        (MemberState(result="protocol"), "systemd says protocol"),
    ],
)
def test_how_it_ended_in_a_sentence(member: MemberState, words: str) -> None:
    assert words in say_end(member, UNIT)


@pytest.mark.parametrize(
    ("how", "crash"),
    [("killed 9", False), ("killed 15", False), ("exited 1", False), (None, False), ("dumped 6", True)],
)
def test_a_signal_nobody_sends_on_purpose(how: str | None, crash: bool) -> None:
    assert is_crash(MemberState(exit=how)) is crash


def test_a_crash_loop_tells_its_attempt() -> None:
    assert "restart counter 3; attempt 4 follows" in say_loop(3)
    assert "after each crash" in say_loop(None)

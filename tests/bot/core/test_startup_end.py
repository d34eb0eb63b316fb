"""How a startup ends, and what is said and left to do then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from bot.core.actions import Close, EditRoot, Mark, PostReply, RunSmoke, UploadPicture, UploadTail, Verdict
from bot.core.events import PhaseId, Rank, SmokeFinished, SmokeResult, Superseded, UnwatchAsked, UserId, Verb
from tests.support.startup_runs import NEXT, RUNNING, Run, make_plan

UNIT = "sglang-kimi.service"


def loading(**changes: Any) -> Run:
    run = Run(make_plan(**changes))
    run.start_process()
    for rank in ("TP0", "TP1"):
        run.say("Load weight begin. avail mem=78.50 GB", rank=rank)
    run.wait(20)
    return run


def crash(run: Run) -> None:
    """A rank runs out of memory, the other loses its peer, the engine kills itself."""
    run.say("Scheduler hit an exception: Traceback (most recent call last):", rank="TP1", pid=201)
    run.say('  File "loader.py", line 12, in load', stamped=False, pid=201)
    run.say("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", stamped=False, pid=201)
    run.say("Scheduler hit an exception: Traceback (most recent call last):", rank="TP0", pid=200)
    run.say("RuntimeError: [gloo] Connection closed by peer [127.0.0.1]:4242", stamped=False, pid=200)
    run.say("Received sigquit from a child process. It usually means the child failed.")


def die(run: Run, *, code: str = "killed, status=9/KILL", result: str = "signal") -> None:
    run.systemd(f"{UNIT}: Main process exited, code={code}")
    run.systemd(f"{UNIT}: Failed with result '{result}'.")


def test_a_failure_names_its_first_root_error_and_uploads_the_log() -> None:
    run = loading()
    crash(run)
    die(run)
    assert run.wait_for_verdict() == 2
    verdict = run.verdict
    assert verdict.verdict is Verdict.FAILED
    assert "CUDA out of memory" in (verdict.root_error or "")
    assert (verdict.rank, verdict.phase) == (Rank("TP1"), PhaseId.WEIGHTS)
    assert verdict.advice
    assert [view.mark for view in verdict.phases if view.phase is PhaseId.WEIGHTS] == [Mark.FAILED]


def test_the_rank_that_reported_no_timeout_is_named_and_the_line_keeps_its_own() -> None:
    run = loading(ranks=3)
    run.say("Load weight begin. avail mem=78.50 GB", rank="TP2")
    for rank in (0, 2):
        run.say(
            f"[rank{rank}]:[E529 23:59:47 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
            "operation timeout: WorkNCCL(SeqNum=1874, OpType=ALLREDUCE)",
            stamped=False,
        )
    die(run)
    run.wait_for_verdict()
    verdict = run.verdict
    assert (verdict.rank, verdict.speaker) == (Rank("TP1"), Rank("TP0"))
    assert (verdict.cause or "").endswith("TP1 reported no time-out: it is the one to look at")
    failure = run.startup.account(run.now).failure
    assert failure is not None
    assert failure.rank == "TP1"
    assert failure.seen.startswith("torch 2")


def test_a_failure_of_what_nobody_asked_for_stays_in_its_thread() -> None:
    """Its outage has a thread that the channel hears of."""
    run = loading(by=None)
    crash(run)
    die(run)
    run.wait_for_verdict()
    assert run.verdict.verdict is Verdict.FAILED
    assert not any(action.broadcast for action in run.actions if isinstance(action, PostReply))


def test_a_failure_is_told_in_order_and_in_the_channel_too() -> None:
    run = loading()
    crash(run)
    die(run)
    run.wait_for_verdict()
    edit, reply, tail, picture, close = run.actions[-5:]
    assert isinstance(edit, EditRoot)
    assert edit.view.verdict is Verdict.FAILED
    assert isinstance(reply, PostReply)
    assert reply.broadcast
    assert isinstance(tail, UploadTail)
    assert tail.sequence == reply.sequence + 1
    assert picture == UploadPicture()
    assert close == Close(Verdict.FAILED)


@dataclass(frozen=True)
class Ending:
    """One way a start ends badly: what the world does, what must be said, within how many seconds."""

    name: str
    act: Callable[[Run], None]
    words: str
    within: int
    at_least: int = 0


def _killed(run: Run) -> None:
    die(run)


def _killed_seen_by_state_alone(run: Run) -> None:
    run.observe(active="failed", sub="failed", result="signal", exec_code=2, exec_status=9, invocation=None)


def _killed_by_the_kernel(run: Run) -> None:
    run.systemd(f"{UNIT}: A process of this unit has been killed by the OOM killer.")
    die(run, result="oom-kill")


def _segfault(run: Run) -> None:
    die(run, code="dumped, status=11/SEGV", result="core-dump")


def _exit_one(run: Run) -> None:
    die(run, code="exited, status=1/FAILURE", result="exit-code")


def _clean_exit(run: Run) -> None:
    run.systemd(f"{UNIT}: Deactivated successfully.")
    run.observe(active="inactive", sub="dead", exec_code=1, exec_status=0)


def _stopped_by_hand(run: Run) -> None:
    run.systemd(f"Stopping {UNIT} - Kimi...")
    run.observe(active="deactivating", sub="stop-sigterm", job=9)
    run.wait(1)
    run.systemd(f"{UNIT}: Deactivated successfully.")
    run.systemd(f"Stopped {UNIT} - Kimi.")
    run.observe(active="inactive", sub="dead", job=None)


def _loop_by_line(run: Run) -> None:
    run.observe(restart_policy="always")
    _exit_one(run)
    run.wait(5)
    run.systemd(f"{UNIT}: Scheduled restart job, restart counter is at 3.")


def _loop_by_state(run: Run) -> None:
    run.observe(active="activating", sub="auto-restart", result="exit-code", exec_code=1, exec_status=1)


def _loop_between_two_looks(run: Run) -> None:
    run.observe(invocation=NEXT, restarts=1)


def _start_limit(run: Run) -> None:
    _exit_one(run)
    run.systemd(f"{UNIT}: Start request repeated too quickly.")
    run.systemd(f"{UNIT}: Failed with result 'exit-code'.")


def _started_anew_by_hand(run: Run) -> None:
    run.observe(invocation=NEXT)


def _rebooted(run: Run) -> None:
    run.observe(boot="one")
    run.observe(boot="two", active="inactive", sub="dead", invocation=None, main_pid=0)
    run.wait(40)


def _fatal_and_hanging(run: Run) -> None:
    run.say("Scheduler hit an exception: Traceback (most recent call last):", rank="TP1", pid=201)
    run.say("KeyError: 'model.layers.3'", stamped=False, pid=201)


ENDINGS = (
    Ending("killed", _killed, "SIGKILL", 2),
    Ending("killed, by state alone", _killed_seen_by_state_alone, "SIGKILL", 2),
    Ending("killed by the kernel", _killed_by_the_kernel, "host ran out of memory", 2),
    Ending("segfault", _segfault, "SIGSEGV", 2),
    Ending("exit status", _exit_one, "exit status 1", 2),
    Ending("clean exit", _clean_exit, "without an error, before it was ready", 2),
    Ending("stopped by hand", _stopped_by_hand, "stopped outside chat", 5, 4),
    Ending("crash loop, by line", _loop_by_line, "restart counter 3; attempt 4", 2),
    Ending("crash loop, by state", _loop_by_state, "restart counter 1; attempt 2", 2),
    Ending("crash loop, between two looks", _loop_between_two_looks, "restart counter 1", 2),
    Ending("start limit", _start_limit, "exit status 1; systemd refuses to start it", 2),
    Ending("started anew by hand", _started_anew_by_hand, "started anew outside chat", 2),
    Ending("rebooted", _rebooted, "host rebooted: the unit did not come up", 25, 20),
    Ending("fatal, then nothing", _fatal_and_hanging, "a tensor is missing", 10, 10),
)


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.name)
def test_every_bad_end_is_told(ending: Ending) -> None:
    run = loading()
    ending.act(run)
    took = run.wait_for_verdict(30)
    assert run.startup.verdict is Verdict.FAILED
    assert ending.words in (run.verdict.cause or "")
    assert run.verdict.loops == ending.name.startswith("crash loop")
    assert ending.at_least <= took <= ending.within


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.name)
def test_every_bad_end_is_told_when_it_comes_during_the_hold(ending: Ending) -> None:
    run = Run(make_plan(stable_for=timedelta(seconds=60)))
    run.run_to_ready()
    run.wait(5)
    ending.act(run)
    run.wait_for_verdict(30)
    assert run.startup.verdict is Verdict.FAILED
    assert len(run.orders(RunSmoke)) == 1


def test_a_fatal_line_of_an_engine_that_hangs_anyway_quotes_the_error() -> None:
    run = loading()
    _fatal_and_hanging(run)
    run.wait_for_verdict()
    assert "KeyError" in (run.verdict.root_error or "")


def test_a_unit_that_starts_again_by_itself_is_given_the_time_to() -> None:
    run = loading()
    run.observe(restart_policy="on-failure")
    _exit_one(run)
    run.observe(active="failed", sub="failed", result="exit-code")
    assert run.wait_for_verdict() == 10
    assert "starts it again" not in (run.verdict.cause or "")


def test_lines_of_the_next_attempt_are_not_the_watched_ones() -> None:
    run = loading()
    run.observe(restart_policy="always")
    _exit_one(run)
    lines = run.startup.state.lines
    run.say("ImportError: not of this start", stamped=False, invocation=NEXT)
    assert run.startup.state.lines == lines
    run.wait_for_verdict()
    assert run.verdict.root_error is None


def test_an_error_the_startup_survived_is_not_its_cause() -> None:
    run = Run(make_plan())
    run.start_process()
    run.say("ValueError: no such tokenizer file, trying the next", stamped=False)
    run.load_weights()
    die(run)
    run.wait_for_verdict()
    assert run.verdict.root_error is None


@pytest.mark.parametrize(
    ("event", "verdict"),
    [
        (UnwatchAsked(UserId("U9")), Verdict.UNWATCHED),
        (Superseded(UserId("U9"), Verb.STOP), Verdict.SUPERSEDED),
    ],
)
def test_a_person_ends_it_and_is_named_in_the_thread_alone(event: Any, verdict: Verdict) -> None:
    run = loading()
    run.tell(event)
    assert run.verdict.verdict is verdict
    assert run.verdict.by == "U9"
    reply, close = run.actions[-2:]
    assert isinstance(reply, PostReply)
    assert not reply.broadcast
    assert close == Close(verdict)


def test_durations_are_learned_from_a_healthy_start_alone() -> None:
    run = Run(make_plan())
    run.run_to_ready()
    run.wait_for_verdict()
    assert run.closed.durations["weights"] == 20.0
    assert run.closed.durations["graphs"] == 10.0
    assert run.closed.durations["stopping"] == 10.0
    assert run.closed.durations["whole"] == 78.0


def test_after_the_verdict_nothing_is_ordered() -> None:
    run = loading()
    die(run)
    run.wait_for_verdict()
    count = len(run.actions)
    run.say("one more line")
    run.observe(RUNNING)
    run.wait(10)
    assert len(run.actions) == count


def test_resumed_after_the_verdict_its_last_orders_are_given_again_the_very_same() -> None:
    run = loading()
    die(run)
    run.wait_for_verdict()
    given = [action for action in run.actions if isinstance(action, UploadTail | UploadPicture | Close)]
    run.restore()
    assert run.startup.resume(run.now) == given[-3:]
    assert run.startup.resume(run.now) == given[-3:]


def test_resumed_after_a_healthy_verdict_what_it_took_is_still_known() -> None:
    run = Run(make_plan())
    run.run_to_ready()
    run.wait_for_verdict()
    closed = run.closed
    run.restore()
    run.pass_time(600)
    assert run.startup.resume(run.now) == [UploadPicture(), closed]


def test_what_the_log_said_during_a_smoke_test_stands_beside_its_failure() -> None:
    run = Run(smoke=None)
    run.run_to_ready()
    run.wait(3)
    run.say("Traceback (most recent call last):", stamped=False)
    run.say("RuntimeError: the grammar of the tool call does not compile", stamped=False)
    run.tell(SmokeFinished(SmokeResult(passed=False, error="the engine answered HTTP 500: oops")))
    run.wait_for_verdict()
    assert run.verdict.phase is PhaseId.SMOKE
    assert run.verdict.cause == "the smoke test failed: the engine answered HTTP 500: oops"
    assert run.verdict.root_error == "RuntimeError: the grammar of the tool call does not compile"


def test_a_hanging_first_request_does_not_hide_what_the_engine_died_of() -> None:
    run = Run(smoke=None)
    run.run_to_ready()
    run.wait(3)
    run.say("Scheduler hit an exception: Traceback (most recent call last):", rank="TP0")
    run.say("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", stamped=False)
    assert run.wait_for_verdict() < 20
    assert run.verdict.root_error is not None
    assert "illegal memory access" in run.verdict.root_error


def test_a_loop_that_systemd_gave_up_is_told_with_the_way_out() -> None:
    run = loading()
    run.systemd("sglang-kimi.service: Main process exited, code=exited, status=1/FAILURE")
    run.systemd("sglang-kimi.service: Failed with result 'exit-code'.")
    run.systemd("sglang-kimi.service: Scheduled restart job, restart counter is at 1.")
    run.systemd("Started sglang-kimi.service - Kimi.", invocation=NEXT)
    run.systemd("sglang-kimi.service: Start request repeated too quickly.", invocation=NEXT)
    run.systemd("sglang-kimi.service: Failed with result 'exit-code'.", invocation=NEXT)
    run.wait_for_verdict(30)
    cause = run.verdict.cause or ""
    assert "exit status 1" in cause
    assert "systemctl reset-failed sglang-kimi.service" in cause
    assert "starts it again" not in cause

"""What only time brings: a verb without effect, a stall, a lost host, the end of patience."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from bot.core.actions import (
    MovedAgain,
    Noticed,
    Pace,
    PostReply,
    StallReported,
    UploadTail,
    Verdict,
)
from bot.core.events import (
    PatienceExtended,
    PhaseId,
    Rank,
    UserId,
    Verb,
    VerbSent,
)
from tests.support.startup_runs import (
    BEGAN,
    MEMBER,
    OLD_RUNNING,
    READY_LINE,
    RUNNING,
    WARMING,
    Run,
    make_plan,
)

PATIENT = {PhaseId.WEIGHTS: timedelta(seconds=60), PhaseId.STOPPING: timedelta(seconds=60)}


def loading(**changes: Any) -> Run:
    run = Run(make_plan(patience=PATIENT, **changes))
    run.start_process()
    for rank in ("TP0", "TP1"):
        run.say("Load weight begin. avail mem=78.50 GB", rank=rank)
    return run


@pytest.mark.parametrize("by", [None, UserId("U0ALICE")])
def test_a_stall_is_shown_in_the_channel_where_nobody_asked_for_the_start(by: UserId | None) -> None:
    run = loading(by=by)
    run.wait(60)
    told = [
        each for each in run.actions if isinstance(each, PostReply) and isinstance(each.reply, StallReported)
    ]
    assert [each.broadcast for each in told] == [by is None]


def test_a_stall_is_told_once_with_the_log_and_its_end_is_told_too() -> None:
    run = loading()
    run.wait(59)
    assert run.startup.view(run.now).pace is Pace.QUIET
    run.wait(1)
    (stall,) = run.replies(StallReported)
    assert (stall.phase, stall.patience) == (PhaseId.WEIGHTS, timedelta(seconds=60))
    assert stall.last_lines[-1].endswith("avail mem=78.50 GB")
    assert len(run.orders(UploadTail)) == 1
    assert run.startup.view(run.now).pace is Pace.STALLED
    run.wait(300)
    assert len(run.replies(StallReported)) == 1
    run.end_weights("TP0")
    assert run.startup.view(run.now).pace is Pace.MOVING
    assert not run.replies(MovedAgain), "it may be dying"
    run.wait(5)
    (moved,) = run.replies(MovedAgain)
    assert moved.silent == timedelta(seconds=360)
    run.wait(55)
    assert len(run.replies(StallReported)) == 2
    assert run.replies(StallReported)[-1].lagging == (Rank("TP1"),)


def test_a_stall_tells_what_the_counters_say() -> None:
    run = loading()
    counted: dict[str, Any] = {"cpu": timedelta(seconds=100), "memory": 2**30, "read": 0, "tasks": 40}
    run.observe(RUNNING, **counted)
    run.say("a line never seen before", stamped=False)
    run.wait(58)
    run.observe(RUNNING, **{**counted, "cpu": timedelta(seconds=564)})
    run.wait(3)
    told = " / ".join(run.replies(StallReported)[0].evidence)
    assert "40 tasks" in told
    assert "7.9 cores busy" in told
    assert "memory: 1.0 GiB, unchanged" in told
    assert "0.0 GiB" in told


def test_more_patience_moves_the_deadline() -> None:
    run = loading()
    run.wait(30)
    run.tell(PatienceExtended(UserId("U7"), run.now + timedelta(minutes=30)))
    assert run.replies(Noticed)[0].by == "U7"
    run.wait(1799)
    assert not run.replies(StallReported)
    run.wait(1)
    assert len(run.replies(StallReported)) == 1


def test_more_patience_after_a_stall_has_it_told_again_only_if_it_outlasts_that() -> None:
    run = loading()
    run.wait(60)
    run.tell(PatienceExtended(UserId("U7"), run.now + timedelta(minutes=5)))
    run.wait(299)
    assert len(run.replies(StallReported)) == 1
    run.wait(1)
    assert len(run.replies(StallReported)) == 2
    run.end_weights("TP0")
    run.wait(5)
    assert len(run.replies(MovedAgain)) == 1


def test_what_ends_a_stall_by_dying_is_told_as_the_failure_it_is() -> None:
    run = loading()
    run.wait(60)
    run.say("a bar that was not flushed before: 1/18", stamped=False)
    run.observe(RUNNING, active="failed", sub="failed", result="exit-code", main_pid=0)
    run.wait(30)
    assert run.verdict.verdict is Verdict.FAILED
    assert not run.replies(MovedAgain)


def test_a_stop_that_drains_for_ever_is_a_stall() -> None:
    run = Run(make_plan(verb=Verb.STOP, patience=PATIENT))
    run.begin()
    run.tell(VerbSent(MEMBER))
    run.observe(OLD_RUNNING, active="deactivating", sub="stop-sigterm", job=4)
    run.wait(61)
    assert run.replies(StallReported)[0].phase is PhaseId.STOPPING


def test_giving_up_leaves_the_service_alone() -> None:
    run = loading(give_up_after=timedelta(minutes=10))
    run.wait_for_verdict(700)
    assert run.now - BEGAN == timedelta(minutes=10)
    assert "gave up after 10m: still loading weights" in (run.verdict.cause or "")
    assert run.verdict.phase is PhaseId.WEIGHTS
    assert run.orders(UploadTail)


def test_giving_up_says_what_the_proof_lacked() -> None:
    run = Run(make_plan(give_up_after=timedelta(minutes=10)))
    run.start_process()
    run.answer = WARMING
    run.say(READY_LINE)
    run.wait_for_verdict(700)
    assert "waiting for /health (503)" in (run.verdict.cause or "")


def test_a_person_who_waits_longer_puts_off_giving_up() -> None:
    run = loading(give_up_after=timedelta(minutes=10))
    run.tell(PatienceExtended(UserId("U7"), BEGAN + timedelta(minutes=20)))
    run.wait(11 * 60)
    assert run.startup.verdict is None

"""A startup taken up by the next process: nothing ordered twice, nothing judged before it is read."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bot.core.actions import (
    EditRoot,
    PhaseFinished,
    PostReply,
    ProbeNow,
    RunSmoke,
    SendVerb,
    SettleVerb,
    StallReported,
    Verdict,
)
from bot.core.events import PhaseId, ProbeAnswered, SmokeFinished
from tests.support.startup_runs import MEMBER, NEW, PASSED, RUNNING, UP, Run


def test_resumed_amid_the_verb_it_asks_the_unit_instead_of_sending_again() -> None:
    run = Run()
    run.begin()
    run.restore()
    actions = run.startup.resume(run.now)
    assert not [action for action in actions if isinstance(action, SendVerb)]
    assert [action for action in actions if isinstance(action, SettleVerb)] == [SettleVerb(MEMBER)]
    assert not [action for action in actions if isinstance(action, PostReply)]
    run.observe(RUNNING)
    assert run.startup.state.members[MEMBER].invocation == NEW


def test_resumed_amid_the_smoke_test_it_asks_for_it_anew() -> None:
    run = Run()
    run.smoke = None
    run.run_to_ready()
    run.restore()
    kinds = [type(action) for action in run.startup.resume(run.now)]
    assert RunSmoke in kinds
    assert ProbeNow in kinds
    run.tell(SmokeFinished(PASSED))
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY


def came_up_while_away() -> Run:
    """Weights were loading when it went; the engine answers as healthy before a line is read."""
    run = Run()
    run.start_process()
    for rank in ("TP0", "TP1"):
        run.say("Load weight begin. avail mem=78.50 GB", rank=rank)
    run.pass_time(60)
    run.restore()
    run.actions.extend(run.startup.resume(run.now, away=timedelta(seconds=60)))
    run.unit, run.answer = RUNNING, UP
    run.observe(RUNNING)
    run.tell(ProbeAnswered(UP))
    run.wait(5)
    return run


def test_what_ended_meanwhile_is_told_by_its_log_though_the_engine_answers_first() -> None:
    run = came_up_while_away()
    assert run.startup.view(run.now).phase is PhaseId.WEIGHTS
    for rank in ("TP0", "TP1"):
        run.end_weights(rank)
    run.capture_graphs(seconds=0)
    run.say_ready()
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY
    told = [reply.phase for reply in run.replies(PhaseFinished)]
    assert told.count(PhaseId.WEIGHTS) == 1


def test_an_engine_that_answers_is_healthy_also_where_its_log_says_nothing_more() -> None:
    run = came_up_while_away()
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY
    assert PhaseId.WEIGHTS not in [reply.phase for reply in run.replies(PhaseFinished)]


def test_resumed_without_anything_outstanding_it_only_asks_the_engine() -> None:
    run = Run()
    run.start_process()
    run.restore()
    assert [type(action) for action in run.startup.resume(run.now)] == [EditRoot, ProbeNow]


@pytest.mark.parametrize("away", [3600, 3 * 3600])  # beyond all patience, beyond give_up_after too
def test_resumed_long_after_it_first_reads_what_was_written_meanwhile(away: int) -> None:
    run = Run()
    run.start_process()
    run.load_weights(seconds=5)
    run.pass_time(away)
    run.restore()
    run.startup.resume(run.now)
    run.wait(3)
    assert run.startup.verdict is None
    assert run.replies(StallReported) == []
    run.capture_graphs()
    run.open_server()
    run.say_ready()
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY


@pytest.mark.parametrize("away", [3600, 3 * 3600])
def test_resumed_long_after_it_still_tells_what_has_come_to_nothing(away: int) -> None:
    run = Run()
    run.start_process()
    run.load_weights(seconds=5)
    run.pass_time(away)
    run.restore()
    run.startup.resume(run.now)
    run.wait(125)
    given_up = away > run.plan.give_up_after.total_seconds()
    assert run.startup.verdict is (Verdict.FAILED if given_up else None)
    assert len(run.replies(StallReported)) == (not given_up)

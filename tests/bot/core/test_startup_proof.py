"""The way from the first claim of readiness to the hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.core.actions import ProbeNow, RunSmoke, Verdict
from bot.core.events import PhaseId, ProbeAnswer, ProbeAnswered, SmokeFinished, SmokeResult, VerbSent
from tests.support.startup_runs import (
    BEGAN,
    CLOSED,
    MEMBER,
    MODEL,
    NEXT,
    OLD,
    PASSED,
    READY_LINE,
    RUNNING,
    UP,
    WARMING,
    Run,
    make_plan,
)


def ready_run(**changes: Any) -> Run:
    run = Run(make_plan(**changes))
    run.start_process()
    run.load_weights()
    run.capture_graphs()
    run.open_server()
    return run


def test_the_ready_line_orders_a_probe_at_once() -> None:
    run = ready_run()
    before = len(run.orders(ProbeNow))
    run.say_ready()
    assert len(run.orders(ProbeNow)) == before + 1
    assert len(run.orders(RunSmoke)) == 1


def test_healthy_comes_with_the_end_of_the_hold() -> None:
    run = ready_run()
    run.say_ready()
    ready = run.now
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY
    assert run.now - ready == timedelta(seconds=30)
    assert run.verdict.model == MODEL
    assert run.verdict.smoke == PASSED


def test_what_must_hold_holds_from_the_smoke_test_on() -> None:
    """The graph path runs first for a request: an engine may die of it, and not at once."""
    run = ready_run(stable_for=timedelta(seconds=10))
    run.smoke = None
    run.say_ready()
    run.wait(50)
    run.tell(SmokeFinished(PASSED))
    passed = run.now
    run.wait(9)
    assert run.startup.verdict is None
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY
    assert run.now - passed == timedelta(seconds=10)
    assert run.startup.state.ended == run.now


def test_the_engine_is_asked_about_every_second_until_it_answers_and_never_twice_at_once() -> None:
    run = ready_run()
    run.answer = None
    run.say(READY_LINE)
    run.wait(20)
    assert len(run.orders(ProbeNow)) == 1
    run.answer = WARMING
    run.tell(ProbeAnswered(CLOSED))
    run.wait(10)
    assert len(run.orders(ProbeNow)) == 12
    run.answer = UP
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY


def test_an_order_to_probe_that_was_lost_is_given_again() -> None:
    run = ready_run()
    run.answer = None
    run.say(READY_LINE)
    run.wait(61)
    assert len(run.orders(ProbeNow)) == 2


def test_no_ready_line_is_needed_where_the_probe_says_so() -> None:
    run = ready_run()
    run.answer = UP
    run.tell(ProbeAnswered(UP))
    assert len(run.orders(RunSmoke)) == 1
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY


def test_what_the_old_process_answered_proves_nothing_of_the_new_one() -> None:
    run = Run(make_plan())
    run.answer = None
    before = run.now
    run.begin()
    run.tell(VerbSent(MEMBER))
    run.tell(ProbeAnswered(UP, asked=before))  # it still drains
    run.wait(8)
    run.systemd("Stopped sglang-kimi.service - Kimi.", invocation=OLD)
    run.systemd("Started sglang-kimi.service - Kimi.")
    run.observe(RUNNING)
    run.wait(5)
    assert run.orders(RunSmoke) == []
    run.tell(ProbeAnswered(UP, asked=before))  # on its way for long
    run.wait(5)
    assert run.orders(RunSmoke) == []
    run.tell(ProbeAnswered(UP, asked=run.now))
    assert len(run.orders(RunSmoke)) == 1


@pytest.mark.parametrize(
    "answer",
    [
        CLOSED,
        WARMING,
        replace(UP, listener=False, health=None, error="connection refused", models=None, models_status=None),
        replace(UP, models=None),
        replace(UP, models=()),
    ],
    ids=["refused", "warming", "nobody listens", "no list", "empty list"],
)
def test_healthy_never_comes_without_each_part_of_the_engines_proof(answer: ProbeAnswer) -> None:
    run = ready_run()
    run.answer = answer
    run.say(READY_LINE)
    run.wait(50)
    assert run.startup.verdict is None
    assert not run.orders(RunSmoke)


@pytest.mark.parametrize(
    "unit",
    [
        replace(RUNNING, active="activating", sub="start"),
        replace(RUNNING, active="reloading", sub="reload"),
        replace(RUNNING, job=12),
        replace(RUNNING, active="deactivating", sub="stop-sigterm"),
    ],
    ids=["activating", "reloading", "job pending", "deactivating"],
)
def test_healthy_never_comes_without_the_unit(unit: Any) -> None:
    run = ready_run()
    run.observe(unit)
    run.say_ready()
    run.wait(60)
    assert run.startup.verdict is None
    assert not run.orders(RunSmoke)


def test_healthy_never_comes_without_the_smoke_test() -> None:
    run = ready_run()
    run.smoke = None
    run.say_ready()
    run.wait(300)
    assert run.startup.verdict is None
    assert len(run.orders(RunSmoke)) == 1


def test_a_smoke_test_that_is_not_wanted_is_not_run() -> None:
    run = ready_run(smoke=False)
    run.say_ready()
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY
    assert not run.orders(RunSmoke)


def test_healthy_never_comes_on_old_evidence() -> None:
    run = ready_run()
    run.say_ready()
    run.unit = None
    run.wait(60)
    assert run.startup.verdict is None
    run.observe(RUNNING)
    assert run.startup.verdict is Verdict.HEALTHY


def test_health_that_goes_away_sets_the_hold_back() -> None:
    run = ready_run()
    run.say_ready()
    run.wait(20)
    run.answer = WARMING
    run.tell(ProbeAnswered(WARMING))
    run.wait(1)
    assert run.startup.state.proof.since is None
    run.answer = UP
    restored = run.now
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY
    assert timedelta(seconds=30) <= run.now - restored <= timedelta(seconds=33)
    assert len(run.orders(RunSmoke)) == 1


def test_a_restart_during_the_hold_is_no_health() -> None:
    run = ready_run()
    run.say_ready()
    run.wait(20)
    run.observe(invocation=NEXT, restarts=1)
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.FAILED
    assert "starts it again" in (run.verdict.cause or "")


def test_another_model_fails_at_once_and_names_both() -> None:
    run = ready_run()
    run.answer = replace(UP, models=("qwen3-32b",))
    run.say(READY_LINE)
    assert run.startup.verdict is Verdict.FAILED
    assert "qwen3-32b" in (run.verdict.cause or "")
    assert MODEL in (run.verdict.cause or "")


def test_a_model_list_behind_a_wrong_key_ends_the_wait() -> None:
    run = ready_run()
    run.answer = replace(UP, models=None, models_status=401)
    run.say(READY_LINE)
    assert 60 <= run.wait_for_verdict() <= 62
    assert "API key" in (run.verdict.cause or "")


def test_ready_said_by_an_engine_that_does_not_listen() -> None:
    run = ready_run()
    run.answer = replace(UP, listener=False)
    run.say(READY_LINE)
    assert run.startup.verdict is None
    run.wait_for_verdict(3)
    assert run.startup.verdict is Verdict.FAILED
    assert "served by another process" in (run.verdict.cause or "")


def test_a_server_that_holds_the_port_while_ours_loads_is_no_proof() -> None:
    run = Run(make_plan())
    run.start_process()
    run.answer = replace(UP, listener=False)
    run.tell(ProbeAnswered(run.answer))
    run.load_weights(seconds=60)
    run.tell(ProbeAnswered(replace(UP, listener=None, models=("other",))))
    run.wait(5)
    assert run.startup.verdict is None
    assert not run.orders(RunSmoke)


def test_a_host_that_does_not_tell_whose_socket_it_is_is_named_in_the_notes() -> None:
    run = ready_run()
    run.answer = replace(UP, listener=None)
    run.say(READY_LINE)
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY
    assert "the host does not tell whose socket listens on the port" in run.startup.view(run.now).notes


def test_a_failed_smoke_test_fails_the_start_with_its_error() -> None:
    run = ready_run()
    run.smoke = SmokeResult(passed=False, error="no tool call came back")
    run.say_ready()
    assert 5 <= run.wait_for_verdict() <= 6
    assert run.startup.verdict is Verdict.FAILED
    assert run.verdict.cause == "the smoke test failed: no tool call came back"
    assert run.verdict.phase is PhaseId.SMOKE


def test_a_crash_behind_a_failed_smoke_test_is_the_cause() -> None:
    run = ready_run()
    run.smoke = SmokeResult(passed=False, error="the answer broke off")
    run.say_ready()
    run.wait(1)
    run.say("Scheduler hit an exception: Traceback (most recent call last):", rank="TP1")
    run.say("RuntimeError: CUDA error: an illegal memory access was encountered", stamped=False)
    run.wait(1)
    run.observe(active="failed", sub="failed", result="signal", exec_code=2, exec_status=9)
    run.systemd("sglang-kimi.service: Main process exited, code=killed, status=9/KILL")
    run.systemd("sglang-kimi.service: Failed with result 'signal'.")
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.FAILED
    assert "smoke" not in (run.verdict.cause or "")
    assert "illegal memory access" in (run.verdict.root_error or "")


def test_a_second_smoke_result_changes_nothing() -> None:
    run = ready_run()
    run.say_ready()
    run.tell(SmokeFinished(SmokeResult(passed=False, error="late")))
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY


def test_a_smoke_result_nobody_asked_for_is_ignored() -> None:
    run = Run(make_plan())
    run.begin()
    run.tell(SmokeFinished(PASSED))
    assert run.startup.state.proof.smoke is None
    assert run.now == BEGAN

"""Every part of the proof of readiness, each missing once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from bot.core.events import PhaseId, ProbeAnswer, SmokeResult, UnitState
from bot.core.readiness import (
    FRESH,
    is_foreign,
    is_fresh,
    is_smoke_done,
    is_stable,
    missing_proof,
    unlisted_model,
    wrong_model,
)
from bot.core.startup import fresh_state
from tests.support.startup_runs import BEGAN, CLOSED, MEMBER, NEW, NEXT, PASSED, RUNNING, UP, make_plan

if TYPE_CHECKING:
    from bot.core.startup_state import StartupState

WARMUP = PhaseId.WARMUP


def proven() -> StartupState:
    state = fresh_state(make_plan())
    member = state.members[MEMBER]
    member.invocation, member.unit, member.unit_at, member.restarts = NEW, RUNNING, BEGAN, 0
    state.proof.answer, state.proof.answered, state.proof.said = UP, BEGAN, BEGAN
    return state


def lacking(state: StartupState, phase: PhaseId = WARMUP) -> str:
    return missing_proof(make_plan(), state, phase) or ""


def test_all_of_it_is_proof() -> None:
    assert missing_proof(make_plan(), proven(), WARMUP) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lost": "link lost"}, "cannot be seen"),
        ({"invocation": None}, "not been seen"),
        ({"provisional": True}, "not been seen"),
        ({"unit": None}, "not confirmed"),
        ({"unit": replace(RUNNING, invocation=NEXT)}, "not confirmed"),
        ({"unit": replace(RUNNING, active="activating", sub="start")}, "activating (start)"),
        ({"unit": replace(RUNNING, active="deactivating", sub="stop-sigterm")}, "deactivating"),
        ({"unit": replace(RUNNING, job=9)}, "active (running)"),
        ({"restarts": 1}, "restarted it meanwhile"),
    ],
)
def test_each_part_of_the_units_proof_counts(change: dict[str, Any], words: str) -> None:
    state = proven()
    for key, value in change.items():
        setattr(state.members[MEMBER], key, value)
    assert words in lacking(state)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "not asked yet"),
        (CLOSED, "connection refused"),
        (replace(UP, health=503), "/health (503)"),
        (replace(UP, health=None), "no answer"),
        (replace(UP, listener=False), "another process"),
        (replace(UP, models=None), "to list kimi-k2.5"),
        (replace(UP, models=("other",)), "to list kimi-k2.5"),
    ],
)
def test_each_part_of_the_engines_proof_counts(answer: ProbeAnswer | None, words: str) -> None:
    state = proven()
    state.proof.answer = answer
    assert words in lacking(state)


def test_a_host_that_does_not_tell_whose_socket_it_is_is_believed_only_after_loading() -> None:
    state = proven()
    state.proof.answer = replace(UP, listener=None)
    assert lacking(state, PhaseId.WARMUP) == ""
    state.proof.said = None
    assert lacking(state, PhaseId.PROCESS) == ""
    assert "still loads" in lacking(state, PhaseId.WEIGHTS)


def test_a_service_without_a_model_id_needs_none() -> None:
    state = proven()
    state.proof.answer = replace(UP, models=None)
    assert missing_proof(make_plan(model=None), state, WARMUP) is None


def test_old_evidence_proves_nothing_about_now() -> None:
    state, plan = proven(), make_plan()
    assert is_fresh(plan, state, BEGAN + FRESH)
    assert not is_fresh(plan, state, BEGAN + FRESH + timedelta(seconds=1))
    state.members[MEMBER].unit_at = None
    assert not is_fresh(plan, state, BEGAN)


def test_stable_counts_from_the_proof_and_needs_fresh_evidence() -> None:
    state, plan = proven(), make_plan(stable_for=timedelta(seconds=30))
    later = BEGAN + timedelta(seconds=30)
    assert not is_stable(plan, state, later)
    state.proof.since = BEGAN
    assert not is_stable(plan, state, later)
    state.proof.answered = state.members[MEMBER].unit_at = later
    assert is_stable(plan, state, later)
    assert not is_stable(plan, state, later - timedelta(seconds=1))


def test_the_smoke_test_is_done_when_it_passed_or_was_not_wanted() -> None:
    state = proven()
    assert not is_smoke_done(make_plan(), state)
    assert is_smoke_done(make_plan(smoke=False), state)
    state.proof.smoke = SmokeResult(passed=False)
    assert not is_smoke_done(make_plan(), state)
    state.proof.smoke = PASSED
    assert is_smoke_done(make_plan(), state)


@pytest.mark.parametrize(
    ("answer", "foreign"),
    [
        (replace(UP, listener=False), True),
        (ProbeAnswer(listener=False, error="answered what is not HTTP"), True),
        (ProbeAnswer(listener=False, error="connection refused"), False),
        (UP, False),
        (replace(UP, listener=None), False),
    ],
)
def test_a_socket_is_foreign_only_when_somebody_answers(answer: ProbeAnswer, foreign: bool) -> None:
    assert is_foreign(answer) is foreign


def test_a_wrong_model_names_both_ids() -> None:
    state = proven()
    state.proof.answer = replace(UP, models=("qwen3",))
    told = wrong_model(make_plan(), state, WARMUP)
    assert told is not None
    assert "qwen3" in told
    assert "kimi-k2.5" in told


@pytest.mark.parametrize(
    "answer",
    [
        UP,
        replace(UP, models=("qwen3",), health=503),
        replace(UP, models=("qwen3",), listener=False),
        replace(UP, models=()),
        replace(UP, models=None),
        None,
    ],
)
def test_a_model_is_judged_only_when_the_engine_is_ready_and_ours(answer: ProbeAnswer | None) -> None:
    state = proven()
    state.proof.answer = answer
    assert wrong_model(make_plan(), state, WARMUP) is None


def test_another_server_on_the_port_is_not_judged_while_ours_loads() -> None:
    state = proven()
    state.proof.said = None
    state.proof.answer = replace(UP, models=("qwen3",), listener=None)
    assert wrong_model(make_plan(), state, PhaseId.WEIGHTS) is None


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "API key"), (404, "answers 404"), (200, "names no model"), (None, "names no model")],
)
def test_a_model_list_that_never_comes_ends_the_wait(status: int | None, words: str) -> None:
    state = proven()
    state.proof.answer = replace(UP, models=None, models_status=status)
    state.proof.unlisted = BEGAN
    assert unlisted_model(state, BEGAN + timedelta(seconds=59)) is None
    assert words in (unlisted_model(state, BEGAN + timedelta(seconds=60)) or "")


def test_several_members_must_all_be_up() -> None:
    unit = UnitState("loaded", "failed", "failed", invocation=NEXT)
    plan = make_plan(members=(MEMBER, "llm-three/u.service"))
    state = fresh_state(plan)
    for member in state.members.values():
        member.invocation, member.unit, member.restarts = NEW, RUNNING, 0
    state.proof.answer = UP
    assert missing_proof(plan, state, WARMUP) is None
    other = state.members[plan.members[1]]
    other.unit = unit
    assert (missing_proof(plan, state, WARMUP) or "").startswith("llm-three/u.service")

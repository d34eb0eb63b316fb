"""All a startup remembers goes to JSON and back."""

from __future__ import annotations

from datetime import timedelta

from pydantic import TypeAdapter

from bot.core.baseline import Usual
from bot.core.events import PhaseId
from bot.core.startup_state import Plan
from tests.support.startup_runs import STATE, Run, make_plan

PLAN = TypeAdapter(Plan)


def test_a_plan_survives_a_record() -> None:
    plan = make_plan(
        patience={PhaseId.WEIGHTS: timedelta(minutes=15)}, usual=Usual({"weights": (300.0, 310.5)})
    )
    assert PLAN.validate_json(PLAN.dump_json(plan)) == plan


def test_the_state_survives_a_record_amid_a_start() -> None:
    run = Run()
    run.run_to_ready()
    state = run.startup.state
    text = STATE.dump_json(state)
    assert STATE.validate_json(text) == state
    assert STATE.dump_json(STATE.validate_json(text)) == text


def test_the_state_stays_small_however_long_the_log_is() -> None:
    run = Run()
    run.start_process()
    for number in range(3000):
        name = "".join(chr(97 + int(digit)) for digit in str(number))
        run.say(f"never seen before: {name}", stamped=False)
    assert len(STATE.dump_json(run.startup.state)) < 20_000

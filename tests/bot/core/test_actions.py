"""Orders and views: plain values that hold what the root and the thread need."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass
from typing import get_args

import pytest
from pydantic import TypeAdapter

from bot.core import actions
from bot.core.actions import Action, Close, PhaseView, PostReply, Progress, Reply, StartupView, Verdict
from tests.support.startup_runs import BEGAN, MEMBER, Run


@pytest.mark.parametrize(
    ("progress", "fraction"),
    [(Progress(0, 64), 0.0), (Progress(16, 64), 0.25), (Progress(64, 64), 1.0), (Progress(3, 0), 0.0)],
)
def test_how_far_a_bar_is(progress: Progress, fraction: float) -> None:
    assert progress.fraction == fraction


@pytest.mark.parametrize("kind", [*get_args(Action), *get_args(Reply), StartupView, PhaseView, Progress])
def test_what_was_ordered_or_said_cannot_be_changed(kind: type) -> None:
    assert is_dataclass(kind)
    assert not hasattr(kind, "__dict__") or "__slots__" in vars(kind)
    made = object.__new__(kind)
    for name in [each.name for each in fields(kind)] or ["anything"]:
        with pytest.raises((FrozenInstanceError, TypeError)):
            setattr(made, name, None)


def test_a_view_reads_back_as_it_was() -> None:
    run = Run()
    run.start_process()
    run.load_weights()
    view = run.startup.view(run.now)
    adapter = TypeAdapter(StartupView)
    assert adapter.validate_json(adapter.dump_json(view)) == view
    assert view.began == BEGAN
    assert view.hosts == (MEMBER.partition("/")[0],)


def test_all_that_a_start_orders_and_says_reads_back_as_it_was() -> None:
    run = Run()
    run.run_to_ready()
    run.wait_for_verdict()
    adapter: TypeAdapter[list[Action]] = TypeAdapter(list[Action])
    assert {type(action) for action in run.actions} >= {PostReply, Close, actions.SendVerb, actions.RunSmoke}
    for action in run.actions:
        own: TypeAdapter[Action] = TypeAdapter(type(action))
        assert own.validate_json(own.dump_json(action)) == action
    assert len(adapter.dump_python(run.actions)) == len(run.actions)


def test_a_verdict_is_the_word_that_is_searched_for() -> None:
    assert [str(verdict) for verdict in Verdict] == [
        "healthy",
        "failed",
        "stopped",
        "unwatched",
        "superseded",
    ]


def test_only_a_healthy_end_teaches_durations() -> None:
    assert Close(Verdict.FAILED).durations == {}
    first, second = Close(Verdict.FAILED), Close(Verdict.FAILED)
    assert first.durations is not second.durations

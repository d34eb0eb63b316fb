"""What is to come, and how long it may take."""

from __future__ import annotations

from datetime import timedelta

from bot.core.actions import Mark
from bot.core.baseline import Usual
from bot.core.events import Role, Verb
from tests.support.startup_runs import Run, make_plan

USUAL = Usual(
    {
        "stopping": (12.0,),
        "process": (9.0,),
        "distributed": (20.0,),
        "weights": (300.0,),
        "memory": (5.0,),
        "graphs": (45.0,),
        "weights/draft": (6.0,),
        "smoke": (2.0,),
        "whole": (450.0,),
    }
)


def marks(run: Run) -> dict[str, Mark]:
    view = run.startup.view(run.now)
    return {each.phase + ("/draft" if each.role is Role.DRAFT else ""): each.mark for each in view.phases}


def test_a_stop_has_nothing_ahead() -> None:
    run = Run(make_plan(verb=Verb.STOP))
    run.begin()
    assert marks(run) == {"stopping": Mark.NOW}


def test_phases_ahead_are_those_of_the_engine_before_the_first_healthy_start() -> None:
    run = Run()
    run.begin()
    shown = marks(run)
    assert list(shown) == [
        "stopping",
        "process",
        "distributed",
        "weights",
        "memory",
        "graphs",
        "server",
        "warmup",
        "smoke",
    ]
    assert set(shown.values()) == {Mark.NOW, Mark.AHEAD}


def test_phases_ahead_are_the_usual_ones_afterwards() -> None:
    run = Run(make_plan(usual=USUAL))
    run.start_process()
    assert marks(run) == {
        "stopping": Mark.DONE,
        "process": Mark.NOW,
        "distributed": Mark.AHEAD,
        "weights": Mark.AHEAD,
        "memory": Mark.AHEAD,
        "graphs": Mark.AHEAD,
        "weights/draft": Mark.AHEAD,
        "smoke": Mark.AHEAD,
    }


def test_a_phase_without_a_line_is_not_ahead_for_ever() -> None:
    run = Run()
    run.start_process()
    run.say("Capture cuda graph begin. This can take up to several minutes.", rank="TP0")
    assert "memory" not in marks(run)
    assert marks(run)["graphs"] is Mark.NOW


def test_a_smoke_test_that_is_not_wanted_is_not_ahead() -> None:
    run = Run(make_plan(smoke=False))
    run.begin()
    assert "smoke" not in marks(run)


def test_the_estimate_is_what_is_left_here_and_the_usual_of_what_is_ahead() -> None:
    run = Run(make_plan(usual=USUAL))
    run.start_process()
    for rank in ("TP0", "TP1"):
        run.say("Load weight begin. avail mem=78.50 GB", rank=rank)
    run.wait(60)
    ahead = timedelta(seconds=5 + 45 + 6 + 2)
    assert run.startup.view(run.now).eta == timedelta(seconds=240) + ahead
    bar = "Loading safetensors checkpoint shards:  25% Completed | 16/64 [00:11<00:14,  2.45it/s]"
    run.say(bar, stamped=False)
    assert run.startup.view(run.now).eta == timedelta(seconds=180) + ahead
    full = "Loading safetensors checkpoint shards: 100% Completed | 64/64 [00:11<00:00,  2.45it/s]"
    run.say(full, stamped=False)
    assert run.startup.view(run.now).eta == timedelta(seconds=240) + ahead


def test_a_start_beyond_its_usual_promises_no_end_that_is_past() -> None:
    weights = (280.0, 290.0, 300.0, 310.0, 400.0)
    run = Run(make_plan(usual=Usual({"weights": weights, "graphs": (45.0,), "whole": (400.0,)}), smoke=False))
    run.start_process()
    for rank in ("TP0", "TP1"):
        run.say("Load weight begin. avail mem=78.50 GB", rank=rank)
    run.wait(285)
    view, after = run.startup.view(run.now), timedelta(seconds=45)
    assert (view.eta, view.eta_after) == (timedelta(seconds=15) + after, None)
    assert view.eta_span == (timedelta(seconds=5) + after, timedelta(seconds=25) + after)
    run.wait(20)  # beyond the middle, within the span
    view = run.startup.view(run.now)
    assert view.eta == timedelta(seconds=5) + after
    assert view.eta_span == (view.eta, view.eta)
    run.wait(15)  # beyond all that is usual
    view = run.startup.view(run.now)
    assert (view.eta, view.eta_span, view.eta_after) == (None, None, after)
    bar = "Loading safetensors checkpoint shards:  50% Completed | 32/64 [05:20<05:20,  0.10it/s]"
    run.say(bar, stamped=False)  # the bar knows better
    view = run.startup.view(run.now)
    assert (view.eta, view.eta_after) == (timedelta(seconds=320) + after, None)
    assert view.eta_span == (view.eta, view.eta)
    assert view.eta_phase is None  # the whole is known


def test_where_nothing_comes_after_a_phase_that_outlasts_its_usual_nothing_is_promised() -> None:
    run = Run(make_plan(usual=Usual({"process": (2.0,), "whole": (60.0,)}), smoke=False))
    run.start_process()
    run.wait(10)
    view = run.startup.view(run.now)
    assert (view.eta, view.eta_after) == (None, None)


def test_without_a_baseline_the_bar_alone_tells_what_is_left_of_a_phase() -> None:
    run = Run()
    run.start_process()
    for rank in ("TP0", "TP1"):
        run.say("Load weight begin. avail mem=78.50 GB", rank=rank)
    run.wait(60)
    view = run.startup.view(run.now)
    assert (view.eta, view.eta_phase) == (None, None)
    run.say(
        "Loading safetensors checkpoint shards:  25% Completed | 16/64 [01:00<03:00,  3.75s/it]",
        stamped=False,
    )
    view = run.startup.view(run.now)
    assert (view.eta, view.eta_phase) == (None, timedelta(seconds=180))
    run.say(
        "Loading safetensors checkpoint shards: 100% Completed | 64/64 [01:00<00:00,  3.75s/it]",
        stamped=False,
    )
    assert run.startup.view(run.now).eta_phase is None

"""Tests of markers within a startup: whose lines count, when they are told, what the verdict adds."""

from __future__ import annotations

from bot.core.actions import Action, MarkerSeen, PostReply, VerdictReached
from bot.core.marker import Hit, Marker
from tests.support.startup_runs import OLD, Run, make_plan

DIAG = Marker("DIAG", "DIAG")


def begin() -> Run:
    run = Run(make_plan(markers=(DIAG,)))
    run.start_process()
    return run


def hits(run: Run) -> list[Hit]:
    return [reply.hit for reply in run.replies(MarkerSeen)]


def test_a_line_of_the_watched_start_is_told_with_those_around_it() -> None:
    run = begin()
    lines = ("one", "two", "three", "DIAG 4", "five", "six", "seven")
    for text in lines:
        run.say(text, stamped=False)
    assert hits(run) == [Hit("DIAG", lines, 3)]


def test_where_no_line_comes_after_it_a_tick_tells() -> None:
    run = begin()
    run.say("DIAG", stamped=False)
    assert hits(run) == []
    run.wait(2)
    assert [hit.lines[hit.at] for hit in hits(run)] == ["DIAG"]


def test_lines_of_the_run_before_and_half_lines_are_none() -> None:
    run = Run(make_plan(markers=(DIAG,)))
    run.begin()
    run.say("DIAG old", invocation=OLD)
    run.systemd("Started u - U.")
    run.say("DIAG ha", partial=True)
    run.wait(5)
    assert hits(run) == []


def test_the_last_hit_is_told_before_the_verdict_which_counts_the_rest() -> None:
    run = begin()
    run.load_weights()
    for text in ("DIAG 1", "a", "b", "c"):
        run.say(text)
    for number in range(5):
        run.say(f"DIAG {number}")
    run.systemd("u: Main process exited, code=killed, status=9/KILL")
    run.systemd("u: Failed with result 'signal'.")
    run.observe(active="failed", sub="failed", result="signal")
    run.wait_for_verdict()
    said = [type(action.reply) for action in replies(run.actions)]
    assert said.index(MarkerSeen) < said.index(VerdictReached)
    assert run.verdict.markers == {"DIAG": 5}


def test_a_hit_in_the_last_line_is_told_before_the_verdict() -> None:
    run = begin()
    run.load_weights()
    run.say("DIAG the end")
    run.systemd("u: Failed with result 'signal'.")
    run.observe(active="failed", sub="failed", result="signal")
    run.wait_for_verdict()
    assert len(hits(run)) == 1
    assert run.verdict.markers == {}


def replies(actions: list[Action]) -> list[PostReply]:
    return [action for action in actions if isinstance(action, PostReply)]

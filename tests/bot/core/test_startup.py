"""The machine of one startup: verbs, good ends, phases, and what holds on every road."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.actions import (
    Action,
    Close,
    EditRoot,
    MovedAgain,
    Noticed,
    PhaseFinished,
    PostReply,
    ProbeNow,
    RunSmoke,
    SendVerb,
    StallReported,
    UploadTail,
    Verdict,
    VerdictReached,
)
from bot.core.events import (
    Event,
    HostLost,
    HostRestored,
    PatienceExtended,
    PhaseId,
    Rank,
    Ticked,
    UnitObserved,
    Verb,
    VerbRefused,
    VerbSent,
    VerbUnanswered,
)
from tests.support.startup_events import ROAD, STEPS, VERBS, roads
from tests.support.startup_runs import (
    BEGAN,
    MEMBER,
    NEXT,
    OLD,
    OLD_RUNNING,
    OTHER,
    PASSED,
    READY_LINE,
    RUNNING,
    UP,
    Run,
    make_plan,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENT = {PhaseId.WEIGHTS: timedelta(seconds=60), PhaseId.STOPPING: timedelta(seconds=60)}


# ---- the verb ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [Verb.RESTART, Verb.START, Verb.STOP])
def test_the_verb_is_ordered_once_for_each_member_after_the_root(verb: Verb) -> None:
    run = Run(make_plan(verb=verb, members=(MEMBER, OTHER)))
    root, *verbs = run.begin()
    assert isinstance(root, EditRoot)
    assert verbs == [SendVerb(MEMBER, verb), SendVerb(OTHER, verb)]
    run.tell(VerbUnanswered(MEMBER, "link lost"))
    run.wait(30)
    assert len(run.orders(SendVerb)) == 2


def test_a_watch_orders_no_verb_and_asks_the_engine() -> None:
    run = Run(make_plan(verb=Verb.WATCH))
    assert [type(action) for action in run.begin()] == [EditRoot, ProbeNow]


def test_a_refused_verb_fails_at_once_with_the_way_out() -> None:
    run = Run()
    run.begin()
    run.tell(VerbRefused(MEMBER, "llm-two: sudo wants a password; see `kimi-bot host-setup`"))
    assert run.verdict.verdict is Verdict.FAILED
    assert "host-setup" in (run.verdict.cause or "")
    assert not run.orders(UploadTail)
    assert run.closed == Close(Verdict.FAILED)


def test_one_refused_member_of_two_is_named() -> None:
    run = Run(make_plan(members=(MEMBER, OTHER)))
    run.begin()
    run.tell(VerbSent(MEMBER))
    run.tell(VerbRefused(OTHER, "no such unit"))
    assert (run.verdict.cause or "").startswith(OTHER)


def test_an_unanswered_verb_that_arrived_goes_on() -> None:
    run = Run()
    run.begin()
    run.tell(VerbUnanswered(MEMBER, "link lost"))
    assert "not sent again" in run.replies(Noticed)[0].sentence
    run.observe(OLD_RUNNING, active="deactivating", job=5)
    run.wait(90)
    run.observe(RUNNING, job=None)
    run.answer = UP
    run.say(READY_LINE)
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY
    assert len(run.orders(SendVerb)) == 1


def test_an_unanswered_verb_that_never_arrived_is_told_after_a_minute() -> None:
    run = Run()
    run.begin()
    run.tell(VerbUnanswered(MEMBER, "link lost"))
    run.observe(OLD_RUNNING)
    run.wait(59)
    assert run.startup.verdict is None
    run.wait(1)
    assert run.startup.verdict is Verdict.FAILED
    assert "was not carried out" in (run.verdict.cause or "")


def test_the_minute_counts_from_when_the_host_is_seen_again() -> None:
    run = Run()
    run.begin()
    run.tell(VerbUnanswered(MEMBER, "link lost"))
    run.tell(HostLost(MEMBER, "no route"))
    run.wait(300)
    assert run.startup.verdict is None
    run.tell(HostRestored(MEMBER))
    run.observe(OLD_RUNNING)
    assert run.wait_for_verdict() == 60


def test_an_accepted_verb_without_effect_fails_too() -> None:
    run = Run()
    run.begin()
    run.tell(VerbSent(MEMBER))
    run.observe(OLD_RUNNING)
    assert 60 <= run.wait_for_verdict() <= 61
    assert "was not carried out" in (run.verdict.cause or "")


# ---- good ends --------------------------------------------------------------------------------------------


def test_a_healthy_restart() -> None:
    run = Run()
    run.run_to_ready()
    run.wait_for_verdict()
    assert run.verdict.verdict is Verdict.HEALTHY
    assert [reply.phase for reply in run.replies(PhaseFinished)] == [
        PhaseId.STOPPING,
        PhaseId.DISTRIBUTED,
        PhaseId.WEIGHTS,
        PhaseId.GRAPHS,
        PhaseId.WARMUP,
    ]
    assert not run.orders(UploadTail)
    assert not any(each.broadcast for each in run.actions if isinstance(each, PostReply))


def test_a_start_has_nothing_to_stop() -> None:
    run = Run(make_plan(verb=Verb.START))
    run.begin()
    run.tell(VerbSent(MEMBER))
    run.systemd("Started sglang-kimi.service - Kimi.")
    run.observe(RUNNING)
    run.load_weights()
    run.say_ready()
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY
    assert PhaseId.STOPPING not in [view.phase for view in run.verdict.phases]


def test_a_watch_of_a_healthy_service_says_so_soon() -> None:
    run = Run(make_plan(verb=Verb.WATCH, before={}, stable_for=timedelta(seconds=5)))
    run.answer = UP
    run.begin()
    run.observe(RUNNING, active_since=BEGAN - timedelta(days=3))
    took = run.wait_for_verdict()
    assert took <= 6
    assert run.startup.verdict is Verdict.HEALTHY
    assert run.verdict.took == timedelta(seconds=took)
    assert not run.replies(PhaseFinished)
    assert "whole" not in run.closed.durations


def test_a_watch_follows_a_startup_with_true_durations() -> None:
    run = Run(make_plan(verb=Verb.WATCH, before={}))
    began = BEGAN - timedelta(minutes=10)
    run.begin()
    run.observe(RUNNING, active_since=began)
    for minutes, text in ((1, "Load weight begin. avail mem=1 GB"), (6, "Load weight end. elapsed=300 s")):
        for rank in ("TP0", "TP1"):
            run.say(text, rank=rank, at=began + timedelta(minutes=minutes))
    assert [reply.took for reply in run.replies(PhaseFinished)] == [
        timedelta(minutes=1),
        timedelta(minutes=5),
    ]
    run.capture_graphs(seconds=30)
    run.open_server()
    run.say_ready()
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY
    assert run.closed.durations["weights"] == 300.0
    assert run.verdict.took == timedelta(minutes=10, seconds=35)


def test_a_stop_is_done_when_every_unit_is_down() -> None:
    run = Run(make_plan(verb=Verb.STOP, members=(MEMBER, OTHER), before={MEMBER: OLD, OTHER: OLD}))
    run.begin()
    run.tell(VerbSent(MEMBER))
    run.tell(VerbSent(OTHER))
    stopped = replace(OLD_RUNNING, active="inactive", sub="dead")
    run.tell(UnitObserved(MEMBER, stopped))
    assert run.startup.verdict is None
    run.tell(UnitObserved(OTHER, replace(stopped, active="failed", result="timeout")))
    assert run.startup.verdict is Verdict.STOPPED
    assert run.verdict.cause is None
    assert run.startup.view(run.now).notes == ("systemd's result of the stop: timeout",)
    assert not run.orders(UploadTail)


def test_a_stop_that_has_no_effect() -> None:
    run = Run(make_plan(verb=Verb.STOP))
    run.begin()
    run.tell(VerbSent(MEMBER))
    run.observe(OLD_RUNNING)
    run.wait_for_verdict()
    assert "the stop was not carried out" in (run.verdict.cause or "")


def test_a_service_of_two_members_needs_both() -> None:
    run = Run(make_plan(members=(MEMBER, OTHER), before={MEMBER: OLD, OTHER: OLD}))
    run.begin()
    run.tell(VerbSent(MEMBER))
    run.tell(VerbSent(OTHER))
    run.answer = UP
    run.observe(RUNNING)
    run.say(READY_LINE)
    run.wait(60)
    assert run.startup.verdict is None
    for _ in range(40):
        run.tell(UnitObserved(OTHER, replace(RUNNING, invocation=NEXT)))
        run.wait(1)
    assert run.startup.verdict is Verdict.HEALTHY


# ---- phases -----------------------------------------------------------------------------------------------


def test_the_slowest_rank_is_named_where_it_matters() -> None:
    run = Run()
    run.start_process()
    for rank in ("TP0", "TP1"):
        run.say("Load weight begin. avail mem=78.50 GB", rank=rank)
    run.wait(60)
    run.end_weights("TP0")
    run.wait(40)
    view = run.startup.view(run.now)
    assert [each.rank for each in view.ranks if not each.ended] == ["TP1"]
    run.end_weights("TP1")
    weights = run.replies(PhaseFinished)[-1]
    assert weights.slowest is not None
    assert weights.fastest is not None
    assert (weights.slowest.rank, weights.slowest.took) == (Rank("TP1"), timedelta(seconds=100))
    assert (weights.fastest.rank, weights.fastest.took) == (Rank("TP0"), timedelta(seconds=60))


def test_the_present_is_shown_on_each_tick_and_each_change() -> None:
    run = Run()
    run.begin()
    assert [type(action) for action in run.tell(Ticked())] == [EditRoot]
    assert run.tell(VerbSent(MEMBER)) == []
    run.wait(1)
    count = len(run.orders(EditRoot))
    run.systemd("Started sglang-kimi.service - Kimi.")
    assert len(run.orders(EditRoot)) == count + 1


# ---- properties -------------------------------------------------------------------------------------------


def play(run: Run, steps: Sequence[tuple[int, Event]]) -> list[Action]:
    run.begin()
    for quarters, event in steps:
        run.pass_time(quarters / 4)
        run.tell(event)
    return run.actions


def test_the_road_that_is_varied_below_leads_to_health() -> None:
    run = Run()
    play(run, ROAD)
    assert run.startup.verdict is Verdict.HEALTHY


@settings(max_examples=60, deadline=None)
@given(VERBS, STEPS)
def test_saved_and_restored_at_any_point_it_gives_the_same_actions(
    verb: Verb, steps: list[tuple[int, Event]]
) -> None:
    plan = make_plan(verb=verb, patience=PATIENT)
    assert play(Run(plan), steps) == play(Run(plan, rewritten=True), steps)


@settings(max_examples=15, deadline=None)
@given(roads())
def test_saved_and_restored_anywhere_on_a_long_road_it_gives_the_same_actions(
    road: list[tuple[int, Event]],
) -> None:
    assert play(Run(), road) == play(Run(rewritten=True), road)


@settings(max_examples=100, deadline=None)
@given(VERBS, st.one_of(STEPS, roads()))
def test_one_verdict_and_nothing_after_it(verb: Verb, steps: list[tuple[int, Event]]) -> None:
    run = Run(make_plan(verb=verb, patience=PATIENT, stable_for=timedelta(seconds=4)))
    actions = play(run, steps)
    verdicts = run.replies(VerdictReached)
    assert len(verdicts) == len(run.orders(Close)) == (run.startup.verdict is not None)
    if verdicts:
        assert isinstance(actions[-1], Close)
    assert len(run.orders(SendVerb)) == (verb is not Verb.WATCH)
    # Asked again where its way to the engine may have been lost, or where another start takes its place.
    again = sum(isinstance(event, HostLost) or _has_boot(event) for _, event in steps)
    assert len(run.orders(RunSmoke)) <= 1 + again


def _has_boot(event: Event) -> bool:
    return isinstance(event, UnitObserved) and event.boot is not None


@settings(max_examples=100, deadline=None)
@given(VERBS, st.one_of(STEPS, roads()))
def test_sequences_only_grow_and_each_stall_is_told_once(verb: Verb, steps: list[tuple[int, Event]]) -> None:
    calm = [step for step in steps if not isinstance(step[1], PatienceExtended) and not _has_boot(step[1])]
    run = Run(make_plan(verb=verb, patience=PATIENT))
    play(run, calm)
    assert run.sequences == list(range(1, len(run.sequences) + 1))
    told = [
        type(action.reply)
        for action in run.actions
        if isinstance(action, PostReply) and isinstance(action.reply, StallReported | MovedAgain)
    ]
    assert all(kind is (StallReported, MovedAgain)[index % 2] for index, kind in enumerate(told))


@settings(max_examples=100, deadline=None)
@given(roads())
def test_healthy_always_has_all_its_proofs(road: list[tuple[int, Event]]) -> None:
    run = Run()
    play(run, road)
    if run.startup.verdict is not Verdict.HEALTHY:
        return
    state = run.startup.state
    member = state.members[MEMBER]
    assert member.unit is not None
    assert (member.unit.active, member.unit.invocation) == ("active", member.invocation)
    assert (member.unit.restarts, member.unit.job) == (member.restarts, None)
    assert member.invocation not in {OLD, None}
    assert state.proof.answer == UP
    assert state.proof.smoke == PASSED
    assert state.proof.since is not None
    assert run.plan.stable_for <= (state.ended or run.now) - state.proof.since
    assert state.fall is None

"""Tests of what a startup asks, learns and tells about its setup."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.actions import Action, LookAtSetup, PostReply, SetupChanged
from bot.core.changes import LastHealthy, spell_change
from bot.core.events import Event, SetupSeen, Verb
from bot.core.marker import Marker
from bot.core.setup import Setup
from bot.core.startup import Startup
from config.engine_file import load_engine
from tests.support.startup_events import EVENTS, roads
from tests.support.startup_runs import BEGAN, MEMBER, OTHER, STATE, Run, make_plan

BEFORE = Setup(("python", "--tp", "8"), {"A": "1"}, ("/u",), arguments={"tp_size": "8", "backend": "fa3"})
AFTER = replace(BEFORE, command=("python", "--tp", "4"), arguments=None)
ARGUMENTS = "server_args=ServerArgs(tp_size=4, backend='flashinfer', random_seed=7)"
LAST = LastHealthy(BEGAN - timedelta(hours=6), {MEMBER: BEFORE})


def begin(last: LastHealthy | None = LAST, setup: Setup | None = AFTER, **changes: object) -> Run:
    run = Run(make_plan(last=last, **changes), setup=setup)
    run.start_process()
    return run


def told(run: Run) -> list[str]:
    return [spell_change(change) for reply in run.replies(SetupChanged) for change in reply.changes]


def test_what_changed_is_told_once_as_soon_as_it_is_known() -> None:
    run = begin()
    assert run.orders(LookAtSetup) == [LookAtSetup(MEMBER)]
    assert told(run) == []
    run.say(ARGUMENTS)
    assert told(run) == ["--tp 8 → 4", "backend fa3 → flashinfer"]
    assert run.replies(SetupChanged)[0].since == LAST.at
    run.load_weights()
    run.wait(70)
    assert len(run.replies(SetupChanged)) == 1


def test_an_engine_that_says_nothing_of_its_arguments_is_not_waited_for() -> None:
    run = begin()
    run.load_weights()
    assert told(run) == ["--tp 8 → 4"]


def test_a_host_that_says_nothing_leaves_what_the_log_says() -> None:
    run = begin(setup=None)
    run.say(ARGUMENTS)
    assert told(run) == ["tp_size 8 → 4", "backend fa3 → flashinfer"]


def test_without_an_answer_it_is_told_after_a_minute() -> None:
    run = begin()
    run.wait(55)
    assert told(run) == []
    run.wait(10)
    assert told(run) == ["--tp 8 → 4"]


def test_nothing_is_told_when_nothing_changed_or_nothing_is_known() -> None:
    for run in (begin(setup=replace(BEFORE, arguments=None)), begin(last=None)):
        run.load_weights()
        run.wait(70)
        assert run.replies(SetupChanged) == []


def test_a_unit_file_that_systemd_has_not_read_is_told_even_at_the_first_start() -> None:
    run = begin(last=None, setup=replace(AFTER, stale=True))
    run.load_weights()
    assert run.replies(SetupChanged) == [SetupChanged((), None, (MEMBER,))]


def test_it_stands_beside_the_verdict_of_a_failure_and_of_nothing_else() -> None:
    run = begin()
    run.load_weights()
    run.systemd("u: Main process exited, code=exited, status=1/FAILURE")
    run.systemd("u: Failed with result 'exit-code'.")
    run.observe(active="failed", sub="failed", result="exit-code")
    run.wait_for_verdict()
    assert run.verdict.setup is not None
    assert [spell_change(change) for change in run.verdict.setup.changes] == ["--tp 8 → 4"]
    healthy = begin()
    healthy.load_weights()
    healthy.capture_graphs()
    healthy.open_server()
    healthy.say_ready()
    healthy.wait_for_verdict()
    assert healthy.verdict.setup is None


def test_what_is_kept_for_the_next_start_holds_what_was_not_seen_again() -> None:
    run = begin(setup=Setup(("python", "--tp", "4")))
    kept = run.startup.setups()
    assert kept == {MEMBER: replace(BEFORE, command=("python", "--tp", "4"))}


def test_each_member_is_asked_and_only_once() -> None:
    run = Run(make_plan(members=(MEMBER, OTHER), before={}, last=LAST), setup=AFTER)
    run.start_process()
    run.wait(10)
    assert run.orders(LookAtSetup) == [LookAtSetup(MEMBER)]


def test_a_stop_asks_nothing() -> None:
    run = Run(make_plan(verb=Verb.STOP, last=LAST))
    run.begin()
    run.observe()
    run.wait(5)
    assert run.orders(LookAtSetup) == []


def test_after_a_crash_it_is_asked_again_unless_it_was_answered() -> None:
    run = Run(make_plan(last=LAST), setup=None)
    run.start_process()
    run.startup.state.setup.answered.clear()
    run.restore()
    assert LookAtSetup(MEMBER) in run.startup.resume(run.now)
    run.tell(SetupSeen(MEMBER, AFTER))
    run.restore()
    assert LookAtSetup(MEMBER) not in run.startup.resume(run.now)


SEEN = st.sampled_from(
    [SetupSeen(MEMBER, each) for each in (BEFORE, AFTER, replace(AFTER, stale=True), None)]
)
MARKERS = (Marker("new", "something"), Marker("capture", r"[Cc]apture.*begin"))


def play(steps: list[tuple[int, Event]], *, rewritten: bool) -> list[Action]:
    plan, engine, now = make_plan(last=LAST, markers=MARKERS), load_engine("sglang"), BEGAN
    startup = Startup(plan, engine)
    actions = startup.begin(now)
    for gap, event in steps:
        now += timedelta(seconds=gap / 4)
        if rewritten:
            startup = Startup(plan, engine, STATE.validate_json(STATE.dump_json(startup.state)))
        actions += startup.handle(event, now)
    return actions


@st.composite
def watched(draw: st.DrawFn) -> list[tuple[int, Event]]:
    """A start with its setup seen somewhere, and seen otherwise somewhere else."""
    road: list[tuple[int, Event]] = draw(
        st.one_of(roads(), st.lists(st.tuples(st.integers(0, 200), EVENTS), max_size=30))
    )
    for place, event in draw(st.lists(st.tuples(st.integers(0, len(road)), SEEN), max_size=3)):
        road.insert(place, (0, event))
    return road


@settings(max_examples=40, deadline=None)
@given(watched())
def test_saved_and_restored_anywhere_it_orders_and_tells_the_same(steps: list[tuple[int, Event]]) -> None:
    actions = play(steps, rewritten=False)
    assert play(steps, rewritten=True) == actions
    said = [each for each in actions if isinstance(each, PostReply) and isinstance(each.reply, SetupChanged)]
    assert len(said) <= 1 + sum(isinstance(each, LookAtSetup) for each in actions)

"""One turn's orders: their sequence, and the present before what is said."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bot.core.actions import (
    EditRoot,
    MovedAgain,
    Noticed,
    PhaseFinished,
    PostReply,
    ProbeNow,
    UploadTail,
    Verdict,
)
from bot.core.events import LogLine, Member, PhaseId, Verb
from bot.core.recognition import Recognition
from bot.core.startup import Startup, fresh_state
from bot.core.startup_scene import current_phase, patience_now
from bot.core.startup_turn import Turn
from config.engine_file import load_engine
from tests.support.startup_runs import BEGAN, MEMBER, OTHER, RUNNING, Run, make_plan


def turn_of(verb: Verb = Verb.RESTART) -> Turn:
    plan = make_plan(verb=verb)
    turn = Turn(plan, load_engine("sglang"), fresh_state(plan))
    turn.open()
    return turn


LATER = BEGAN + timedelta(seconds=20)
HEADLESS = "INFO 05-29 23:49:00 [serve.py:110] Launching 1 data parallel engine(s) in headless mode"
CORE_DONE = (
    "(EngineCore_DP1 pid=7) INFO 05-29 23:50:00 [core.py:77] "
    "init engine (profile, create kv cache, warmup model) took 44.1 seconds"
)
SHARE_DONE = [
    ("sglang", "[2026-10-01 10:00:18] Dummy health check server started in background thread at 0.0.0.0:1"),
    ("sglang", "2026-10-01 10:00:18  INFO smg::server: src/server.rs:794: Starting server on 0.0.0.0:1"),
    ("vllm", "This command will now block until interrupted"),
    ("vllm", f"{HEADLESS}\n{CORE_DONE}"),
]


@pytest.mark.parametrize(("engine", "said"), SHARE_DONE)
@pytest.mark.parametrize("members", [(MEMBER,), (MEMBER, OTHER)])
def test_a_node_whose_share_is_done_does_not_speak_for_the_first(
    engine: str, said: str, members: tuple[Member, ...]
) -> None:
    plan = make_plan(members=members, before={})
    turn = Turn(plan, load_engine(engine), fresh_state(plan))
    for each in said.split("\n"):
        turn.tracker.read(LogLine(each, each), member=members[-1], at=BEGAN)
    assert turn.tracker.state.ready is (members == (MEMBER,))


def test_the_present_comes_first_and_only_when_it_changed() -> None:
    turn = turn_of()
    turn.order(ProbeNow())
    assert turn.close(LATER) == [ProbeNow()]
    turn.open()
    turn.say(Noticed("x"))
    first, second = turn.close(LATER)
    assert isinstance(first, EditRoot)
    assert second == PostReply(1, Noticed("x"))


def test_replies_and_files_share_one_count() -> None:
    turn = turn_of()
    turn.say(Noticed("x"))
    turn.upload("y")
    turn.say(Noticed("z"), broadcast=True)
    assert turn.close(LATER)[1:] == [
        PostReply(1, Noticed("x")),
        UploadTail(2, "y"),
        PostReply(3, Noticed("z"), broadcast=True),
    ]


def test_a_phase_that_ends_is_told_once() -> None:
    turn = turn_of()
    turn.begin_phase(PhaseId.STOPPING, BEGAN, LATER)
    turn.end_phase(PhaseId.STOPPING, LATER, LATER)
    turn.end_phase(PhaseId.STOPPING, LATER, LATER)
    replies = [action for action in turn.close(LATER) if isinstance(action, PostReply)]
    assert replies == [PostReply(1, PhaseFinished(PhaseId.STOPPING, turn.current(LATER)[1], LATER - BEGAN))]


def test_a_stop_tells_its_only_phase_in_the_verdict() -> None:
    turn = turn_of(Verb.STOP)
    turn.begin_phase(PhaseId.STOPPING, BEGAN, LATER)
    turn.end_phase(PhaseId.STOPPING, LATER, LATER)
    assert not [action for action in turn.close(LATER) if isinstance(action, PostReply)]


def test_phases_that_are_closed_for_want_of_a_line_are_not_told() -> None:
    turn = turn_of()
    turn.begin_phase(PhaseId.PROCESS, BEGAN, BEGAN)
    turn.close_phases(LATER)
    assert turn.tracker.phases()[0].ended == LATER
    assert not [action for action in turn.close(LATER) if isinstance(action, PostReply)]


def test_progress_ends_a_stall_that_was_told_and_no_other() -> None:
    turn = turn_of()
    turn.progress("a line", LATER)
    assert turn.close(LATER) == []
    turn.state.silence.stalled = turn.state.silence.told = True
    turn.progress("another line", LATER + timedelta(seconds=90))
    assert not any(isinstance(action, PostReply) for action in turn.close(LATER))
    turn.open()
    turn.tell_moved()
    turn.tell_moved()
    (reply,) = [action for action in turn.close(LATER) if isinstance(action, PostReply)]
    assert isinstance(reply.reply, MovedAgain)
    assert (reply.reply.silent, reply.reply.sign) == (timedelta(seconds=90), "another line")
    assert not turn.state.silence.stalled


def test_a_run_that_is_forgotten_leaves_a_tracker_the_state_knows() -> None:
    turn = turn_of()
    turn.begin_phase(PhaseId.PROCESS, BEGAN, BEGAN)
    turn.forget_run()
    assert turn.tracker.phases() == ()
    turn.begin_phase(PhaseId.WEIGHTS, BEGAN, BEGAN)
    assert turn.state.tracker.spans.records[0].phase is PhaseId.WEIGHTS


def auto() -> Run:
    run = Run()
    run.engine = load_engine("auto")
    run.startup = Startup(run.plan, run.engine)
    return run


def test_an_engine_nobody_named_is_recognised_and_its_first_lines_are_read_anew() -> None:
    run = auto()
    run.start_process()
    run.say("Init torch distributed begin.", rank="TP0")
    run.restore()
    assert run.startup.view(run.now).phase is PhaseId.PROCESS
    run.say("Init torch distributed begin.", rank="TP1")
    view = run.startup.view(run.now)
    assert view.phase is PhaseId.DISTRIBUTED
    assert [each.rank for each in view.ranks] == ["TP0", "TP1"]
    run.restore()
    assert run.startup.view(run.now) == view
    run.load_weights()
    run.capture_graphs()
    run.open_server()
    run.say_ready()
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY
    assert not run.startup.state.recognition.kept


def test_what_failed_before_the_engine_was_known_is_told_once() -> None:
    run = auto()
    run.start_process()
    run.say("Traceback (most recent call last):", stamped=False)
    run.say('  File "/opt/engine/x.py", line 1, in load_model', stamped=False)
    run.say("ModuleNotFoundError: No module named 'sgl_kernel'", stamped=False)
    run.observe(RUNNING, active="failed", sub="failed", result="exit-code", exec_code=1, exec_status=1)
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.FAILED
    assert "sgl_kernel" in (run.verdict.cause or "")


def test_a_run_that_is_forgotten_leaves_no_lines() -> None:
    turn = turn_of()
    turn.engine = load_engine("auto")
    turn.recognition = Recognition(turn.state.recognition)
    line = LogLine("hello", "hello")
    assert turn.recognise(line, member=MEMBER, at=BEGAN) == ()
    assert len(turn.state.recognition.kept) == 1
    turn.forget_run()
    assert turn.state.recognition.kept == []


@pytest.mark.parametrize("verb", [Verb.RESTART, Verb.WATCH])
def test_patience_is_that_of_the_phase_and_of_the_engine_that_was_recognised(verb: Verb) -> None:
    plan = make_plan(verb=verb)
    turn = Turn(plan, load_engine("auto"), fresh_state(plan))
    for phase in (None, PhaseId.PROCESS, PhaseId.WEIGHTS, PhaseId.GRAPHS):
        if phase is not None:
            turn.begin_phase(phase, BEGAN, LATER)
        assert turn.patience(LATER) == turn.patience(LATER) == patience_now(turn.scene(LATER))
        assert turn.current(LATER) == current_phase(turn.scene(LATER))
    text = "[2026-05-29 23:49:47 TP0] Load weight begin."
    for _ in range(2):
        turn.recognise(LogLine(text, text), member=MEMBER, at=BEGAN)
    assert turn.engine.name == "sglang"
    assert turn.patience(LATER) == patience_now(turn.scene(LATER))

"""What a line changes, by whose run it is."""

from __future__ import annotations

from datetime import timedelta

from bot.core.actions import MovedAgain, Noticed, PhaseFinished, ProbeNow, StallReported
from bot.core.events import MAIN_RANK, Origin, PhaseId, Rank, VerbSent
from tests.support.startup_runs import BEGAN, MEMBER, NEW, NEXT, OLD, OLD_RUNNING, RUNNING, Run, make_plan


def phases_of(run: Run) -> list[PhaseId]:
    return [view.phase for view in run.startup.view(run.now).phases if view.took is not None]


def test_old_lines_never_reach_the_tracker_or_the_suspects() -> None:
    run = Run()
    run.begin()
    run.say("The server is fired up and ready to roll!", invocation=OLD)
    run.say("Scheduler hit an exception: Traceback (most recent call last):", rank="TP0", invocation=OLD)
    run.say("RuntimeError: of the old run", stamped=False, invocation=OLD)
    run.systemd("u: Main process exited, code=killed, status=9/KILL", invocation=OLD)
    run.systemd("u: Failed with result 'signal'.", invocation=OLD)
    run.wait(20)
    assert run.startup.verdict is None
    assert not run.orders(ProbeNow)
    assert run.startup.state.lines == 0
    assert run.startup.state.suspects.suspects == []


def test_the_stop_is_timed_by_systemds_own_lines() -> None:
    run = Run()
    run.start_process()
    (reply,) = run.replies(PhaseFinished)
    assert (reply.phase, reply.took) == (PhaseId.STOPPING, timedelta(seconds=10))


def test_a_line_of_the_new_run_begins_the_process_before_any_look_at_the_unit() -> None:
    run = Run()
    run.begin()
    run.tell(VerbSent(MEMBER))
    run.wait(2)
    run.systemd("Started sglang-kimi.service - Kimi.")
    view = run.startup.view(run.now)
    assert view.phase is PhaseId.PROCESS
    assert run.startup.state.members[MEMBER].invocation == NEW


def test_a_process_that_had_to_be_killed_is_told() -> None:
    run = Run()
    run.begin()
    run.tell(VerbSent(MEMBER))
    run.systemd("sglang-kimi.service: State 'stop-sigterm' timed out. Killing.", invocation=OLD)
    assert "systemd killed it" in run.replies(Noticed)[0].sentence


def test_a_run_begun_just_before_the_verb_leaves_nothing_behind() -> None:
    """Interleaving: systemd starts NEW by itself between our look and our verb; the verb begins NEXT."""
    run = Run()
    run.begin()
    run.systemd("Started sglang-kimi.service - Kimi.")
    run.say("Scheduler hit an exception: Traceback (most recent call last):", rank="TP0")
    run.say("OSError: of the run in between", stamped=False)
    run.tell(VerbSent(MEMBER))
    run.systemd("Stopping sglang-kimi.service - Kimi...")
    run.systemd("Started sglang-kimi.service - Kimi.", invocation=NEXT)
    run.observe(RUNNING, invocation=NEXT)
    run.wait(30)
    assert run.startup.verdict is None
    assert run.startup.state.suspects.suspects == []
    assert run.startup.state.lines == 1


def test_a_kernel_line_about_the_host_belongs_to_what_runs() -> None:
    run = Run()
    run.start_process()
    before = run.startup.state.lines
    text = "Out of memory: Killed process 4711 (sglang::schedul)"
    run.say(text, stamped=False, invocation=None, origin=Origin.KERNEL)
    assert run.startup.state.lines == before
    run.systemd("sglang-kimi.service: Main process exited, code=killed, status=9/KILL")
    run.wait_for_verdict()
    assert text in (run.verdict.root_error or "")


def test_a_partial_line_is_read_for_progress_alone() -> None:
    run = Run()
    run.start_process()
    run.load_weights(seconds=1)
    lines, last = run.startup.state.lines, list(run.startup.state.last_lines)
    run.say("Loading safetensors checkpoint shards:", stamped=False, partial=True)
    assert (run.startup.state.lines, run.startup.state.last_lines) == (lines, last)


def bar(done: int) -> str:
    return (
        f"Loading safetensors checkpoint shards: {done * 100 // 64:3}% Completed | {done}/64 "
        "[00:11<00:14,  2.45it/s]"
    )


def test_noise_and_repeats_are_no_progress_and_a_grown_bar_is() -> None:
    run = Run(make_plan(patience={PhaseId.WEIGHTS: timedelta(seconds=60)}))
    run.start_process()
    run.say("Load weight begin. avail mem=78.50 GB", rank="TP0")
    run.say(bar(1), stamped=False)
    for _ in range(5):
        run.wait(10)
        run.say(bar(1), stamped=False)
        run.say('INFO:     127.0.0.1:5555 - "GET /health HTTP/1.1" 503 Service Unavailable')
    run.wait(9)
    assert not run.replies(StallReported)
    run.wait(1)
    (stall,) = run.replies(StallReported)
    assert (stall.phase, stall.silent) == (PhaseId.WEIGHTS, timedelta(seconds=60))
    run.say(bar(2), stamped=False)
    run.wait(5)
    (moved,) = run.replies(MovedAgain)
    assert "2 of 64" in moved.sign


def test_last_lines_are_distinct_and_oldest_first() -> None:
    run = Run()
    run.start_process()
    for text in ("alpha", "alpha", "beta", "alpha", "gamma"):
        run.say(text, stamped=False)
    assert run.startup.state.last_lines[-3:] == ["alpha", "beta", "gamma"]


def test_a_bar_stands_among_the_last_lines_as_it_stands_now() -> None:
    run = Run()
    run.start_process()
    run.say("Load weight begin. avail mem=94.81 GB", rank="TP0")
    for done in (0, 1, 40, 64):
        rate = "?it/s" if not done else f"{done}.1s/it"
        state = f"{done * 100 // 64:3}% Completed | {done}/64 [00:01<00:09, {rate}]"
        run.say(f"Loading safetensors checkpoint shards: {state}", stamped=False)
    run.say("something else", stamped=False)
    *_, bar, last = run.startup.state.last_lines
    assert "100% Completed | 64/64" in bar
    assert last == "something else"
    assert sum("Completed" in told for told in run.startup.state.last_lines) == 1


def test_a_failure_is_placed_where_its_rank_was() -> None:
    run = Run()
    run.start_process()
    for rank in ("TP0", "TP1"):
        run.say("Load weight begin. avail mem=78.50 GB", rank=rank)
    run.end_weights("TP1")
    run.say("KV Cache is allocated. #tokens: 10, KV size: 1.00 GB", rank="TP1")
    run.say("Scheduler hit an exception: Traceback (most recent call last):", rank="TP1", pid=201)
    suspect = run.startup.state.suspects.suspects[0]
    assert (suspect.rank, suspect.phase) == (Rank("TP1"), PhaseId.MEMORY)
    assert suspect.rank != MAIN_RANK


def test_a_failure_of_a_rank_between_phases_is_placed_where_all_are() -> None:
    run = Run()
    run.smoke = None
    run.run_to_ready()
    run.say("Scheduler hit an exception: Traceback (most recent call last):", rank="TP1", pid=201)
    assert run.startup.state.suspects.suspects[0].phase is PhaseId.SMOKE


def test_durations_are_the_hosts_own_even_when_its_lines_come_late() -> None:
    run = Run()
    run.start_process()
    at = run.now
    run.pass_time(600)
    for offset, text in ((0, "Load weight begin. avail mem=1 GB"), (300, "Load weight end. elapsed=300 s")):
        for rank in ("TP0", "TP1"):
            run.say(text, rank=rank, at=at + timedelta(seconds=offset))
    weights = [reply for reply in run.replies(PhaseFinished) if reply.phase is PhaseId.WEIGHTS]
    assert [reply.took for reply in weights] == [timedelta(seconds=300)]


def test_a_host_whose_clock_is_an_hour_off_shows_no_nonsense() -> None:
    for skew in (timedelta(hours=1), timedelta(hours=-1)):
        run = Run(skew=skew)
        run.start_process()
        run.load_weights()
        run.say("KV Cache is allocated. #tokens: 10, KV size: 1.00 GB", rank="TP0")
        run.wait(7)
        view = run.startup.view(run.now)
        assert timedelta(0) <= view.in_phase <= timedelta(seconds=10)
        assert all((each.took or timedelta(0)) <= timedelta(seconds=31) for each in view.phases)


def test_old_state_of_the_unit_is_no_start() -> None:
    run = Run()
    run.begin()
    run.tell(VerbSent(MEMBER))
    run.observe(OLD_RUNNING)
    assert phases_of(run) == []
    assert run.now == BEGAN


def test_the_stop_is_told_before_the_start_though_systemd_s_state_is_read_before_its_journal() -> None:
    run = Run(make_plan(ran=(MEMBER,)))
    run.begin()
    run.tell(VerbSent(MEMBER))
    run.wait(14)
    run.observe(RUNNING)
    run.systemd("Stopping sglang-kimi.service - Kimi...", invocation=OLD)
    run.systemd("Stopped sglang-kimi.service - Kimi.", invocation=OLD)
    run.systemd("Started sglang-kimi.service - Kimi.")
    run.wait(9)
    run.load_weights()
    finished = [reply.phase for reply in run.replies(PhaseFinished)]
    assert finished[:2] == [PhaseId.STOPPING, PhaseId.PROCESS]
    assert finished.count(PhaseId.STOPPING) == 1
    assert run.replies(PhaseFinished)[0].took == timedelta(seconds=14)


def test_a_stop_that_was_seen_late_lasted_since_systemd_s_own_line() -> None:
    run = Run(make_plan(ran=(MEMBER,)))
    run.begin()
    run.tell(VerbSent(MEMBER))
    run.wait(13)
    run.observe(OLD_RUNNING, active="deactivating", sub="stop-sigterm", job=77)
    assert run.startup.view(run.now).phases[0].took == timedelta(seconds=13)
    run.skew = timedelta(seconds=-9)  # the line was written that long ago
    run.systemd("Stopping sglang-kimi.service - Kimi...", invocation=OLD)
    run.skew = timedelta()
    run.systemd("Stopped sglang-kimi.service - Kimi.", invocation=OLD)
    run.systemd("Started sglang-kimi.service - Kimi.")
    (told,) = run.replies(PhaseFinished)
    assert (told.phase, told.took) == (PhaseId.STOPPING, timedelta(seconds=9))

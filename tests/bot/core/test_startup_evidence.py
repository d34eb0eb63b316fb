"""Samples in a startup: progress the log hides, ranks that vanish, what excuses silence, what is slow."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from bot.core.actions import Close, MovedAgain, Noticed, Pace, StallReported, UploadStacks
from bot.core.baseline import Usual
from bot.core.events import EvidenceSampled, PhaseId, Rank
from bot.core.evidence import Gpu, ProcessSeen, Sample, ShardMapped
from tests.support.startup_runs import MEMBER, NEW, OLD, RUNNING, STATE, Run, make_plan

GIGA = 10**9
PATIENT = {PhaseId.WEIGHTS: timedelta(seconds=60), PhaseId.GRAPHS: timedelta(seconds=60)}


def process(rank: int) -> ProcessSeen:
    return ProcessSeen(100 + rank, f"sglang::scheduler_TP{rank}", Rank(f"TP{rank}"))


def sample(run: Run, **changes: Any) -> None:
    plain: dict[str, Any] = {
        "invocation": NEW,
        "cpu": (run.now - run.plan.began) * 2,
        "read": 0,
        "processes": (process(0), process(1)),
        "gpus": (Gpu(0, 74 * GIGA, 80 * GIGA, 100),),
    }
    run.tell(EvidenceSampled(MEMBER, Sample(run.now, **{**plain, **changes})))


def loading(**changes: Any) -> Run:
    run = Run(make_plan(patience=PATIENT, **changes), unit=RUNNING)
    run.start_process()
    for rank in ("TP0", "TP1"):
        run.say("Load weight begin. avail mem=78.50 GB", rank=rank)
    return run


def test_weights_that_are_read_are_progress_without_any_bar() -> None:
    run = loading()
    for step in range(40):
        sample(run, read=step * 10 * GIGA, model_size=547 * GIGA)
        run.wait(10)
    assert not run.replies(StallReported)
    view = run.startup.view(run.now)
    assert view.measured == "390 GB of 547 GB read, 1.0 GB/s"
    assert view.share == pytest.approx(390 / 547)
    assert view.pace is Pace.MOVING


def test_weights_read_again_and_again_are_no_progress() -> None:
    run = loading()
    sample(run, read=547 * GIGA, model_size=547 * GIGA)
    for _ in range(30):
        run.wait(10)
        sample(run, read=547 * GIGA, model_size=547 * GIGA)
    assert len(run.replies(StallReported)) == 1


def test_a_mapped_shard_that_goes_on_is_progress_and_one_that_goes_back_is_none() -> None:
    run = loading()
    for number in (1, 2, 3):
        sample(run, shard=ShardMapped(number, 64), read=None)
        run.wait(50)
    assert not run.replies(StallReported)
    for number in (2, 3, 2, 3):
        sample(run, shard=ShardMapped(number, 64), read=None)
        run.wait(50)
    assert len(run.replies(StallReported)) == 1
    assert not run.replies(MovedAgain)


def test_gpu_memory_that_moves_excuses_silence_up_to_a_bound() -> None:
    run = loading()
    for step in range(17):
        sample(run, gpus=(Gpu(0, step * GIGA, 80 * GIGA, 100),))
        run.wait(10)
    assert not run.replies(StallReported)
    assert run.startup.view(run.now).pace is Pace.QUIET
    assert any("nothing new for" in note for note in run.startup.view(run.now).notes)
    for step in range(17, 20):
        sample(run, gpus=(Gpu(0, step * GIGA, 80 * GIGA, 100),))
        run.wait(10)
    (stall,) = run.replies(StallReported)
    assert stall.silent == timedelta(seconds=180)


def test_a_busy_cpu_excuses_nothing() -> None:
    run = loading()
    for _ in range(6):
        sample(run)
        run.wait(10)
    (stall,) = run.replies(StallReported)
    told = " / ".join(stall.evidence)
    assert "CPU 200 %, unchanged: 2 ranks compute or spin" in told
    assert "GPU memory unchanged at 74 GB" in told
    assert "Nothing read from disk" in told
    assert "collective" not in told  # they may repack weights; in graph capture they wait for each other


def test_ranks_that_spin_in_graph_capture_look_like_a_collective() -> None:
    run = loading()
    for rank in ("TP0", "TP1"):
        run.end_weights(rank)
        run.say("Capture cuda graph begin. This can take up to several minutes.", rank=rank)
    for _ in range(7):
        sample(run)
        run.wait(10)
    (stall,) = run.replies(StallReported)
    assert stall.evidence[-1] == "It looks like a collective that waits for a rank"


def test_ranks_that_do_nothing_wait_for_something_else() -> None:
    run = loading()
    for _ in range(7):
        sample(run, cpu=timedelta(seconds=100), gpus=None)
        run.wait(10)
    (stall,) = run.replies(StallReported)
    assert stall.evidence[-1] == (
        "Nothing computes: it waits for something else, a disk, another host or a lock"
    )


def test_a_stall_asks_for_the_stacks_of_its_ranks() -> None:
    run = loading()
    sample(run)
    run.wait(61)
    (order,) = run.orders(UploadStacks)
    assert isinstance(order, UploadStacks)
    assert order.processes == {MEMBER: {"TP0": 100, "TP1": 101}}
    assert run.sequences == sorted(set(run.sequences))


def test_progress_by_evidence_ends_a_stall() -> None:
    run = loading()
    sample(run, read=GIGA, model_size=547 * GIGA)
    run.wait(61)
    assert run.replies(StallReported)
    sample(run, read=60 * GIGA, model_size=547 * GIGA)
    run.wait(5)
    (moved,) = run.replies(MovedAgain)
    assert moved.sign.startswith("60 GB of 547 GB read")


def test_a_rank_that_vanished_is_told_at_once_and_fails_after_a_moment() -> None:
    run = loading()
    sample(run)
    run.wait(10)
    sample(run, processes=(process(0),))
    (gone,) = run.replies(Noticed)
    assert gone.sentence.startswith("TP1: the process is gone, and the log does not say why.")
    run.wait(10)
    sample(run, processes=(process(0),))
    assert run.startup.verdict is None
    run.wait(10)
    sample(run, processes=(process(0),))
    run.wait(11)
    assert run.verdict.cause == "TP1's process is gone; SGLang ≤0.5.9 hangs for ever on that"
    assert (run.verdict.phase, run.verdict.rank) == (PhaseId.WEIGHTS, "TP1")
    failure = run.startup.account(run.now).failure
    assert failure is not None
    assert failure.advice.startswith("`journalctl -k` on the host")
    assert len(run.replies(Noticed)) == 1


def test_a_rank_that_comes_back_is_no_failure() -> None:
    run = loading()
    sample(run)
    run.wait(10)
    sample(run, processes=(process(0),))
    run.wait(10)
    sample(run)
    run.wait(25)
    sample(run)
    assert run.startup.verdict is None


def test_samples_of_the_run_before_tell_nothing() -> None:
    run = loading()
    sample(run, invocation=OLD, read=300 * GIGA, model_size=547 * GIGA)
    sample(run, invocation=OLD, processes=(process(0),))
    assert run.startup.view(run.now).measured == ""
    assert not run.replies(Noticed)


def test_what_the_host_refuses_is_noted_and_no_error() -> None:
    run = loading()
    sample(run, read=None, gpus=None, processes=None, refused=("GPUs (no nvidia-smi)",))
    assert "the host does not tell: GPUs (no nvidia-smi)" in run.startup.view(run.now).notes


def test_slow_is_told_once_a_phase_with_its_usual() -> None:
    usual = Usual({"weights": (100.0, 100.0), "whole": (200.0, 200.0)})
    run = loading(usual=usual)
    for number in range(1, 30):
        run.say(
            f"Loading safetensors checkpoint shards:  1% Completed | {number}/64 [00:01<00:09, 1it/s]",
            stamped=False,
        )
        run.wait(10)
    (slow,) = [each for each in run.replies(Noticed) if "Slower" in each.sentence]
    assert slow.sentence == "Slower than usual loading weights: usual 1m40s, now 2m16s, and still moving."
    assert not run.replies(StallReported)


def test_what_an_old_line_tells_is_not_slow_before_the_rest_is_read() -> None:
    """As where kimi was away, or begins to watch a start that is nearly over."""
    run = loading(usual=Usual({"weights": (100.0, 100.0), "whole": (200.0, 200.0)}))
    began = run.now
    run.pass_time(300)
    bar = "Loading safetensors checkpoint shards:  9% Completed | 6/64 [00:01<00:09, 1it/s]"
    run.say(bar, stamped=False, at=began + run.skew + timedelta(seconds=30))
    run.wait(10)
    assert not [each for each in run.replies(Noticed) if "Slower" in each.sentence]
    run.wait(10)  # and that was all: it is in that phase still
    assert [each for each in run.replies(Noticed) if "Slower" in each.sentence]


def test_between_two_phases_nothing_is_slow() -> None:
    usual = Usual({"graphs": (40.0,), "memory": (40.0,), "whole": (200.0,)})
    run = loading(usual=usual)
    run.wait(50)
    run.end_weights("TP0")
    run.end_weights("TP1")
    run.wait(29)
    assert not [each for each in run.replies(Noticed) if "Slower" in each.sentence]


def test_the_longest_silence_of_healthy_starts_makes_patience_longer() -> None:
    run = loading(usual=Usual(silences={"weights": (30.0, 200.0)}))
    run.wait(299)
    assert not run.replies(StallReported)
    run.wait(1)
    (stall,) = run.replies(StallReported)
    assert (stall.patience, stall.longest) == (timedelta(seconds=300), timedelta(seconds=200))


def test_a_healthy_start_teaches_its_longest_silences() -> None:
    run = Run()
    run.run_to_ready()
    run.unit = RUNNING
    run.wait_for_verdict()
    (closed,) = run.orders(Close)
    assert isinstance(closed, Close)
    assert closed.silences["weights"] == 20.0
    assert closed.silences["graphs"] == 10.0


def test_silence_while_nobody_looked_teaches_nothing() -> None:
    run = Run()
    run.start_process()
    run.load_weights(seconds=20)
    run.pass_time(3600)
    run.restore()
    run.startup.resume(run.now)
    run.capture_graphs()
    assert max(run.startup.state.silence.longest.values()) < 60


def test_a_state_saved_before_anything_was_measured_still_reads() -> None:
    run = loading()
    sample(run)
    state = json.loads(STATE.dump_json(run.startup.state))
    for key in ("slow", "weights"):
        del state[key]
    for key in ("key", "longest", "unsure"):
        del state["silence"][key]
    del state["members"][MEMBER]["trace"]
    old = STATE.validate_python(state)
    assert old.members[MEMBER].trace.sample is None
    assert old.silence.longest == {}

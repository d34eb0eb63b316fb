"""What a startup leaves behind: an account that is whole, and a waterfall that says how it ended."""

from __future__ import annotations

from datetime import timedelta

from bot.core.account import Failure
from bot.core.actions import Mark, UploadPicture, Verdict
from bot.core.changes import LastHealthy
from bot.core.events import PhaseId, Rank, Role, UnwatchAsked, UserId, Verb
from bot.core.picture_words import describe_waterfall
from bot.core.redact import Redactor
from bot.core.setup import Setup, parse_setup
from tests.support.startup_runs import BEGAN, MEMBER, Run, make_plan

UNIT = "sglang-kimi.service"


def loading(**changes: object) -> Run:
    run = Run(make_plan(**changes))
    run.start_process()
    for rank in ("TP0", "TP1"):
        run.say("Load weight begin. avail mem=78.50 GB", rank=rank)
    run.wait(20)
    return run


def failed(second: str = "") -> Run:
    run = loading()
    run.say("Scheduler hit an exception: Traceback (most recent call last):", rank="TP1", pid=201)
    run.say('  File "loader.py", line 12, in load', stamped=False, pid=201)
    run.say("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", stamped=False, pid=201)
    if second:
        run.say("Scheduler hit an exception: Traceback (most recent call last):", rank="TP0", pid=200)
        run.say('  File "loader.py", line 12, in load', stamped=False, pid=200)
        run.say(second, stamped=False, pid=200)
    run.systemd(f"{UNIT}: Main process exited, code=killed, status=9/KILL")
    run.systemd(f"{UNIT}: Failed with result 'signal'.")
    run.wait_for_verdict()
    return run


def healthy() -> Run:
    run = Run(make_plan())
    run.run_to_ready()
    run.wait_for_verdict()
    return run


def test_a_healthy_start_leaves_its_times_and_no_failure() -> None:
    run = healthy()
    account = run.startup.account(run.now)
    assert account.failure is None
    assert account.engine == "sglang"
    assert account.took == run.verdict.took.total_seconds()
    assert PhaseId.WEIGHTS in {each.phase for each in account.phases}
    waterfall = run.startup.waterfall(run.now)
    assert waterfall is not None
    assert waterfall.verdict.startswith("healthy after ")
    assert waterfall.sign == "✓"


def test_the_versions_its_setup_tells_are_kept() -> None:
    run = healthy()
    run.startup.state.setup.seen[MEMBER] = Setup(versions={"sglang": "0.5.10"})
    assert run.startup.account(run.now).versions == {"sglang": "0.5.10"}


def test_what_changed_is_kept_as_it_was_told_with_secrets_masked() -> None:
    before = Setup(command=("serve", "--api-key", "[masked]"), environment={"HF_TOKEN": "[masked]"})
    last = LastHealthy(BEGAN, {MEMBER: before})
    run = Run(make_plan(last=last))
    assert run.startup.account(run.now).changed is None
    shown, masked = Redactor().redact(
        "ExecStart={ path=/x ; argv[]=serve --api-key sk-0123456789abcdef --tp 8 ; ignore_errors=no }\n"
        "Environment=HF_TOKEN=hf_0123456789 NCCL_DEBUG=INFO\n"
    )
    assert masked
    run.startup.state.setup.seen[MEMBER] = parse_setup(shown)
    changed = run.startup.account(run.now).changed
    assert changed is not None
    assert (changed.more, changed.since) == (0, BEGAN)
    assert {"+ --tp 8", "+ NCCL_DEBUG=INFO"} <= set(changed.told)
    assert "0123456789" not in str(changed)


def test_of_very_many_changes_the_first_are_kept_and_the_others_counted() -> None:
    last = LastHealthy(BEGAN, {MEMBER: Setup(environment={})})
    run = Run(make_plan(last=last))
    run.startup.state.setup.seen[MEMBER] = Setup(environment={f"A{n}": "1" for n in range(100)})
    changed = run.startup.account(run.now).changed
    assert changed is not None
    assert (len(changed.told), changed.more) == (40, 60)


def test_a_failure_is_remembered_with_its_lines_and_what_to_try() -> None:
    run = failed()
    account = run.startup.account(run.now)
    failure = account.failure
    assert failure is not None
    assert (failure.phase, failure.role, failure.rank) == (PhaseId.WEIGHTS, Role.TARGET, Rank("TP1"))
    assert "CUDA out of memory" in failure.evidence[0]
    assert failure.cause
    assert failure.advice


def test_a_failed_start_marks_its_phase_and_its_rank() -> None:
    run = failed()
    waterfall = run.startup.waterfall(run.now)
    assert waterfall is not None
    assert [lane.name for lane in waterfall.lanes if lane.mark is Mark.FAILED] == ["TP1"]
    assert " in weights" in waterfall.verdict
    assert describe_waterfall(waterfall).startswith("kimi-k2.5: failed after ")


def test_of_two_ranks_that_failed_apart_both_are_marked() -> None:
    run = failed(second="OSError: [Errno 28] No space left on device: '/models/x'")
    failure, waterfall = run.startup.account(run.now).failure, run.startup.waterfall(run.now)
    assert failure is not None
    assert (failure.rank, failure.also_rank) == (Rank("TP1"), Rank("TP0"))
    assert failure.also.startswith("TP0: ")
    assert waterfall is not None
    assert [lane.name for lane in waterfall.lanes if lane.mark is Mark.FAILED] == ["TP0", "TP1"]
    assert waterfall.also == failure.also


def test_both_are_the_same_after_the_process_died_and_later() -> None:
    run = failed()
    before = run.startup.account(run.now), run.startup.waterfall(run.now)
    run.restore()
    run.pass_time(3_000)
    assert (run.startup.account(run.now), run.startup.waterfall(run.now)) == before


def test_a_state_of_an_older_version_still_tells_the_sentence() -> None:
    run = failed()
    run.startup.state.failure = None
    failure = run.startup.account(run.now).failure
    assert failure == Failure(run.startup.state.cause or "", PhaseId.WEIGHTS, Role.TARGET)


def test_only_a_start_with_a_verdict_and_a_phase_is_drawn() -> None:
    left = loading()
    left.tell(UnwatchAsked(UserId("U0123")))
    assert left.startup.verdict is Verdict.UNWATCHED
    assert not left.orders(UploadPicture)
    refused = Run(make_plan(verb=Verb.STOP, give_up_after=timedelta(seconds=5)))
    refused.begin()
    refused.wait_for_verdict()
    assert refused.startup.verdict is Verdict.FAILED
    assert not refused.orders(UploadPicture)
    assert len(failed().orders(UploadPicture)) == 1
    assert len(healthy().orders(UploadPicture)) == 1

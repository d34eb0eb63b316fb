"""What nobody saw: told once, and nothing concluded from it but what the host itself says afterwards."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.core.actions import (
    LogGap,
    Noticed,
    PhaseFinished,
    Resumed,
    RunSmoke,
    SendVerb,
    StallReported,
    Verdict,
)
from bot.core.baseline import WHOLE
from bot.core.events import (
    HostLost,
    HostRestored,
    LineRead,
    LogLine,
    LogMissed,
    PhaseId,
    SmokeFinished,
    SmokeResult,
    UnitObserved,
    Verb,
    VerbSent,
    VerbUnanswered,
)
from tests.support.startup_runs import (
    BEGAN,
    MEMBER,
    NEW,
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

PATIENT = {PhaseId.WEIGHTS: timedelta(seconds=60), PhaseId.STOPPING: timedelta(seconds=60)}
GONE = replace(RUNNING, active="inactive", sub="dead", invocation=None, main_pid=0)
AGAIN = replace(RUNNING, invocation=NEXT, main_pid=812)
ONE, TWO, THREE = "1" * 32, "2" * 32, "3" * 32


def loading(**changes: Any) -> Run:
    run = Run(make_plan(patience=PATIENT, **changes))
    run.start_process()
    for rank in ("TP0", "TP1"):
        run.say("Load weight begin. avail mem=78.50 GB", rank=rank)
    return run


def resume(run: Run, away: float | None, *, clean: bool = False) -> list[Resumed]:
    """The next process takes it up; what it tells of that."""
    before = len(run.replies(Resumed))
    run.restore()
    span = None if away is None else timedelta(seconds=away)
    run.actions.extend(run.startup.resume(run.now, away=span, clean=clean))
    return run.replies(Resumed)[before:]


# ---- kimi itself away -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("away", "clean", "told"),
    [(42, False, True), (3, False, True), (9, True, False), (10, True, True), (None, False, False)],
)
def test_an_absence_is_told_unless_it_was_a_short_orderly_one(
    away: float | None, clean: bool, told: bool
) -> None:
    run = loading()
    run.pass_time(away or 0)
    assert resume(run, away, clean=clean) == ([Resumed(timedelta(seconds=away or 0))] if told else [])


def test_each_absence_is_told_once_under_a_number_of_its_own() -> None:
    run = loading()
    run.pass_time(42)
    assert len(resume(run, 42)) == 1
    assert len(resume(run, 1, clean=True)) == 0
    run.pass_time(20)
    assert resume(run, 20) == [Resumed(timedelta(seconds=20))]
    assert run.sequences == list(range(1, len(run.sequences) + 1))


def test_an_absence_is_told_before_the_doubt_about_an_order() -> None:
    run = Run()
    run.begin()
    resume(run, 5)
    run.tell(VerbUnanswered(MEMBER, "kimi itself went away before the answer came"))
    first, second = run.replies(Resumed)[0], run.replies(Noticed)[0]
    replies = [action.reply for action in run.actions if hasattr(action, "reply")]
    assert replies == [first, second]
    assert "no answer came back (kimi itself went away before the answer came)" in second.sentence


def test_a_failure_seen_before_an_absence_waits_for_the_rest_of_its_story() -> None:
    run = loading()
    run.observe(GONE)
    run.pass_time(300)
    resume(run, 299)
    run.wait(1)
    assert run.startup.verdict is None
    run.systemd("sglang-kimi.service: Main process exited, code=exited, status=3/NOTIMPLEMENTED")
    run.systemd("sglang-kimi.service: Failed with result 'exit-code'.")
    run.wait_for_verdict(10)
    assert "exit status 3" in (run.verdict.cause or "")


def test_after_the_verdict_no_absence_is_told() -> None:
    run = Run()
    run.run_to_ready()
    run.wait_for_verdict()
    assert resume(run, 42) == []


# ---- the host out of sight --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "why", ["h: link lost", "h: link lost.", "h: refuses connections; is the port right?"]
)
def test_a_host_out_of_sight_is_told_in_whole_sentences(why: str) -> None:
    run = loading()
    run.tell(HostLost(MEMBER, why))
    run.unit = None
    run.wait(30)
    told = run.replies(Noticed)[0].sentence
    assert f"{why.rstrip('.')}{'' if why.endswith('?') else '.'} Nothing is concluded" in told


def test_no_stall_while_the_host_is_out_of_sight() -> None:
    run = loading()
    run.wait(30)
    run.tell(HostLost(MEMBER, "link lost"))
    run.unit = None
    run.wait(29)
    assert not run.replies(Noticed)
    run.wait(1)
    assert "out of sight for 30s: link lost" in run.replies(Noticed)[0].sentence
    run.tell(HostLost(MEMBER, "link lost"))
    run.wait(600)
    assert len(run.replies(Noticed)) == 1
    assert not run.replies(StallReported)
    run.tell(HostRestored(MEMBER))
    assert "seen again after 10m30s" in run.replies(Noticed)[1].sentence
    run.wait(29)
    assert not run.replies(StallReported)
    run.wait(1)
    assert len(run.replies(StallReported)) == 1


def test_a_short_loss_is_not_told() -> None:
    run = loading()
    run.tell(HostLost(MEMBER, "link lost"))
    run.wait(29)
    run.tell(HostRestored(MEMBER))
    assert not run.replies(Noticed)
    assert run.startup.view(run.now).lost is None


def test_a_stop_before_the_host_went_out_of_sight_is_not_judged_without_it() -> None:
    """It may be the host that goes down, and the unit with it."""
    run = loading()
    run.observe(boot=ONE)
    run.systemd("Stopping sglang-kimi.service - Kimi...")
    run.systemd("sglang-kimi.service: Deactivated successfully.")
    run.wait(2)
    run.tell(HostLost(MEMBER, "link lost"))
    run.unit = None
    run.wait(300)
    assert run.startup.verdict is None
    run.tell(HostRestored(MEMBER))
    run.observe(GONE, boot=ONE)  # the same boot: somebody stopped it
    run.wait_for_verdict(6)
    assert "stopped outside chat" in (run.verdict.cause or "")


def test_an_end_seen_by_state_alone_waits_for_its_story_until_the_host_is_back() -> None:
    run = loading()
    run.observe(GONE)
    run.tell(HostLost(MEMBER, "link lost"))
    run.unit = None
    run.wait(120)
    assert run.startup.verdict is None
    run.tell(HostRestored(MEMBER))
    run.systemd("sglang-kimi.service: Main process exited, code=exited, status=3/NOTIMPLEMENTED")
    run.systemd("sglang-kimi.service: Failed with result 'exit-code'.")
    run.wait_for_verdict(10)
    assert "exit status 3" in (run.verdict.cause or "")


def test_what_the_engine_said_is_enough_without_the_host() -> None:
    run = loading()
    run.say("Scheduler hit an exception: Traceback (most recent call last):", rank="TP1")
    run.tell(HostLost(MEMBER, "link lost"))
    run.unit = None
    run.wait_for_verdict(11)
    assert run.startup.verdict is Verdict.FAILED


def test_a_smoke_test_that_lost_its_way_is_run_again() -> None:
    run = Run()
    run.smoke = None
    run.run_to_ready()
    run.wait(5)
    assert len(run.orders(RunSmoke)) == 1
    run.tell(SmokeFinished(SmokeResult(passed=False, error="the connection was lost")))
    run.tell(HostLost(MEMBER, "link lost"))
    run.wait(60)
    assert run.startup.verdict is None
    run.smoke = PASSED
    run.tell(HostRestored(MEMBER))
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY
    assert len(run.orders(RunSmoke)) == 2


# ---- the host booted anew ---------------------------------------------------------------------------------


def shut_down(run: Run) -> None:
    """What is written as a host goes down, and then nothing."""
    run.systemd("Stopping sglang-kimi.service - Kimi...")
    run.systemd("sglang-kimi.service: Deactivated successfully.")
    run.systemd("Stopped sglang-kimi.service - Kimi.")
    run.tell(HostLost(MEMBER, "link lost"))
    run.unit = None
    run.wait(100)


def boot_line(text: str, boot: str = TWO, **changes: Any) -> LineRead:
    line = LogLine(text, text, at=BEGAN + timedelta(minutes=5), pid=1, invocation=NEXT, boot=boot)
    return LineRead(MEMBER, replace(line, **changes))


def come_up(run: Run, *, by_line: bool) -> None:
    run.tell(HostRestored(MEMBER))
    if by_line:
        run.tell(boot_line("Started sglang-kimi.service - Kimi."))
    run.observe(AGAIN, boot=TWO)


def run_on(run: Run) -> None:
    """The start after the boot, to its end; its lines are the same as those before it."""
    for rank in ("TP0", "TP1"):
        run.say("Load weight begin. avail mem=78.50 GB", rank=rank, invocation=NEXT)
    run.wait(5)
    for rank in ("TP0", "TP1"):
        text = "Load weight end. elapsed=5.00 s, type=X, avail mem=8.50 GB, mem usage=70.00 GB."
        run.say(text, rank=rank, invocation=NEXT)
    run.say("INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)", invocation=NEXT)
    run.answer = None
    run.wait(2)


@pytest.mark.parametrize("by_line", [True, False])
@pytest.mark.parametrize("verb", [Verb.RESTART, Verb.START, Verb.WATCH])
def test_the_start_that_comes_with_the_boot_is_followed(verb: Verb, by_line: bool) -> None:
    run = Run(make_plan(verb=verb))
    run.start_process()
    run.observe(RUNNING, boot=ONE)
    run.load_weights()
    shut_down(run)
    come_up(run, by_line=by_line)
    (told,) = (each.sentence for each in run.replies(Noticed) if "rebooted" in each.sentence)
    assert told.startswith("llm-two was rebooted in the midst of this start")
    assert ("not sent again" in told) == (verb is not Verb.WATCH)
    run_on(run)
    run.answer = UP
    run.say(READY_LINE, invocation=NEXT)
    run.wait_for_verdict()
    assert run.startup.verdict is Verdict.HEALTHY
    assert len(run.orders(SendVerb)) == (verb is not Verb.WATCH)
    assert len([each for each in run.replies(PhaseFinished) if each.phase is PhaseId.WEIGHTS]) == 2
    assert run.closed.durations["weights"] == 5.0
    assert WHOLE not in run.closed.durations  # nobody shall take a boot for usual


def test_lines_of_before_the_boot_that_come_after_it_are_old() -> None:
    """The journal is read on from where it stood, and says last how the host went down."""
    run = loading()
    run.observe(boot=ONE)
    run.tell(HostLost(MEMBER, "link lost"))
    run.wait(60)
    run.tell(HostRestored(MEMBER))
    run.observe(AGAIN, boot=TWO)
    for text in ("Stopping sglang-kimi.service - Kimi...", "sglang-kimi.service: Deactivated successfully."):
        run.tell(boot_line(text, ONE, invocation=NEW))
    run.tell(boot_line("a line of the new run"))
    run.wait(15)
    assert run.startup.verdict is None
    assert len([each for each in run.replies(Noticed) if "rebooted" in each.sentence]) == 1
    assert run.startup.view(run.now).phase is PhaseId.PROCESS


def test_lines_of_before_the_boot_that_come_first_make_no_reboot() -> None:
    """A process that knew no boot yet died; the next one asks the host, then reads what was written."""
    run = Run()
    run.begin()
    run.tell(VerbSent(MEMBER))
    run.systemd("Started sglang-kimi.service - Kimi.")
    run.observe(RUNNING, boot=TWO)
    run.tell(boot_line("of the run before", ONE, invocation=OLD))
    run.tell(boot_line("of this one", TWO, invocation=NEW))
    assert not [each for each in run.replies(Noticed) if "rebooted" in each.sentence]
    assert run.startup.state.members[MEMBER].boot == TWO


def test_a_second_boot_is_told_too() -> None:
    run = loading()
    run.observe(boot=ONE)
    run.observe(AGAIN, boot=TWO)
    run.observe(GONE, boot=THREE)
    run.wait(30)
    assert run.startup.verdict is None
    assert len([each for each in run.replies(Noticed) if "rebooted" in each.sentence]) == 2


def test_a_unit_that_does_not_come_up_with_its_host_failed_of_the_reboot() -> None:
    run = loading()
    run.observe(boot=ONE)
    shut_down(run)
    run.tell(HostRestored(MEMBER))
    run.observe(GONE, boot=TWO, job=7)  # the boot is still under way
    run.wait(90)
    assert run.startup.verdict is None
    run.observe(GONE, job=None)
    run.wait_for_verdict(5)
    assert (run.verdict.cause or "").startswith("host rebooted: the unit did not come up with it")
    assert "`systemctl enable sglang-kimi.service`" in (run.verdict.cause or "")


def test_a_verb_whose_answer_the_reboot_took_is_not_sent_again() -> None:
    run = Run()
    run.begin()
    run.observe(OLD_RUNNING, boot=ONE)
    run.tell(VerbUnanswered(MEMBER, "lost"))
    run.tell(HostLost(MEMBER, "lost"))
    run.unit = None
    run.wait(120)
    run.tell(HostRestored(MEMBER))
    run.observe(GONE, boot=TWO)
    run.wait(58)
    assert run.startup.verdict is None
    run.wait_for_verdict(6)
    assert "host rebooted" in (run.verdict.cause or "")
    assert len(run.orders(SendVerb)) == 1


def test_one_of_several_hosts_that_reboots_ends_the_start() -> None:
    run = Run(make_plan(members=(MEMBER, OTHER), before={MEMBER: OLD, OTHER: OLD}))
    run.begin()
    for member in (MEMBER, OTHER):
        run.tell(VerbSent(member))
        run.tell(UnitObserved(member, RUNNING, ONE))
    run.tell(UnitObserved(OTHER, GONE, TWO))
    run.wait_for_verdict(5)
    assert "llm-three/sglang-kimi.service: host rebooted during the start" in (run.verdict.cause or "")


@pytest.mark.parametrize("again", [True, False])
def test_a_stop_amid_which_the_host_reboots(again: bool) -> None:
    run = Run(make_plan(verb=Verb.STOP))
    run.begin()
    run.tell(VerbSent(MEMBER))
    run.observe(OLD_RUNNING, boot=ONE, active="deactivating", sub="stop-sigterm", job=4)
    run.wait(5)
    run.observe(AGAIN if again else GONE, boot=TWO, active="active" if again else "inactive", job=None)
    run.wait_for_verdict(10)
    assert run.startup.verdict is (Verdict.FAILED if again else Verdict.STOPPED)
    assert not again or "host rebooted: the unit came up again with it" in (run.verdict.cause or "")


# ---- what the log no longer holds -------------------------------------------------------------------------


def at(seconds: float) -> Any:
    return BEGAN + timedelta(seconds=seconds)


def test_what_is_gone_from_the_journal_is_told_once() -> None:
    run = loading()
    run.pass_time(400)
    resume(run, 400)
    missed = LogMissed(MEMBER, at(10), at(300))
    run.tell(missed)
    [gap] = run.replies(LogGap)
    assert (gap.host, gap.since, gap.until) == ("llm-two", at(10), at(300))
    assert run.startup.verdict is None
    resume(run, 2)
    run.tell(missed)
    run.tell(HostLost(MEMBER, "lost"))
    run.tell(HostRestored(MEMBER))
    run.tell(missed)
    assert len(run.replies(LogGap)) == 1
    run.pass_time(600)
    resume(run, 600)
    run.tell(LogMissed(MEMBER, at(310), at(900)))
    assert len(run.replies(LogGap)) == 2


def test_what_was_read_before_it_went_is_not_missing() -> None:
    """The cursor of a quiet service is an old one, and what it names may go while all of it was followed."""
    run = loading()
    run.wait(500)
    run.tell(HostLost(MEMBER, "lost"))
    run.tell(LogMissed(MEMBER, at(10), at(300)))
    assert run.replies(LogGap) == []
    run.wait(100)
    run.tell(LogMissed(MEMBER, at(10), at(600)))
    [gap] = run.replies(LogGap)
    assert gap.since == run.startup.state.members[MEMBER].unseen
    assert at(400) < gap.since < at(500)


def test_a_journal_that_holds_nothing_any_more_is_told_once() -> None:
    run = loading()
    run.pass_time(100)
    resume(run, 60)
    for _ in range(2):
        run.tell(LogMissed(MEMBER, at(10), None))
    [gap] = run.replies(LogGap)
    assert gap.until is None


def test_a_log_file_begun_anew_names_its_path() -> None:
    run = loading()
    run.pass_time(100)
    resume(run, 60)
    run.tell(LogMissed(MEMBER, at(50), None, "/var/log/kimi.log"))
    [gap] = run.replies(LogGap)
    assert gap.path == "/var/log/kimi.log"

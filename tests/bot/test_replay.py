"""Saved logs told as starts: state, phase, cause, exit status."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.replay import replay
from tests.support.journals import WORDINGS, Journal, journal, tp

if TYPE_CHECKING:
    from bot.core.outcome import Outcome

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has no more"
HOUR = timedelta(hours=1)


def run(log: Journal | str, *, idle: timedelta | None = None, engine: str = "auto") -> Outcome:
    data = log.encode() if isinstance(log, str) else log.data()
    return replay(io.BytesIO(data), engine=engine, idle=idle)


@pytest.mark.parametrize("version", WORDINGS)
@pytest.mark.parametrize("draft", [False, True])
def test_a_healthy_log_is_ready(version: str, draft: bool) -> None:
    outcome = run(journal(version).healthy(draft=draft))
    assert (outcome.engine, outcome.state, outcome.phase, outcome.exit_code) == (
        "sglang",
        "ready",
        "ready",
        0,
    )
    assert outcome.cause is None
    assert outcome.unrecognised == 0


def test_the_json_is_as_promised() -> None:
    log = journal("0.5.8", tp(2)).launched().connected().loading().bars().loaded().pooled()
    outcome = run(log).to_json()
    assert json.loads(json.dumps(outcome)) == outcome
    weights = next(each for each in outcome["phases"] if each["id"] == "weights")
    assert weights == {
        "id": "weights",
        "role": "target",
        "started": "2026-05-29T23:49:21Z",
        "ended": "2026-05-29T23:50:07Z",
        "seconds": 46.0,
        "progress": {"done": 4, "total": 4},
        "ranks": {
            "TP0": {"ended": "2026-05-29T23:50:07Z", "seconds": 45.0},
            "TP1": {"ended": "2026-05-29T23:50:07Z", "seconds": 45.0},
        },
    }
    assert outcome["ranks"] == {"TP0": "memory", "TP1": "memory"}
    assert (outcome["state"], outcome["cause"], outcome["role"]) == ("starting", None, "target")
    assert outcome["lines"] == len(log.lines)
    assert outcome["unrecognised"] == 0


@pytest.mark.parametrize("version", WORDINGS)
def test_where_a_log_ends_is_where_it_stands(version: str) -> None:
    log = journal(version)
    stations = [
        (log.launched, "process"),
        (log.connected, None),
        (log.loading, "weights"),
        (log.bars, "weights"),
        (log.loaded, "memory"),
        (log.pooled, "graphs"),
        (log.capturing, "graphs"),
        (log.captured, "graphs"),
        (log.serving, "server"),
        (log.listening, "warmup"),
        (log.warmed, "warmup"),
    ]
    for station, phase in stations:
        station()
        outcome = run(log)
        assert (outcome.state, outcome.exit_code) == ("starting", 5)
        assert phase in {None, outcome.phase}
        assert run(log, idle=HOUR).state == "stalled"
        assert run(log, idle=HOUR).exit_code == 4
        assert run(log, idle=timedelta(seconds=30)).state == "starting"


def test_a_failure_keeps_the_phase_of_its_root() -> None:
    log = journal().launched().connected().loading().bars(upto=2)
    outcome = run(log.scheduler_exception("TP3", OOM).sigquit(), idle=HOUR)
    assert (outcome.state, outcome.phase, outcome.exit_code) == ("failed", "weights", 3)
    told = outcome.to_json()["cause"]
    assert told["id"] == "gpu-out-of-memory"
    assert told["evidence"][0].startswith("torch.OutOfMemoryError")


def test_a_failure_between_two_phases_is_the_next_ones() -> None:
    log = journal().launched().connected().loading().bars().loaded()
    text = (
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.85"
    )
    outcome = run(log.scheduler_exception("TP0", text).sigquit())
    assert (outcome.state, outcome.phase) == ("failed", "memory")


def test_the_draft_models_failure_is_told_as_such() -> None:
    log = journal("0.5.8").launched().connected().with_target().loading().bars(1).loaded().pooled()
    outcome = run(log.capturing("draft ").scheduler_exception("TP1", "ValueError: no"))
    assert (outcome.state, outcome.phase, outcome.role) == ("failed", "graphs", "draft")


def test_a_log_that_failed_after_it_was_ready_is_failed() -> None:
    outcome = run(
        journal().healthy().scheduler_exception("TP0", "RuntimeError: CUDA error: device-side assert")
    )
    assert (outcome.state, outcome.phase) == ("failed", "ready")


def test_what_a_server_survives_leaves_it_ready() -> None:
    log = journal().healthy().say("ERROR:    Exception in ASGI application")
    log.bare("Traceback (most recent call last):", '  File "x.py", line 1, in f', "ValueError: one request")
    assert run(log).state == "ready"


def test_a_survived_exception_does_not_fail_a_start() -> None:
    log = journal().launched().bare("Traceback (most recent call last):", "ImportError: no plugin")
    assert run(log).state == "failed"
    assert run(log.connected()).state == "starting"


def test_port_in_use_fails_though_ready_is_said() -> None:
    log = journal().launched().connected().with_target().serving()
    log.say(
        "ERROR:    [Errno 98] error while attempting to bind on address ('::', 1): address already in use"
    )
    outcome = run(log.ready())
    assert (outcome.state, outcome.phase) == ("failed", "server")
    assert outcome.cause is not None
    assert outcome.cause.id == "port-in-use"


def test_a_wrapped_log_is_read_as_a_bare_one() -> None:
    log = journal().launched().connected().loading().bars(upto=2).scheduler_exception("TP3", OOM).sigquit()
    wrapped = "".join(f"kimi-0 engine {line}\n" for line in log.lines)
    outcome = run(wrapped)
    assert (outcome.state, outcome.phase) == ("failed", "weights")
    assert outcome.cause == run(log).cause


def test_a_log_that_begins_amid_service_stays_there() -> None:
    head = "[2026-05-29 23:49:47 TP0] Prefill batch. #new-seq: 1, #new-token: 7\nsomething nobody knows\n"
    assert (run(head).state, run(head).phase) == ("ready", "ready")
    died = run(head + "Fatal Python error: Segmentation fault\n")
    assert (died.state, died.phase) == ("failed", "ready")


def test_a_start_that_does_not_print_its_arguments_follows_service() -> None:
    served = "[2026-05-29 23:40:01 TP0] Prefill batch. #new-seq: 1, #new-token: 7\n"
    again = "[2026-05-29 23:49:21 TP0] Init torch distributed begin.\n"
    weights = "[2026-05-29 23:49:22 TP0] Load weight begin. avail mem=9.00 GB\n"
    assert run(served + again).phase == "distributed"
    outcome = run(served + again + weights)
    assert (outcome.state, outcome.phase, outcome.lines) == ("starting", "weights", 3)
    assert run(served + weights).phase == "weights"
    assert run(journal().healthy().say("Capture cuda graph begin. avail mem=9.00 GB", "TP0")).state == "ready"


def test_a_log_that_begins_with_a_bar_stands_where_the_bar_is() -> None:
    outcome = run("something nobody knows\nCapturing batches:  30%|##  | 3/10 [00:05<00:01,  2.50it/s]\n")
    assert (outcome.state, outcome.phase) == ("starting", "graphs")


def test_a_stamp_may_have_lost_its_time() -> None:
    said = "Scheduler hit an exception: Traceback (most recent call last):\nKeyError: 'layers.1'"
    outcome = run(f"[ TP2] Load weight begin. avail mem=9.00 GB\n[ TP2] {said}\n")
    assert (outcome.state, outcome.phase, dict(outcome.ranks)) == ("failed", "weights", {"TP2": "weights"})


def test_the_diffusion_servers_stamp_has_no_year() -> None:
    outcome = run("[05-29 23:49:07] server_args: {}\n[05-29 23:50:08] Rank 0 scheduler is dead. x\n")
    assert outcome.state == "failed"


def test_of_several_starts_the_last_counts() -> None:
    log = journal().healthy().scheduler_exception("TP0", "RuntimeError: x").sigquit()
    log.launched().connected().loading().bars(upto=1)
    outcome = run(log)
    assert (outcome.state, outcome.phase, outcome.cause) == ("starting", "weights", None)
    assert outcome.lines == len(log.lines)


def test_the_starts_before_the_last_that_failed_are_told_with_their_causes() -> None:
    log = journal()
    for _ in range(3):
        log.launched().connected().loading().scheduler_exception("TP3", OOM).sigquit()
    log.launched().scheduler_exception("TP0", "ValueError: no such dtype").sigquit()
    text = run(log.launched().connected().loading()).to_text()
    assert "4 starts before it in this log failed:\n  3 times: " in text
    assert "GPU memory" in text
    assert "\n  once: " in text


def test_a_start_that_was_stopped_or_served_is_no_failure_of_before() -> None:
    log = (
        journal()
        .healthy()
        .say("SIGTERM received. signum=15 frame=None. Draining requests and shutting down...")
    )
    log.healthy().launched().connected().loading()
    outcome = run(log)
    assert (outcome.state, outcome.earlier) == ("starting", ())


def test_a_crash_loop_under_systemd_is_one_start_after_the_other() -> None:
    crashed = journalled(
        journal().launched().connected().loading(),
        "sglang.service: Main process exited, code=killed, status=9/KILL",
        "sglang.service: Failed with result 'signal'.",
        "sglang.service: Scheduled restart job, restart counter is at 1.",
    )
    outcome = run(crashed * 3, engine="sglang")
    assert (outcome.state, len(outcome.earlier)) == ("failed", 2)
    assert len(set(outcome.earlier)) == 1


def test_asked_to_stop_it_is_no_longer_ready() -> None:
    log = (
        journal()
        .healthy()
        .say("SIGTERM received. signum=15 frame=None. Draining requests and shutting down...")
    )
    outcome = run(log)
    assert (outcome.state, outcome.phase) == ("failed", "stopping")
    assert outcome.cause is not None
    assert outcome.cause.id == "stopped"
    assert "SIGTERM received" in outcome.cause.evidence[0]


UNIT = "May 29 23:49:00 llm-two systemd[1]: {}"


def journalled(log: Journal, *around: str) -> str:
    rows = [f"May 29 23:49:01 llm-two python3[4242]: {line}" for line in log.lines]
    return "\n".join([UNIT.format("Started sglang.service - Kimi."), *rows, *map(UNIT.format, around)]) + "\n"


@pytest.mark.parametrize(
    "end",
    [
        "sglang.service: Main process exited, code=killed, status=9/KILL",
        "sglang.service: Main process exited, code=exited, status=1/FAILURE",
        "sglang.service: Failed with result 'oom-kill'.",
        "sglang.service: A process of this unit has been killed by the OOM killer.",
    ],
)
def test_systemd_tells_of_death(end: str) -> None:
    log = journal().launched().connected().loading()
    outcome = run(journalled(log, end), engine="sglang")
    assert (outcome.state, outcome.phase) == ("failed", "weights")
    assert outcome.cause is not None
    assert end in outcome.cause.evidence[0]


def test_systemd_starts_it_anew() -> None:
    log = journal().launched().connected().loading()
    exited = "sglang.service: Main process exited, code=exited, status=1/FAILURE"
    again = run(
        journalled(log, exited, "sglang.service: Failed with result 'exit-code'.", "Started sglang.service.")
    )
    assert (again.state, again.phase) == ("starting", "process")
    stopped = run(
        journalled(log, "Stopping sglang.service - Kimi...", exited, "Stopped sglang.service - Kimi.")
    )
    assert (stopped.state, stopped.phase) == ("failed", "stopping")


@pytest.mark.parametrize("text", ["", "\n", "\x00\xff", "nothing of the kind\n"])
def test_a_log_of_nothing_is_starting(text: str) -> None:
    outcome = run(text)
    assert (outcome.state, outcome.phase, outcome.to_json()["ranks"]) == ("starting", "process", {})


def test_without_times_there_are_no_durations() -> None:
    outcome = run("[TP0] Load weight begin. avail mem=1.00 GB\n[TP0] Load weight end. type=X\n").to_json()
    assert outcome["phases"][0]["started"] is None
    assert outcome["phases"][0]["seconds"] is None


def test_the_summary_reads_well() -> None:
    log = journal().launched().connected().loading().bars(upto=2).loaded(but=("TP3",))
    text = run(log).to_text()
    assert text.startswith("sglang: starting (weights)")
    assert "behind: TP3" in text
    assert "2/4" in text
    failed = run(log.scheduler_exception("TP3", OOM)).to_text()
    assert "Out of GPU memory" in failed


_PIECES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([f"{line}\n".encode() for line in journal("0.5.23").healthy().lines]),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(_PIECES, max_size=40).map(b"".join), st.sampled_from(["auto", "sglang", "vllm"]))
def test_no_bytes_break_it(data: bytes, engine: str) -> None:
    outcome = replay(io.BytesIO(data), engine=engine, idle=HOUR)
    assert outcome.state in {"starting", "ready", "failed", "stalled"}
    json.dumps(outcome.to_json())
    assert outcome.to_text()

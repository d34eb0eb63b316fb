"""Saved logs of SGLang as people have them: wrapped, cut, of other launchers, with failures of many kinds."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from bot.replay import replay

if TYPE_CHECKING:
    from datetime import timedelta

    from bot.core.outcome import Outcome

AT = "2026-05-29 23:49"
TRACE = "Scheduler hit an exception: Traceback (most recent call last):"


def run(*lines: str, idle: timedelta | None = None) -> Outcome:
    return replay(io.BytesIO("\n".join([*lines, ""]).encode()), engine="auto", idle=idle)


def dynamo(second: int, source: str, text: str, level: str = " INFO") -> str:
    return f"2026-05-29T23:49:{second:02}.123456Z {level} {source}: {text}"


def test_dynamo_writes_a_stamp_of_its_own() -> None:
    begun = [
        dynamo(1, "engine.launch", "server_args=ServerArgs(model_path='m', tp_size=2)"),
        dynamo(5, "model_runner.load_model", "Load weight begin. avail mem=70.00 GB"),
        dynamo(25, "model_runner.load_model", "Load weight end. elapsed=20.0 s, type=M, avail mem=9.00 GB"),
        dynamo(26, "memory_pool.__init__", "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 9"),
    ]
    outcome = run(*begun)
    assert (outcome.engine, outcome.state, outcome.phase) == ("sglang", "starting", "memory")
    assert outcome.phases[1].ended is not None
    ready = dynamo(40, "register.register_llm", "Model registration succeeded; processing queued requests")
    assert run(*begun, ready).state == "ready"
    ended = dynamo(41, "engine.handler", "Received sigquit from a child process. It usually means", "ERROR")
    assert run(*begun, ended).state == "failed"


def test_a_fork_may_write_words_of_its_own_before_the_ranks() -> None:
    outcome = run(
        *[f"[{AT}:01 Mode.DECODE TP{rank}] Load weight begin. avail mem=9.00 GB" for rank in (0, 1)]
    )
    assert dict(outcome.ranks) == {"TP0": "weights", "TP1": "weights"}


@pytest.mark.parametrize(
    ("frame", "phase"),
    [
        ('File "/opt/sglang/srt/mem_cache/memory_pool.py", line 499, in _init_state_pool', "memory"),
        ('File "/opt/sglang/srt/model_executor/model_runner.py", line 9, in forward', "process"),
        ('File "/opt/sglang/srt/managers/tp_worker.py", line 448, in forward_batch_generation', "ready"),
    ],
)
def test_a_traceback_alone_tells_its_phase(frame: str, phase: str) -> None:
    assert run(f"[{AT}:01] {TRACE}", f"  {frame}", "    call()", "ValueError: no").phase == phase


def test_what_a_request_calls_does_not_tell_of_a_start() -> None:
    outcome = run(
        f"[{AT}:01] {TRACE}",
        '  File "/opt/sglang/srt/managers/scheduler.py", line 1702, in event_loop_overlap',
        '  File "/opt/sglang/srt/mem_cache/pool_host.py", line 412, in init_buffers',
        "RuntimeError: no",
    )
    assert (outcome.state, outcome.phase) == ("failed", "ready")


def test_a_watchdog_of_batches_alone_tells_that_there_were_batches() -> None:
    timeout = f"[{AT}:09 DP4 TP4] Watchdog timeout (self.watchdog_timeout=300)"
    assert run(timeout).phase == "ready"
    begun = [f"[{AT}:01 DP4 TP4] Load weight begin. avail mem=9.00 GB"]
    assert run(*begun, timeout).phase == "weights"


def test_the_oldest_name_their_ranks_in_words() -> None:
    outcome = run("Rank 1: load weight begin.", "Rank 0: load weight begin.", "Rank 1: load weight end.")
    assert (outcome.engine, outcome.state, outcome.phase) == ("sglang", "starting", "weights")


def test_a_traceback_that_is_cut_tells_how_far_it_came() -> None:
    outcome = run(
        f"[{AT}:01 TP3] {TRACE}",
        '  File "/opt/sglang/srt/managers/scheduler.py", line 3, in run_scheduler_process',
        "    scheduler = Scheduler(",
        '  File "/opt/sglang/srt/model_executor/model_runner.py", line 2440, in init_device_graphs',
    )
    assert (outcome.state, outcome.phase) == ("failed", "graphs")


def test_what_names_no_place_takes_that_of_the_end_it_led_to() -> None:
    outcome = run(
        "kimi-1:77:77 [3] os/linux.cc:200 NCCL WARN connect to 10.0.0.4<5> returned Connection refused",
        f"[{AT}:01 TP11] {TRACE}",
        '  File "/opt/sglang/srt/model_executor/model_runner.py", line 9, in init_torch_distributed',
        "    initialize_model_parallel(",
        "RuntimeError: NCCL error: remote process exited or there was a network error",
    )
    assert outcome.phase == "distributed"
    assert outcome.cause is not None
    assert outcome.cause.phase == "distributed"


def test_a_transfer_that_failed_was_one_of_a_server() -> None:
    failed = f"[{AT}:01 TP3] Decode transfer failed for request rank=3 with exception KVTransferError(7): no"
    assert run(failed, f"[{AT}:01] max_new_tokens=9").state == "ready"


def test_an_assertion_without_words_is_told_by_its_code() -> None:
    outcome = run(
        f"[{AT}:01 TP0] {TRACE}",
        '  File "/opt/sglang/srt/disaggregation/conn.py", line 80, in register_buffers',
        "    assert self.layout == 3",
        "AssertionError",
    )
    assert outcome.phase == "server"
    assert outcome.cause is not None
    assert "assert self.layout == 3" in outcome.cause.title


def test_what_starts_it_may_alone_say_that_it_ended() -> None:
    outcome = run(
        f"{AT}:01,001 - __main__ - INFO - [{AT}:01 TP0] Load weight begin. avail mem=9.00 GB",
        f"{AT}:02,001 - __main__ - WARNING - Attempt 1: Please wait for sglang server to become ready...",
        f"{AT}:03,001 - __main__ - WARNING - SGLang server task ended",
    )
    assert (outcome.state, outcome.phase) == ("failed", "weights")


def test_a_warm_up_that_nobody_answers_is_told_as_such() -> None:
    outcome = run(
        "INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)",
        "Initialization failed. warmup error:",
        "Traceback (most recent call last):",
        '  File "/opt/sglang/srt/server.py", line 325, in _wait_and_warmup',
        "requests.exceptions.ReadTimeout: HTTPConnectionPool(host='0.0.0.0', port=3): Read timed out.",
    )
    assert (outcome.state, outcome.phase) == ("failed", "warmup")
    assert outcome.cause is not None
    assert outcome.cause.id == "warmup"


def test_each_line_of_a_traceback_may_be_an_error_of_its_own() -> None:
    told = [
        "Traceback (most recent call last):",
        '  File "/opt/transformers/models/auto.py", line 9, in get',
        "    raise KeyError(key)",
        "KeyError: 'kimi_next'",
        "",
        "During handling of the above exception, another exception occurred:",
        "Traceback (most recent call last):",
        '  File "/opt/sglang/launch_server.py", line 9, in <module>',
        "ValueError: it has model type `kimi_next` but Transformers does not recognize this architecture.",
    ]
    outcome = run(*[f"[{AT}:01] ERROR: {line}" for line in told])
    assert (outcome.state, outcome.phase) == ("failed", "process")
    assert outcome.cause is not None
    assert (outcome.cause.id, outcome.cause.evidence[0]) == ("model-unsupported", "KeyError: 'kimi_next'")
    port = run(f"[{AT}:01] ERROR:    [Errno 98] error: ('0.0.0.0', 3): address already in use")
    assert port.phase == "server"


def test_nccls_warning_tells_why_a_node_was_not_reached() -> None:
    outcome = run(
        f"[{AT}:01 TP14] Init torch distributed begin.",
        "node5:24:24 [6] misc/socket.cc:5 NCCL WARN socketPollConnect: Connect to 10.0.0.4<5> returned 113",
        f"[{AT}:09 TP14] {TRACE}",
        '  File "/opt/sglang/srt/distributed/pynccl_wrapper.py", line 9, in NCCL_CHECK',
        "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
    )
    assert outcome.cause is not None
    assert outcome.cause.id == "rendezvous"
    assert "10.0.0.4" in outcome.cause.evidence[0]


def test_a_warm_up_of_ones_own_is_a_warm_up() -> None:
    begun = [f"[{AT}:01] INFO:     Waiting for application startup.", f"[{AT}:02] Running warmup my-kernels"]
    assert run(f"[{AT}:00] max_total_num_tokens=9, context_len=9", *begun).phase == "warmup"


def test_the_rust_server_writes_as_dynamo_does() -> None:
    begun = [
        f"[{AT}:01] max_total_num_tokens=9, context_len=9",
        f"[{AT}:02] SGLANG_RUST_SERVER enabled, Rust server listen on 127.0.0.1:30000",
    ]
    assert run(*begun).phase == "warmup"
    source = "sglang_server::api_server::http::app"
    assert run(*begun, dynamo(9, source, "The server is fired up and ready to roll!")).state == "ready"
    at, level = "\x1b[2m2026-05-29T23:49:09.123456Z\x1b[0m", "\x1b[32m INFO\x1b[0m"
    coloured = f"{at} {level} \x1b[2m{source}\x1b[0m\x1b[2m:\x1b[0m"
    assert run(*begun, f"{coloured} The server is fired up and ready to roll!").state == "ready"
    for end in ("failed error=the engine is gone", "timed out timeout_secs=600"):
        outcome = run(*begun, dynamo(9, source, f"startup warmup {end}", "ERROR"))
        assert (outcome.state, outcome.phase) == ("failed", "warmup")
        assert outcome.cause is not None
        assert outcome.cause.id == "warmup"


def test_the_diffusion_server_may_fail_its_warm_up() -> None:
    outcome = run(
        "[05-29 23:49:01] server_args: {}",
        f"[{AT}:05] INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)",
        "[05-29 23:49:09] Server warmup failed; aborting startup: the server did not become ready",
        "Traceback (most recent call last):",
        '  File "/opt/sglang/multimodal_gen/runtime/http_server.py", line 73, in _wait',
        "RuntimeError: the server did not become ready at http://[::1]:30000/health",
        f"[{AT}:10] INFO:     Shutting down",
    )
    assert (outcome.state, outcome.phase) == ("failed", "warmup")


def test_no_memory_for_the_cache_is_told_in_new_words_too() -> None:
    outcome = run(
        f"[{AT}:01 TP0] Load weight begin. avail mem=9.00 GB",
        f"[{AT}:09 TP0] {TRACE}",
        '  File "/opt/sglang/srt/model_executor/pool_configurator.py", line 9, in __post_init__',
        "RuntimeError: Not enough memory to allocate KV cache.",
    )
    assert outcome.phase == "memory"
    assert outcome.cause is not None
    assert outcome.cause.id == "kv-cache-memory"

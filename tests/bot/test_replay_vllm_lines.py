"""Saved logs of vLLM as people and other hardware write them, told as starts."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from bot.replay import replay

if TYPE_CHECKING:
    from bot.core.outcome import Outcome


def run(log: str) -> Outcome:
    return replay(io.BytesIO(log.encode()), engine="auto", idle=None)


def test_the_older_engine_is_recognised_without_its_head() -> None:
    log = "INFO 02-11 10:25:32 model_runner.py:1110] Starting to load model m...\n"
    outcome = run(log)
    assert (outcome.engine, outcome.state, outcome.phase) == ("vllm", "starting", "weights")
    log += "INFO 02-11 10:26:32 model_runner.py:1115] Loading model weights took 14.9 GB\n"
    assert run(log).phase != "weights"


def test_a_line_that_another_engine_prints_of_vllm_is_no_sign_of_vllm() -> None:
    imported = "INFO 05-29 23:49:00 __init__.py:190] Automatically detected platform cuda.\n" * 9
    assert (
        run(imported + "[2026-05-29 23:49:47 TP0] Load weight begin. avail mem=77.0 GB\n").engine == "sglang"
    )
    assert run(imported + "INFO 05-29 23:49:00 core.py:19] Waiting for init message\n").engine == "vllm"


def test_tpus_capture_nothing_but_compile() -> None:
    core = "ERROR 05-29 23:49:20 [core.py:7] {}\n"
    log = "".join(
        (
            "INFO 05-29 23:49:05 [core.py:58] Initializing a V1 LLM engine (v0.9.0) with config: model='m'\n",
            "INFO 05-29 23:49:09 [tpu_model_runner.py:7] Compiling the model with different input shapes.\n",
            core.format("EngineCore failed to start."),
            core.format("Traceback (most recent call last):"),
            core.format('  File "/x/vllm/v1/worker/tpu_model_runner.py", line 9, in capture_model'),
            core.format("RuntimeError: Bad StatusOr access"),
        )
    )
    assert (run(log).state, run(log).phase) == ("failed", "compile")


def test_colours_of_which_a_web_page_left_the_numbers() -> None:
    core, info = "36m(EngineCore_DP0 pid=2)0m", "INFO 05-29 23:49:05 [x.py:1]"
    outcome = run(
        f"{core} {info} Initializing a V1 LLM engine\n"
        f"{core} 1;33m(Worker_TP1 pid=4)0m {info} Starting to load model m...\n"
        f"36m(EngineCore_DP0 pid=2)(RayWorkerWrapper pid=9) {info} Starting to load model m...\n"
        f"{core} ERROR 05-29 23:49:20 [core.py:7] EngineCore failed to start.\n"
    )
    assert (outcome.state, outcome.phase, "TP1" in outcome.ranks) == ("failed", "weights", True)


def test_what_is_warmed_up_on_hpus_are_graphs() -> None:
    worker = "(Worker_TP0 pid=3) INFO 05-29 23:49:09 [hpu_model_runner.py:7] {}\n"
    log = worker.format("Model loading took 18.1 GiB and 40.1 seconds")
    log += worker.format("[Warmup][Graph/prompt][3/20] batch_size:1 query_len:128 free_mem:20.1 GiB")
    assert (run(log).state, run(log).phase) == ("starting", "graphs")


def test_what_a_package_printed_before_the_start_is_no_end_of_it() -> None:
    log = (
        "Traceback (most recent call last):\n"
        '  File "/x/dist-packages/vllm/third_party/shim.py", line 12, in <module>\n'
        "ModuleNotFoundError: No module named 'deep_gemm'\n"
    )
    assert run(log).state == "failed"
    log += "(APIServer pid=1) INFO 05-29 23:49:05 [api_server.py:10] vLLM API server version 0.19.1\n"
    assert (run(log).state, run(log).earlier) == ("starting", ())


def test_lines_whose_times_a_person_cut_out_are_read() -> None:
    log = (
        "INFO [core.py:58] Initializing a V1 LLM engine (v0.26.0) with config: model='m'\n"
        "INFO [gpu_model_runner.py:7] Starting to load model m...\n"
    )
    assert (run(log).state, run(log).phase) == ("starting", "weights")
    died = log + "ERROR [core.py:7] EngineCore failed to start.\nERROR [core.py:7] ValueError: no\n"
    assert (run(died).state, run(died).phase) == ("failed", "weights")


def test_lines_of_a_logging_configuration_of_ones_own_are_read() -> None:
    at = "2026-05-29 23:49:0{} {} 712 "
    log = (
        f"{at.format(1, 'INFO')}[api_server.py:3] vLLM API server version 0.5.4\n"
        f"{at.format(5, 'INFO')}[llm_engine.py:1] Initializing an LLM engine (v0.5.4) with model='m'\n"
        f"{at.format(9, 'INFO')}[model_runner.py:7] Starting to load model m...\n"
    )
    outcome = run(log)
    assert (outcome.engine, outcome.phase, outcome.unrecognised) == ("vllm", "weights", 0)


def test_a_log_whose_ends_of_lines_a_web_page_swallowed_is_read() -> None:
    tag = "(APIServer pid=7) "
    told = (
        "Traceback (most recent call last):",
        '  File "/x/vllm/entrypoints/cli/main.py", line 9, in main',
        "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error.",
    )
    begun = f"{tag}INFO 05-29 23:49:01 [utils.py:2] non-default args: {{'model': 'm'}}\n"
    outcome = run(begun + "".join(tag + each for each in told) + "\n")
    assert (outcome.state, outcome.lines) == ("failed", 4)
    assert outcome.cause is not None
    assert outcome.cause.evidence[0] == told[-1]

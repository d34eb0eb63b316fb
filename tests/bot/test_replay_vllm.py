"""Saved logs of vLLM told as starts."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from bot.core.events import LogLine, Member
from bot.core.findings import NoiseRead
from bot.core.phases import Tracker
from bot.replay import replay
from config.engine_file import load_engine

if TYPE_CHECKING:
    from bot.core.outcome import Outcome

HOUR = timedelta(hours=1)


def run(log: str, *, idle: timedelta | None = None) -> Outcome:
    return replay(io.BytesIO(log.encode()), engine="auto", idle=idle)


VLLM = """\
(APIServer pid=1) INFO 05-29 23:49:01 [api_server.py:10] vLLM API server version 0.19.1
(EngineCore pid=2) INFO 05-29 23:49:05 [core.py:58] Initializing a V1 LLM engine (v0.19.1) with x
(Worker_TP0 pid=3) INFO 05-29 23:49:09 [parallel_state.py:9] world_size=2 rank=0 local_rank=0 backend=nccl
(Worker_TP0 pid=3) INFO 05-29 23:49:10 [gpu_model_runner.py:11] Starting to load model m...
(Worker_TP0 pid=3) Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:06<00:06,  3.00s/it]
(Worker_TP0 pid=3) INFO 05-29 23:49:30 [gpu_model_runner.py:12] Model loading took 14.25 GiB and 20.00 seconds
(Worker_TP1 pid=4) INFO 05-29 23:49:30 [gpu_model_runner.py:12] Model loading took 14.25 GiB and 20.00 seconds
(Worker_TP0 pid=3) INFO 05-29 23:49:31 [backends.py:4] Using cache directory: /c for vLLM's torch.compile
(Worker_TP0 pid=3) INFO 05-29 23:49:50 [monitor.py:4] torch.compile took 19.00 s in total
(Worker_TP0 pid=3) INFO 05-29 23:49:52 [gpu_worker.py:4] Available KV cache memory: 40.00 GiB
(EngineCore pid=2) INFO 05-29 23:49:53 [kv_cache_utils.py:4] GPU KV cache size: 1,000 tokens
Capturing CUDA graphs (decode, FULL):  50%|#####     | 2/4 [00:01<00:01,  2.00it/s]
(Worker_TP0 pid=3) INFO 05-29 23:49:58 [gpu_model_runner.py:4] Graph capturing finished in 5 secs
(EngineCore pid=2) INFO 05-29 23:49:59 [core.py:4] init engine (profile, create kv cache, warmup model) took 9
(APIServer pid=1) INFO:     Started server process [1]
(APIServer pid=1) INFO:     Application startup complete.
"""


def test_vllm_is_recognised_and_followed() -> None:
    outcome = run(VLLM)
    assert (outcome.engine, outcome.state) == ("vllm", "ready")
    named = [record.phase for record in outcome.phases if record.phase != "process"]
    assert named == ["distributed", "weights", "compile", "memory", "graphs", "server"]
    weights = next(each for each in outcome.to_json()["phases"] if each["id"] == "weights")
    assert (weights["seconds"], weights["started"]) == (20.0, None)  # its times have no year
    cut = run(VLLM.partition("torch.compile took")[0].rpartition("\n")[0], idle=HOUR)
    assert (cut.state, cut.phase) == ("stalled", "compile")


def test_vllms_memory_is_over_when_the_core_says_so() -> None:
    head = VLLM.partition("Capturing CUDA graphs")[0]
    worker = "(Worker_TP1 pid=4) INFO 05-29 23:49:52 [gpu_worker.py:4] Available KV cache memory: 40.00 GiB\n"
    head = head.replace(
        "(EngineCore pid=2) INFO 05-29 23:49:53", worker + "(EngineCore pid=2) INFO 05-29 23:49:53"
    )
    assert (run(head).state, run(head).phase) == ("starting", "graphs")
    twice = (
        "(EngineCore pid=2) INFO 05-29 23:49:53 [kv_cache_utils.py:5] Maximum concurrency for 9 tokens: 3x\n"
    )
    assert run(head + twice).phase == "graphs"
    eager = head.replace(
        "version 0.19.1\n", "version 0.19.1\n(APIServer pid=1) args: Namespace(enforce_eager=True)\n", 1
    )
    assert run(eager).phase == "server"
    tuning = "2026-05-29 23:49:54,123 - INFO - flashinfer.jit: [Autotuner]: Autotuning process starts"
    assert run(head + tuning).phase == "compile"


def test_vllms_port_is_taken_when_it_serves() -> None:
    outcome = run(
        VLLM + "(APIServer pid=1) ERROR:    [Errno 98] bind on ('0.0.0.0', 8000): address already in use\n"
    )
    assert (outcome.state, outcome.phase) == ("failed", "server")


def test_vllms_failure_is_the_first_one() -> None:
    head = VLLM.partition("(Worker_TP0 pid=3) INFO 05-29 23:49:52")[0]
    core = "(EngineCore pid=2) ERROR 05-29 23:49:53 [core.py:4] "
    texts = [
        "EngineCore failed to start.",
        "Traceback (most recent call last):",
        '  File "/opt/core.py", line 1, in _initialize_kv_caches',
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
    ]
    api = "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.\n"
    outcome = run(head + "".join(f"{core}{text}\n" for text in texts) + api)
    assert (outcome.state, outcome.phase) == ("failed", "memory")
    assert outcome.cause is not None
    assert outcome.cause.id == "kv-cache-memory"


def test_waiting_is_no_progress() -> None:
    tracker = Tracker(load_engine("vllm"))
    text = "(APIServer pid=1) DEBUG 05-29 23:49:11 [utils.py:9] Waiting for 1 local, 0 remote core engine x"
    found = tracker.read(LogLine(text=text, reading=text), member=Member("log"), at=datetime.now(UTC))
    assert found == (NoiseRead(),)


def test_a_drafter_is_loaded_after_the_model_with_and_without_tags() -> None:
    head, _, rest = VLLM.partition("(Worker_TP0 pid=3) INFO 05-29 23:49:30")
    for who in ("(Worker_TP0 pid=3)", "(EngineCore pid=2)"):
        drafter = f"{who} INFO 05-29 23:49:29 [gpu_model_runner.py:5] Loading drafter model...\n"
        log = (head + drafter).replace("(Worker_TP0 pid=3)", who)
        assert (run(log).phase, run(log).role) == ("weights", "draft")
        whole = run(
            (head + drafter + "(Worker_TP0 pid=3) INFO 05-29 23:49:30" + rest).replace("_TP0", "_TP0")
        )
        assert whole.state == "ready"
        assert [each.role for each in whole.phases if each.phase == "weights"] == ["target", "draft"]


def test_what_follows_proves_the_weights_over() -> None:
    loading = VLLM.partition("(Worker_TP0 pid=3) INFO 05-29 23:49:30")[0]
    cpu = (
        "(Worker_TP0 pid=3) INFO 05-29 23:49:30 [cpu_model_runner.py:1] Warming up model for the compilation"
    )
    done = "\n(Worker_TP0 pid=3) INFO 05-29 23:49:40 [cpu_model_runner.py:2] Warming up done.\n"
    assert [run(loading + cpu).phase, run(loading + cpu + done).phase] == ["compile", "compile"]


def test_sums_of_memory_are_no_failure() -> None:
    told = (
        "(EngineCore pid=2) INFO 05-29 23:49:59 [gpu_worker.py:3] Free memory on device (78.6/79.1 GiB) on "
        "startup. Desired GPU memory utilization is (0.9, 71.2 GiB).\n"
    )
    assert run(VLLM.partition("(EngineCore pid=2) INFO 05-29 23:49:59")[0] + told).state == "starting"
    assert run(VLLM + told).state == "ready"


def test_an_engine_that_says_it_is_dead_has_failed() -> None:
    worker = "(RayWorkerWrapper pid=9, ip=10.0.0.2) ERROR 05-29 23:59:00 [worker_base.py:6] "
    outcome = run(
        f"{VLLM}{worker}Error executing method 'execute_model'. This might cause deadlock.\n"
        f"{worker}Traceback (most recent call last):\n"
        f"{worker}RuntimeError: CUDA error: an illegal memory access was encountered\n"
        "CRITICAL 05-29 23:59:01 [launcher.py:1] MQLLMEngine is already dead, terminating server process\n"
        "INFO:     Shutting down\n"
    )
    assert outcome.cause is not None
    assert (outcome.state, outcome.phase) == ("failed", "ready")
    assert outcome.cause.id == "illegal-memory-access"


def test_a_worker_of_ray_that_has_no_name_yet_is_read() -> None:
    outcome = run(
        VLLM.partition("(Worker_TP0 pid=3) INFO 05-29 23:49:10")[0]
        + "(pid=553, ip=10.0.0.2) INFO 05-29 23:49:20 [__init__.py:2] Automatically detected platform cuda.\n"
    )
    assert (outcome.phase, outcome.unrecognised) == ("distributed", 0)


REFUSED = "pydantic.ValidationError: 1 validation error for ModelConfig\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 9",
            "triton-resources",
        ),
        ("torch._dynamo.exc.BackendCompilerFailed: backend='x' raised:", "torch-compile"),
        (
            "AssertionError: Tried to load weights of size torch.Size([1]) to a parameter of x",
            "weights-mismatch",
        ),
        (
            "NotImplementedError: Could not run '_C::machete' with arguments from the 'CUDA' x",
            "library-mismatch",
        ),
        ("RuntimeError: operator torchvision::nms does not exist", "library-mismatch"),
        ("AttributeError: '_OpNamespace' '_C' object has no attribute 'x'", "library-mismatch"),
        ("AttributeError: 'KimiConfig' object has no attribute 'rope_theta'", "package-mismatch"),
        ("TypeError: X.__init__() missing 1 required positional argument: 'desc_act'", "package-mismatch"),
        (
            "NotImplementedError: No NvFp4 MoE backend supports the deployment configuration.",
            "backend-unsupported",
        ),
        ("AssertionError: Unknown CUDA arch (12.0+PTX) or GPU not supported", "gpu-unsupported"),
        ("jax.errors.XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in hbm", "gpu-out-of-memory"),
        ("RuntimeError: Error 803: system has unsupported display driver / cuda driver", "driver-mismatch"),
        ("cupy.nccl.NcclError: NCCL_ERROR_UNHANDLED_CUDA_ERROR: unhandled cuda error", "nccl"),
        (
            f"{REFUSED}  Value error, Model architectures ['Foo'] are not supported for now.",
            "model-unsupported",
        ),
        (f"{REFUSED}  Value error, User-specified max_model_len (9) is greater than x", "context-too-long"),
        (f"{REFUSED}  Value error, x", "flags-incompatible"),
    ],
)
@pytest.mark.parametrize(
    "stamp", ["(Worker_TP0 pid=3) ERROR 05-29 23:49:31 [x.py:7] ", "(APIServer pid=1) ", ""]
)
def test_a_workers_exception_is_read_to_its_last_line(stamp: str, text: str, cause: str) -> None:
    head = VLLM.partition("(Worker_TP0 pid=3) INFO 05-29 23:49:31")[0]
    record = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/x.py", line 7, in x',
        *text.split("\n"),
    ]
    core = "(EngineCore pid=2) ERROR 05-29 23:49:32 [core.py:8] "
    outcome = run(
        head
        + "".join(f"{stamp}{line}\n" for line in record)
        + f"{core}EngineCore failed to start.\n{core}Traceback (most recent call last):\n"
        + f"{core}Exception: WorkerProc initialization failed due to an exception in a background process.\n"
        + "(Worker_TP1 pid=4) ERROR 05-29 23:49:33 [x.py:7] RuntimeError: cancelled\n"
    )
    assert outcome.cause is not None
    assert (outcome.cause.id, outcome.cause.evidence[0]) == (cause, text.partition("\n")[0])
    assert {line.strip() for line in text.split("\n")} <= {line.strip() for line in outcome.cause.evidence}


def test_another_record_is_no_part_of_an_exception() -> None:
    failed = "(Worker_TP0 pid=3) ERROR 05-29 23:49:31 [x.py:7] "
    outcome = run(
        VLLM.partition("(Worker_TP0 pid=3) INFO 05-29 23:49:31")[0]
        + f"{failed}Traceback (most recent call last):\n{failed}ValueError: no\n"
        + "(Worker_TP1 pid=4) INFO 05-29 23:49:31 [y.py:7] something else\n"
    )
    assert outcome.cause is not None
    assert outcome.cause.evidence == ("ValueError: no",)


def test_a_model_is_compiled_on_tpus_after_its_cache_was_made() -> None:
    head = VLLM.partition("(Worker_TP0 pid=3) INFO 05-29 23:49:30")[0]
    core = "(EngineCore pid=2) INFO 05-29 23:49:53 "
    cache = f"{core}[kv_cache_utils.py:4] GPU KV cache size: 1,000 tokens\n"
    begun = f"{core}[tpu_model_runner.py:7] Compiling the model with different input shapes.\n"
    assert (
        run(head + cache + begun + f"{core}[tpu_model_runner.py:7]   -- num_tokens: 16\n").phase == "compile"
    )
    served = f"{core}[core.py:4] init engine (profile, create kv cache, warmup model) took 9\n"
    assert (
        run(head + cache + begun + f"{core}[x.py:7] Compilation finished in 9 [secs].\n" + served).phase
        == "server"
    )


def test_the_end_of_a_traceback_alone_tells_where_it_failed() -> None:
    worker = "(Worker_TP1 pid=4) ERROR 05-29 23:49:53 [multiproc_executor.py:4] "
    outcome = run(
        f'{worker}  File "/opt/vllm/v1/worker/gpu_model_runner.py", line 7, in capture_model\n'
        f"{worker}    self._capture_cudagraphs(\n"
        f"{worker}RuntimeError: CUDA error: operation failed due to a previous error during capture\n"
    )
    assert outcome.cause is not None
    assert (outcome.state, outcome.phase) == ("failed", "graphs")
    assert "in capture_model" in outcome.cause.evidence[1]


def test_an_engine_whose_step_never_ended_waited_for_a_worker() -> None:
    outcome = run(
        f"{VLLM}ERROR 05-29 23:59:05 async_llm_engine.py:43] Engine background task failed\n"
        "ERROR 05-29 23:59:05 async_llm_engine.py:43] Traceback (most recent call last):\n"
        "ERROR 05-29 23:59:05 async_llm_engine.py:43] asyncio.exceptions.TimeoutError\n"
    )
    assert outcome.cause is not None
    assert (outcome.state, outcome.phase, outcome.cause.id) == ("failed", "ready", "rpc-timeout")


def test_what_a_start_left_phases_behind_is_not_why_its_core_died() -> None:
    passed = (
        "(APIServer pid=1) Traceback (most recent call last):\n"
        '(APIServer pid=1)   File "/opt/vllm/x.py", line 7, in x\n'
        "(APIServer pid=1) huggingface_hub.errors.LocalEntryNotFoundError: Cannot find a snapshot\n"
    )
    first, _, rest = VLLM.partition("\n")
    end = (
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. Failed core proc(s): {'E': -9}\n"
    )
    loaded = rest.partition("(Worker_TP0 pid=3) INFO 05-29 23:49:50")[0]
    for code, cause in {
        "1": "child-died",
        "-9": "host-out-of-memory",
        "-11": "segfault",
        "-6": "abort",
    }.items():
        outcome = run(f"{first}\n{passed}{loaded}{end.replace('-9', code)}")
        assert outcome.cause is not None
        assert (outcome.phase, outcome.cause.id) == ("compile", cause)


def test_a_failure_that_other_ranks_did_not_wait_for_is_the_root() -> None:
    failed = "(Worker_TP1 pid=4) ERROR 05-29 23:49:11 [x.py:7] "
    loading, bar, _ = VLLM.partition("(Worker_TP0 pid=3) Loading")
    outcome = run(
        f"{loading}{failed}Traceback (most recent call last):\n"
        f"{failed}torch.OutOfMemoryError: CUDA out of memory\n"
        f"{bar} safetensors checkpoint shards:  50% Completed | 2/4 [00:06<00:06,  3.00s/it]\n"
        "(EngineCore pid=2) ERROR 05-29 23:49:31 [core.py:8] EngineCore failed to start.\n"
    )
    assert outcome.cause is not None
    assert (outcome.phase, outcome.cause.id) == ("weights", "gpu-out-of-memory")


def test_kernels_may_be_warmed_up_once_more_before_the_graphs() -> None:
    head = VLLM.partition("Capturing CUDA graphs")[0]
    bar = "DeepGEMM warmup:  10%|#         | 600/6000 [00:10<01:00, 60.2it/s]\n"
    graphs = "Capturing ACL graphs (decode, FULL):  50%|#####     | 2/4 [00:01<00:01,  2.00it/s]\n"
    full = bar.replace("10%", "100%").replace("600/", "6000/")
    assert [run(head + bar).phase, run(head + bar + graphs).phase] == ["compile", "graphs"]
    assert run(head + bar + graphs + full).phase == "graphs"


def test_the_graphs_own_memory_is_measured_before_the_cache_is_made() -> None:
    head = VLLM.partition("(Worker_TP0 pid=3) INFO 05-29 23:49:52")[0]
    told = "(Worker_TP0 pid=3) INFO 05-29 23:49:51 [runner.py:3] Profiling CUDA graph memory: PIECEWISE=51\n"
    assert run(head + told).phase == "memory"


def test_a_drafter_that_cannot_be_loaded_is_named_where_the_lines_have_no_tags() -> None:
    core = "(EngineCore_DP0 pid=2) {} 05-29 23:49:20 [core.py:7] {}\n"
    log = "".join(
        (
            core.format("INFO", "Initializing a V1 LLM engine (v0.11.0) with config: model='m'"),
            "Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:03<00:00,  1.32it/s]\n",
            core.format("INFO", "Loading drafter model..."),
            core.format("ERROR", "EngineCore failed to start."),
            core.format("ERROR", "Traceback (most recent call last):"),
            core.format("ERROR", '  File "/x/vllm/v1/spec_decode/eagle.py", line 776, in load_model'),
            core.format("ERROR", "AttributeError: 'Model' object has no attribute 'heads'"),
        )
    )
    outcome = run(log)
    assert (outcome.state, outcome.phase, outcome.role) == ("failed", "weights", "draft")


def test_who_waited_for_a_worker_that_was_killed_is_no_root() -> None:
    outcome = run(
        "INFO 05-29 23:49:05 [llm_engine.py:2] Initializing a V0 LLM engine (v0.8.2) with config: model='m'\n"
        "ERROR 05-29 23:49:21 [utils.py:1] Worker VllmWorkerProcess pid 7 died, exit code: -9\n"
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/x/vllm/executor/multiproc_worker_utils.py", line 58, in get\n'
        "[rank0]: ChildProcessError: worker died\n"
    )
    assert outcome.cause is not None
    assert outcome.cause.id == "host-out-of-memory"


def test_the_older_engine_compiles_only_where_it_says_so() -> None:
    log = (
        "INFO 05-29 23:49:05 llm_engine.py:2] Initializing an LLM engine (v0.6.3) with config: model='m'\n"
        "INFO 05-29 23:49:09 model_runner.py:7] Starting to load model m...\n"
        "INFO 05-29 23:49:19 model_runner.py:9] Loading model weights took 2.3 GB\n"
    )
    assert run(log).phase == "memory"
    assert run(log.replace("an LLM", "a V1 LLM")).phase == "compile"
    said = "INFO 05-29 23:49:20 tpu_model_runner.py:2] Compiling the model with different input shapes...\n"
    assert run(log + said).phase == "compile"


IN_PROFILE = 'File "/x/vllm/v1/worker/gpu_worker.py", line 7, in determine_available_memory'
IN_COMPILER = 'File "/x/torch/_dynamo/output_graph.py", line 7, in call_user_compiler'


@pytest.mark.parametrize(
    ("stack", "phase"), [([IN_PROFILE], "memory"), ([IN_PROFILE, IN_COMPILER], "compile")]
)
def test_memory_is_measured_after_the_model_was_compiled(stack: list[str], phase: str) -> None:
    core = "(EngineCore pid=2) {} 05-29 23:49:20 [core.py:7] {}\n"
    said = ["EngineCore failed to start.", "Traceback (most recent call last):"]
    said += [*(f"  {each}" for each in stack), "ValueError: no"]
    log = core.format("INFO", "Model loading took 1 GiB")
    assert run(log).phase == "compile"
    outcome = run(log + "".join(core.format("ERROR", each) for each in said))
    assert (outcome.state, outcome.phase) == ("failed", phase)


def test_a_stage_of_vllm_omni_is_read_like_the_engine_it_is() -> None:
    plain = "(EngineCore_DP0 pid=7) "
    stages = VLLM.replace("(EngineCore pid=2) ", f"{plain}[Stage-0] ")
    assert run(stages).state == "ready"
    log = (
        "[Stage-0] INFO 05-29 23:49:05 [core.py:2] Initializing a V1 LLM engine (v0.14.0) with x\n"
        f"{plain}[Stage-0] INFO 05-29 23:49:09 [gpu_model_runner.py:7] Starting to load model m...\n"
    )
    assert (run(log).phase, run(log).unrecognised) == ("weights", 0)


def test_an_executor_that_failed_for_its_worker_is_no_root() -> None:
    stamp = "ERROR 05-29 23:59:01 "
    outcome = run(
        VLLM + f"{stamp}[multiproc_executor.py:1] Worker proc VllmWorker-1 died unexpectedly.\n"
        f"{stamp}[core.py:2] EngineCore encountered a fatal error.\n"
        f"{stamp}[core.py:2] Traceback (most recent call last):\n"
        f'{stamp}[core.py:2]   File "/x/vllm/v1/executor/multiproc.py", line 2, in collective_rpc\n'
        f"{stamp}[core.py:2] RuntimeError: Executor failed.\n"
    )
    assert outcome.cause is not None
    assert outcome.cause.id == "child-died"


def test_a_worker_whose_loop_ended_serves_no_more() -> None:
    stamp = "ERROR 05-29 23:59:01 worker_base.py:1] "
    outcome = run(
        VLLM
        + f"{stamp}Error executing method start_worker_execution_loop. This might cause deadlock in it.\n"
        f"{stamp}Traceback (most recent call last):\n"
        f'{stamp}  File "/x/vllm/worker/worker_base.py", line 140, in execute_method\n'
        f"{stamp}RuntimeError: [gloo/transport/tcp/pair.cc:5] Connection closed by peer [127.0.0.1]:153\n"
    )
    assert outcome.state == "failed"
    assert outcome.cause is not None
    assert outcome.cause.id == "peer-lost"

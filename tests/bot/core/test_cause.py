from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from bot.core.cause import Cause, find_diagnosis, name_cause
from bot.core.events import MAIN_RANK, PhaseId, Rank, Role
from config.diagnoses import load_diagnoses

HERE = (Rank("TP3"), PhaseId.WEIGHTS, Role.TARGET)

FILE = Path(__file__).parents[2] / "support" / "failure_lines.toml"
LINES: dict[str, str] = tomllib.loads(FILE.read_text(encoding="utf-8"))


def name(*lines: str, engine: str | None = "sglang", whole: bool = False) -> Cause:
    return name_cause(lines, where=HERE, engine=engine, whole=whole)


@pytest.mark.parametrize(("expected", "line"), LINES.items(), ids=str)
def test_each_known_failure_is_named_by_its_line(expected: str, line: str) -> None:
    cause = name(line)
    assert cause.id == expected
    assert (cause.rank, cause.phase, cause.role) == HERE
    assert cause.evidence == (line,)
    assert not {"{", "[", "}", "]"} & set(cause.title)
    assert cause.seen


@pytest.mark.parametrize(
    ("expected", "line"),
    [
        (
            "model-unsupported",
            "ValueError: Unrecognized model in /m. Should have a `model_type` key in its config",
        ),
        ("model-unsupported", "RuntimeError: Unknown gguf model_type: new9"),
        ("model-unsupported", "ValueError: Unknown architecture for AutoModelForCausalLM: KimiForSpeech"),
        ("ray-worker-died", "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low"),
        ("engine-start-timeout", "RuntimeError: DP Coordinator process failed to report ZMQ addresses"),
        ("engine-start-timeout", "TimeoutError: Timed out waiting for engines to send initial message"),
        (
            "nccl",
            "RuntimeError: oneCCL: ze_fd.cpp:2 fill: EXCEPTION: open failed: fd: -1, errno: No such file",
        ),
        ("model-download", "RuntimeError: Data processing error: CAS service error : Request failed"),
        ("model-download", "OSError: Consistency check failed: file should be of size 9 but has size 7"),
        (
            "model-download",
            "requests.exceptions.SSLError: (host='huggingface.co', port=443): Max retries exceeded",
        ),
        ("weights-mismatch", "KeyError: 'midlayer.self_attn.qkv_proj.weight'"),
        (
            "host-allocation",
            "RuntimeError: DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes",
        ),
        (
            "host-allocation",
            "ValueError: Not enough host memory available. Requesting 61.04 GB but only have 38",
        ),
        ("child-died", "EOFError"),
        (
            "kv-cache-memory",
            "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static",
        ),
        (
            "kv-cache-memory",
            "AssertionError: Not enough space for mamba cache, try to increase --mamba-full-memory",
        ),
        ("gpu-unsupported", "RuntimeError: MXFP8 dense linear requires Blackwell GPUs (SM100/SM120)."),
        ("rendezvous", "RuntimeError: Failed to receive worker ports from node 0 within timeout"),
        (
            "mooncake",
            "RuntimeError: Transfer thread failed because of x. Prefill instance with bootstrap_port=9",
        ),
        ("peer-lost", "torch.distributed.DistNetworkError: failed to recv, got 0 bytes"),
        (
            "kernel-build",
            "subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/x/main.c', '-O3']' returned",
        ),
        (
            "kernel-build",
            "subprocess.CalledProcessError: Command '/opt/triton/bin/ptxas -v --gpu-name=sm_120 x' returned",
        ),
        ("pool-leak", "AssertionError: dec_lock_ref on node with node.full_lock_ref=0, node.id=7"),
        ("gpu-out-of-memory", "enqueue.cc:9 NCCL WARN Cuda failure 2 'out of memory'"),
        ("child-died", "Child process unexpectedly failed with an exit code 256. pid=77"),
        ("child-killed", "Child process unexpectedly failed with an exit code 9. pid=77"),
        ("segfault", "Child process unexpectedly failed with an exit code 11. pid=77"),
        ("rocm", "HW Exception by GPU node-1 (Agent handle: 0x16) reason :GPU Hang"),
        ("npu", "RuntimeError: The Inner error is reported as above. The current operator name is aclnnMul."),
        (
            "gpu-out-of-memory",
            "RuntimeError: level_zero backend failed (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
        ),
        (
            "gpu-not-visible",
            "DeferredCudaCallError: with error: device >= 0 && device < num_gpus INTERNAL ASSERT",
        ),
        ("gpu-occupied", "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"),
        ("gpu-unsupported", "RuntimeError: SGLang only supports sm75 and above."),
        ("killed", "已杀死"),
        ("segfault", "段错误 (核心已转储)"),
    ],
)
def test_a_failure_is_known_by_other_words_too(expected: str, line: str) -> None:
    assert name(line).id == expected


def test_where_the_exception_tells_nothing_its_innermost_frame_may() -> None:
    frame = 'File "/opt/sglang/srt/layers/quantization/awq.py", line 9, in create_weights'
    assert name("ValueError: nobody knows", frame).id == "quantization"
    assert name("torch.OutOfMemoryError: CUDA out of memory.", frame).id == "gpu-out-of-memory"


def test_no_known_failure_is_without_a_line() -> None:
    assert set(LINES) == {each.id for each in load_diagnoses()}


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("gpu-out-of-memory", ["GPU 3", "2.50 GiB", "139.50 GiB", "1.25 GiB"]),
        ("kv-cache-memory", ["0.85"]),
        ("kv-cache-context", ["131072", "9.50 GiB", "at most 4096"]),
        ("gpu-occupied", ["9.50 GiB free of 79.00 GiB"]),
        ("port-in-use", ["port 30000", "sport = :30000"]),
        ("nccl-timeout", ["ALLREDUCE", "for 10m"]),
        ("parser-unknown", ["--tool-call-parser", "kimi_k9"]),
        ("arguments", ["--tpp 8"]),
        ("weights-missing", ["/models/kimi"]),
        ("weights-mismatch", ["model.layers.0.mlp.experts.w13_weight"]),
        ("gpu-lost", ["PCI:0000:4e:00"]),
        ("gpu-link", ["Xid 74"]),
        ("host-out-of-memory", ["sglang::schedul", "0.8 MiB in use"]),
        ("triton-resources", ["147456", "101376"]),
        ("model-unsupported", ["KimiForCausalLM"]),
        ("context-too-long", ["300000", "8192"]),
        ("not-installed", ["sgl_kernel"]),
        ("library-mismatch", ["common_ops.abi3.so"]),
        ("shape-mismatch", ["8192x4096 and 2048x16"]),
        ("child-killed", ["137 (SIGKILL)"]),
        ("child-died", ["256 (a raw wait status: exit status 1)"]),
        ("child-terminated", ["-15 (SIGTERM)"]),
        ("rendezvous", ["10.0.0.2"]),
        ("watchdog", ["300 s"]),
        ("ranks-apart", ["rank 3"]),
        ("disk-full", ["/srv/cache/triton/a"]),
        ("permission", ["/models/kimi/config.json"]),
        ("unit-command", ["203/EXEC"]),
    ],
)
def test_what_the_line_tells_is_in_the_words(key: str, told: list[str]) -> None:
    cause = name(LINES[key])
    words = f"{cause.title} {cause.counsel}"
    assert [each for each in told if each not in words] == []


def test_another_process_on_the_gpu_is_named_and_the_engines_own_is_not() -> None:
    own = "Including non-PyTorch memory, this process has 68.47 GiB memory in use."
    line = f"{LINES['gpu-out-of-memory']} Process 88123 has 9.40 GiB memory in use. {own}"
    assert "process 88123 holds 9.40 GiB. While" in name(line).means
    assert name(line).advice.startswith("See first what process 88123 is")
    alone = name(f"{LINES['gpu-out-of-memory']} {own}")
    assert "process" not in alone.counsel
    assert "While weights load, they are too large" in alone.means
    assert "Weights that do not fit want more GPUs" in alone.advice
    small = name(f"{LINES['gpu-out-of-memory']} Process 7 has 498.00 MiB memory in use. {own}")
    assert small.counsel == alone.counsel


FRAME = 'File "/opt/sglang/srt/{}", line 9, in f'


@pytest.mark.parametrize(
    ("expected", "line", "file"),
    [
        ("kv-cache-memory", "AssertionError: Memory pool size is too small", "managers/tp_worker.py"),
        ("kv-cache-memory", "AssertionError: max_running_request is zero", "managers/tp_worker.py"),
        ("request-memory", "ValueError: Out of memory even after retracting all others", "managers/a.py"),
        ("port-in-use", "OSError: Could not bind port 30001 on any family", "utils/network.py"),
        ("weights-missing", "RuntimeError: No model weights found in: `/m`", "model_loader/loader.py"),
        ("weights-damaged", "RuntimeError: Downloaded model files are still corrupted", "model_loader/a.py"),
        ("weights-mismatch", "ValueError: Parameter lm_head.weight not found in the model.", "a/b.py"),
        ("model-unsupported", "ValueError: KimiX has no SGLang implementation and none else", "models/a.py"),
        ("parser-unknown", "ValueError: Unsupported kv_cache_dtype: fp3.", "model_executor/model_runner.py"),
        ("tp-indivisible", "RuntimeError: world_size (8) is not equal to tensor_model_parallel_size", "a.py"),
        ("quantization", "NotImplementedError: only one is supported", "layers/quantization/a.py"),
        ("speculative", "AssertionError: topk=1 of the draft model requires more", "speculative/eagle.py"),
        ("flags-incompatible", "AssertionError: CPUGraphRunner does not support PP yet.", "a/b.py"),
        ("flags-incompatible", "ValueError: Raise --page-size first", "layers/a.py"),
        ("flags-incompatible", "AssertionError: no", "arg_groups/a_hook.py"),
        ("model-config", "ValueError: no", "configs/kimi.py"),
        ("flashinfer", "RuntimeError: Error in function 'run' at /w/csrc/gemm_runner.cu:276: no", "a/b.py"),
        ("deepgemm", "what():  Failed: CUDA error /w/DeepGEMM/csrc/jit/handle.hpp:82 '209'", "a/b.py"),
        ("deepep", "RuntimeError: Failed: CUDA error /w/DeepEP/csrc/runtime.cu:27 'no such'", "a/b.py"),
        ("rocm", "RuntimeError: [AITER] a.cpp:141 fail to call hipModuleLaunchKernel", "a/b.py"),
        ("gpu-unsupported", "RuntimeError: kernel 'a8w8' is not present in the compiled registry", "a/b.py"),
        ("gpu-not-visible", "RuntimeError: CUDA failed to start, you might not have a CUDA gpu.", "a/b.py"),
        ("not-installed", 'RuntimeError: Form data requires "python-multipart" to be installed.', "a/b.py"),
        ("model-unsupported", "ValueError: Unrecognized configuration class <class 'x'> to build", "a/b.py"),
        (
            "context-too-long",
            "ValueError: User-specified context_length (9) is greater than the model's; expect CUDA errors.",
            "configs/model_config.py",
        ),
        ("engine-fault", "IndexError: tuple index out of range", "models/kimi.py"),
    ],
)
def test_what_sglang_itself_raises_has_a_name(expected: str, line: str, file: str) -> None:
    assert name(line, FRAME.format(file)).id == expected


@pytest.mark.parametrize(
    ("expected", "line"),
    [
        ("rpc-timeout", "ray.exceptions.RayChannelTimeoutError: System error: Timed out waiting for x"),
        ("nixl", "RuntimeError: NIXL is not available"),
        ("nixl", "RuntimeError: Failed to set up the NIXL agent"),
        ("gpu-not-visible", "ValueError: invalid literal for int() with base 10: 'GPU-4b5c'"),
        ("gpu-not-visible", "RuntimeError: TPU initialization failed: open(/dev/vfio/0): busy"),
        ("model-access", "botocore.exceptions.NoCredentialsError: Unable to locate credentials"),
        ("weights-missing", "OSError: Can't load the configuration of '/m'."),
        ("weights-missing", "ValueError: Invalid repository ID or local directory specified: '/m'."),
        ("parser-unknown", "TypeError: Error: No reasoning parser 'kimi9' found in the manager"),
        ("gpu-unsupported", "AssertionError: this kind of cache requires sm_90 or later"),
        ("tp-indivisible", "ValueError: The input size is not aligned with the quantized weight shape."),
    ],
)
def test_what_vllm_itself_raises_has_a_name(expected: str, line: str) -> None:
    assert name(line, 'File "/v/site-packages/vllm/x.py", line 9, in f').id == expected


def test_a_fault_of_the_engine_is_told_with_its_own_words() -> None:
    title = name("AssertionError", FRAME.format("mem_cache/pool.py"), "assert dtype == uint8").title
    assert title == "An error inside the engine's code (mem_cache): assert dtype == uint8"
    installed = 'File "/v/site-packages/sglang/srt/layers/moe.py", line 9, in f'
    assert (
        name("TypeError: no", installed).title == "An error inside the engine's code (layers): TypeError: no"
    )
    assert "(torch)" in name("TypeError: no", 'File "/v/site-packages/torch/x.py", line 9, in f').title


def test_an_unknown_failure_keeps_its_line_its_rank_and_its_phase() -> None:
    cause = name("TypeError: ForwardMetadata got no kv_indices", 'File "/opt/x.py", line 1, in f')
    assert (cause.id, cause.title) == ("unknown", "TypeError: ForwardMetadata got no kv_indices")
    assert "TP3" in cause.counsel
    assert "weights" in cause.counsel
    main = name_cause(["TypeError: x"], where=(MAIN_RANK, PhaseId.GRAPHS, Role.DRAFT))
    assert "the main process printed during graphs of the draft model" in main.means


def test_the_best_line_counts_before_the_others() -> None:
    lines = ("RuntimeError: No CUDA GPUs are available", LINES["gpu-out-of-memory"])
    assert name(*lines).id == "gpu-not-visible"
    assert name("RuntimeError: oh", LINES["illegal-memory-access"]).id == "illegal-memory-access"


def test_follow_ups_are_read_together() -> None:
    lines = ("Received sigquit from a child process. It usually means the child failed.", "Exit code: -9")
    assert name(*lines, whole=True).id == "host-out-of-memory"
    assert name(*lines).id == "child-died"


def test_status_9_is_sglangs_own_hand_and_no_proof_of_a_kill() -> None:
    cause = name(LINES["own-kill"])
    assert "does not show that memory ran out" in cause.counsel
    assert name(LINES["own-kill"], engine="vllm").id == "killed"


def test_another_failure_is_told_at_the_end() -> None:
    cause = name_cause(["TypeError: x"], where=HERE, also="TP5: OSError: y")
    assert cause.counsel.endswith("Another failure, apart from it: TP5: OSError: y.")


def test_nothing_known_fits_nothing() -> None:
    assert find_diagnosis(["one", "two"]) is None

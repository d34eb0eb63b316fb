"""What SGLang prints, in its own formats: texts without prefix, bars, tracebacks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

SECRET = "pk-practice-7f3b1c9de0a54d1fb2"  # noqa: S105 - seeded: redaction must catch it

_FLAGS = """
model_path='/models/kimi-k2.5' tokenizer_path='/models/kimi-k2.5' tokenizer_mode='auto'
tokenizer_worker_num=1 skip_tokenizer_init=False load_format='auto' model_loader_extra_config='{}'
trust_remote_code=True context_length=262144 is_embedding=False enable_multimodal=None revision=None
model_impl='auto' host='127.0.0.1' port=PORT fastapi_root_path='' grpc_mode=False skip_server_warmup=False
warmups=None nccl_port=None dtype='auto' quantization=None quantization_param_path=None kv_cache_dtype='auto'
enable_fp32_lm_head=False mem_fraction_static=0.85 max_running_requests=64 max_queued_requests=None
max_total_tokens=None chunked_prefill_size=16384 enable_dynamic_chunking=False max_prefill_tokens=16384
prefill_max_requests=None schedule_policy='fcfs' enable_priority_scheduling=False
abort_on_priority_when_disabled=False schedule_low_priority_values_first=False
priority_scheduling_preemption_threshold=10 schedule_conservativeness=1.0 page_size=1
swa_full_tokens_ratio=0.8 disable_hybrid_swa_memory=False radix_eviction_policy='lru' device='cuda'
tp_size=RANKS pp_size=1 pp_max_micro_batch_size=None stream_interval=1 stream_output=False random_seed=731
constrained_json_whitespace_pattern=None watchdog_timeout=300 soft_watchdog_timeout=None dist_timeout=None
download_dir=None base_gpu_id=0 gpu_id_step=1 sleep_on_idle=False custom_sigquit_handler=None
log_level='info' log_level_http=None log_requests=False log_requests_level=2 crash_dump_folder=None
show_time_cost=False enable_metrics=True enable_metrics_for_all_schedulers=False
tokenizer_metrics_allowed_custom_labels=None bucket_time_to_first_token=None
bucket_inter_token_latency=None bucket_e2e_request_latency=None collect_tokens_histogram=False
prompt_tokens_buckets=None generation_tokens_buckets=None gc_warning_threshold_secs=0.0
decode_log_interval=40 enable_request_time_stats_logging=False kv_events_config=None enable_trace=False
otlp_traces_endpoint='localhost:4317' api_key='SECRET' admin_api_key=None served_model_name='kimi-k2.5'
weight_version='default' chat_template=None completion_template=None file_storage_path='sglang_storage'
enable_cache_report=True reasoning_parser='kimi_k2' tool_call_parser='kimi_k2' tool_server=None
sampling_defaults='model' dp_size=1 load_balance_method='round_robin' dist_init_addr=None nnodes=1
node_rank=0 json_model_override_args='{}' preferred_sampling_params=None enable_lora=None
enable_lora_overlap_loading=None max_lora_rank=None lora_target_modules=None lora_paths=None
max_loaded_loras=None max_loras_per_batch=8 lora_eviction_policy='lru' lora_backend='csgmv'
max_lora_chunk_size=16 attention_backend='flashinfer' decode_attention_backend=None
prefill_attention_backend=None sampling_backend='flashinfer' grammar_backend='xgrammar'
mm_attention_backend=None fp8_gemm_runner_backend='auto' fp4_gemm_runner_backend='auto'
nsa_prefill_backend=None nsa_decode_backend=None disable_flashinfer_autotune=False
speculative_algorithm='EAGLE' speculative_draft_model_path='/models/kimi-k2.5-eagle'
speculative_draft_model_revision=None speculative_draft_load_format=None speculative_num_steps=3
speculative_eagle_topk=1 speculative_num_draft_tokens=4 speculative_accept_threshold_single=1.0
speculative_accept_threshold_acc=1.0 speculative_token_map=None speculative_attention_mode='prefill'
speculative_moe_runner_backend='auto' ep_size=1 moe_a2a_backend='none' moe_runner_backend='auto'
flashinfer_mxfp4_moe_precision='default' enable_flashinfer_allreduce_fusion=False deepep_mode='auto'
ep_num_redundant_experts=0 ep_dispatch_algorithm=None init_expert_location='trivial' enable_eplb=False
eplb_algorithm='auto' eplb_rebalance_num_iterations=1000 eplb_rebalance_layers_per_chunk=None
expert_distribution_recorder_mode=None enable_hierarchical_cache=False hicache_ratio=2.0 hicache_size=0
hicache_write_policy='write_through' hicache_io_backend='kernel' hicache_mem_layout='layer_first'
enable_lmcache=False cpu_offload_gb=0 offload_group_size=-1 offload_num_in_group=1
disable_radix_cache=False cuda_graph_max_bs=64 cuda_graph_bs=BATCHES disable_cuda_graph=False
disable_cuda_graph_padding=False enable_profile_cuda_graph=False enable_cudagraph_gc=False
enable_nccl_nvls=False enable_symm_mem=False disable_custom_all_reduce=False enable_mscclpp=False
disable_overlap_schedule=False enable_mixed_chunk=False enable_dp_attention=False enable_dp_lm_head=False
enable_two_batch_overlap=False tbo_token_distribution_threshold=0.48 enable_torch_compile=False
torch_compile_max_bs=32 torchao_config='' enable_nan_detection=False enable_p2p_check=False
triton_attention_reduce_in_fp32=False triton_attention_num_kv_splits=8 num_continuous_decode_steps=1
delete_ckpt_after_loading=False enable_memory_saver=False enable_weights_cpu_backup=False
allow_auto_truncate=False enable_custom_logit_processor=False disable_shared_experts_fusion=False
disaggregation_mode='null' disaggregation_transfer_backend='mooncake' disaggregation_bootstrap_port=8998
disaggregation_decode_tp=None disaggregation_ib_device=None num_reserved_decode_tokens=512
"""


def batches() -> list[int]:
    return [1, 2, 4, 8, 12, *range(16, 65, 4)]


def server_args(*, port: int, ranks: int, api_key: str | None = None) -> str:
    """The one line with every flag, the API key in clear as the engine prints it; over 4,096 bytes."""
    flags = ", ".join(_FLAGS.split()).replace("PORT", str(port)).replace("RANKS", str(ranks))
    return f"server_args=ServerArgs({flags})".replace("SECRET", api_key or SECRET).replace(
        "BATCHES", str(batches())
    )


def set_arguments(line: str, command_line: str, *, seed: int) -> str:
    """The same line with the flags of the command in it, and a seed as each start draws its own."""
    flags = re.findall(r"--([a-z][a-z-]*)[ =]([^- ]\S*)", command_line)
    for name, value in (*flags, ("random_seed", str(seed))):
        told = value if re.fullmatch(r"[0-9.]+", value) else f"'{value}'"
        line = re.sub(rf"(?<=[( ]){name.replace('-', '_')}=[^,)]*", f"{name.replace('-', '_')}={told}", line)
    return line


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where versions differ."""

    shards: str = "Loading safetensors checkpoint shards"
    bar_end: str = "\n"  # the old bar ends each update with a newline
    elapsed: bool = False  # "ends" lines tell seconds
    draft_graphs_by_all: bool = True


OLD = Dialect()  # as 0.5.8 prints
NEW = Dialect(shards="Multi-thread loading shards", bar_end="", elapsed=True, draft_graphs_by_all=False)


def stamp(at: datetime, rank: int | None) -> str:
    """The prefix of a record."""
    tag = "" if rank is None else f" TP{rank}"
    return f"[{at:%Y-%m-%d %H:%M:%S}{tag}] "


def distributed_end(dialect: Dialect, seconds: float) -> str:
    elapsed = f"elapsed={seconds:.2f} s, " if dialect.elapsed else ""
    return f"Init torch distributed ends. {elapsed}mem usage=1.31 GB"


def weight_end(dialect: Dialect, seconds: float, *, draft: bool) -> str:
    model = "LlamaForCausalLMEagle3" if draft else "KimiK25ForConditionalGeneration"
    avail, used = ("7.02", "2.11") if draft else ("68.13", "71.02")
    if dialect.elapsed:
        quant = "None" if draft else "compressed-tensors"
        return (
            f"Load weight end. elapsed={seconds:.2f} s, type={model}, quant={quant}, "
            f"avail mem={avail} GB, mem usage={used} GB."
        )
    return f"Load weight end. type={model}, dtype=torch.bfloat16, avail mem={avail} GB, mem usage={used} GB."


def cache_lines(*, draft: bool) -> tuple[str, str]:
    if draft:
        return (
            "KV Cache is allocated. #tokens: 731206, KV size: 0.70 GB",
            "Memory pool end. avail mem=6.32 GB",
        )
    return "KV Cache is allocated. #tokens: 731206, KV size: 47.31 GB", "Memory pool end. avail mem=12.44 GB"


def capture_begin(kind: str) -> str:
    return f"Capture {kind}cuda graph begin. This can take up to several minutes. avail mem=11.90 GB"


def capture_end(kind: str, seconds: float) -> str:
    return (
        f"Capture {kind}cuda graph end. Time elapsed: {seconds:.2f} s. mem usage=2.77 GB. avail mem=9.13 GB."
    )


def clock_text(seconds: float) -> str:
    """As tqdm writes a time: `03:10`, `1:02:03`."""
    minutes, second = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{second:02d}" if hours else f"{minutes:02d}:{second:02d}"


def _rate(done: int, elapsed: float) -> tuple[str, float]:
    if not done or elapsed <= 0:
        return "?it/s", 0.0
    rate = done / elapsed
    return (f"{rate:5.2f}it/s" if rate >= 1 else f"{1 / rate:5.2f}s/it"), rate


def shard_bar(dialect: Dialect, done: int, total: int, elapsed: float) -> str:
    """One update of the weight bar, from its carriage return on."""
    rate, speed = _rate(done, elapsed)
    left = clock_text((total - done) / speed) if speed else "?"
    times = f"[{clock_text(elapsed)}<{left}, {rate}]"
    percent = f"{100 * done / total:3.0f}%"
    return f"\r{dialect.shards}: {percent} Completed | {done}/{total} {times}{dialect.bar_end}"


def capture_bar(done: int, total: int, elapsed: float, batch: int) -> str:
    """One update of the graph capture bar: redrawn with carriage returns alone."""
    rate, speed = _rate(done, elapsed)
    left = clock_text((total - done) / speed) if speed else "?"
    filled = 10 * done // total
    bar = "█" * filled + " " * (10 - filled)
    times = f"[{clock_text(elapsed)}<{left}, {rate}]"
    head = f"Capturing batches (bs={batch} avail_mem={11.9 - 0.11 * done:.2f} GB)"
    return f"\r{head}: {100 * done / total:3.0f}%|{bar}| {done}/{total} {times}"


_FRAMES = {
    "start": (
        ("managers/scheduler.py", 3012, "run_scheduler_process", "scheduler = Scheduler("),
        ("managers/scheduler.py", 341, "__init__", "self.init_model_worker()"),
        ("managers/tp_worker.py", 318, "_init_model_runner", "self._model_runner = ModelRunner("),
        ("model_executor/model_runner.py", 402, "__init__", "self.initialize(min_per_gpu_memory)"),
    ),
    "weights": (
        ("model_executor/model_runner.py", 471, "initialize", "self.load_model()"),
        ("model_executor/model_runner.py", 887, "load_model", "self.model = self.loader.load_model("),
        ("model_loader/loader.py", 655, "load_model", "self.load_weights_and_postprocess("),
    ),
    "forward": (
        ("managers/scheduler.py", 3040, "run_scheduler_process", "scheduler.event_loop_overlap()"),
        ("managers/scheduler.py", 1102, "event_loop_overlap", "result = self.run_batch(batch)"),
        ("speculative/eagle_worker.py", 288, "forward_batch_generation", "logits, _ = self.verify(batch)"),
    ),
}


def traceback(error: str, *frames: str) -> list[str]:
    """Lines as one rank's exception handler prints them; the first belongs behind a prefix."""
    lines = ["Scheduler hit an exception: Traceback (most recent call last):"]
    for group in frames:
        lines += _frame_lines(_FRAMES[group])
    return [*lines, error, ""]


def _frame_lines(frames: Iterable[tuple[str, int, str, str]]) -> Iterator[str]:
    for path, line, function, code in frames:
        yield f'  File "/opt/sglang/python/sglang/srt/{path}", line {line}, in {function}'
        yield f"    {code}"


OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of "
    "79.11 GiB of which 1.21 GiB is free. Process 88123 has 9.40 GiB memory in use. Including non-PyTorch "
    "memory, this process has 68.47 GiB memory in use."
)
PEER_CLOSED = (
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] "
    "Connection closed by peer [127.0.0.1]:{port}"
)
TRUNCATED_SHARD = (
    "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer"
)
ILLEGAL_ACCESS = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
CHILD_FAILED = "Received sigquit from a child process. It usually means the child failed."
CHILD_FAILED_SERVING = (
    "SIGQUIT received. signum=3, frame=<frame at 0x7f21c0>. It usually means one child failed."
)
READY = "The server is fired up and ready to roll!"


def oom_killer(*, pid: int, cgroup: str) -> tuple[str, ...]:
    """What the kernel says when the host's memory is used up, as Linux 6 words it."""
    called = (
        "sglang::schedul invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_ZERO), "
        "order=0, oom_score_adj=0"
    )
    chosen = (
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,"
        f"task_memcg={cgroup},task=sglang::schedul,pid={pid},uid=1000"
    )
    killed = (
        f"Out of memory: Killed process {pid} (sglang::schedul) total-vm:412118536kB, anon-rss:118203944kB, "
        "file-rss:81920kB, shmem-rss:1048576kB, UID:1000 pgtables:241772kB oom_score_adj:0"
    )
    return called, chosen, killed


def watchdog_timeout(at: datetime, rank: int) -> str:
    """As torch prints it, from a thread of C++, without the engine's prefix."""
    stamp = f"E{at.month}{at:%d %H:%M:%S}.{at.microsecond:06d}271"
    return (
        f"[rank{rank}]:[{stamp} ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=1874, OpType=ALLREDUCE, NumelIn=458752, NumelOut=458752, "
        "Timeout(ms)=600000) ran for 600043 milliseconds before timing out."
    )


def terminated(rank: int) -> tuple[str, ...]:
    """How an exception of C++ that nobody catches ends a rank."""
    why = (
        f"  what():  [PG ID 2 PG GUID 3 Rank {rank}] Process group watchdog thread terminated with "
        f"exception: [Rank {rank}] Watchdog caught collective operation timeout"
    )
    called = "terminate called after throwing an instance of 'c10::DistBackendError'"
    return called, why, "Fatal Python error: Aborted"

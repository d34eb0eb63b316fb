"""What the answers of a host say, and what is made of those that are missing or strange."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bot.core.events import InvocationId, Rank
from bot.core.evidence import (
    PROCESS_PATTERN,
    Gpu,
    ProcessSeen,
    Sample,
    ShardMapped,
    hub_folders,
    parse_counters,
    parse_gpus,
    parse_pids,
    parse_processes,
    parse_sizes,
    read_model_path,
    read_title,
)

AT = datetime(2026, 5, 29, 23, 49, tzinfo=UTC)
GIB = 2**30


def test_counters_of_a_unit_that_runs() -> None:
    shown = (
        "InvocationID=0f3c1d2e4b5a69788796a5b4c3d2e1f0\nControlGroup=/system.slice/sglang-kimi.service\n"
        "CPUUsageNSec=61000000000\nMemoryCurrent=1073741824\nTasksCurrent=702\nIOReadBytes=4096\n"
    )
    counters = parse_counters(shown)
    assert counters.group == "/system.slice/sglang-kimi.service"
    assert counters.invocation == InvocationId("0f3c1d2e4b5a69788796a5b4c3d2e1f0")
    assert (counters.cpu, counters.memory) == (timedelta(seconds=61), GIB)
    assert (counters.tasks, counters.read) == (702, 4096)


def test_what_is_not_set_is_missing() -> None:
    shown = "InvocationID=\nControlGroup=\nCPUUsageNSec=[not set]\nMemoryCurrent=18446744073709551615\n"
    counters = parse_counters(shown + "TasksCurrent=[not set]\nIOReadBytes=[not set]\n")
    told = (counters.cpu, counters.memory, counters.tasks, counters.read, counters.invocation)
    assert told == (None,) * 5
    assert counters.group == ""


@pytest.mark.parametrize("group", ["relative/path", "/a/../../etc", "/a//b", "/"])
def test_a_strange_control_group_is_not_looked_into(group: str) -> None:
    assert parse_counters(f"ControlGroup={group}\n").group == ""


def test_processes_are_listed_once_whichever_hierarchy_names_them() -> None:
    assert parse_pids("4711\n4712\n\n4711\n0\nfind: x\n") == (4711, 4712)


def grep(files: dict[str, str]) -> str:
    """What `grep -a -o -H -E` prints of these files."""
    wanted = re.compile(PROCESS_PATTERN, re.MULTILINE)
    return "".join(f"{name}:{each[0]}\n" for name, text in files.items() for each in wanted.finditer(text))


def test_what_proc_says_of_the_processes() -> None:
    mapped = "7f1c-7f1d r--s 00000000 103:02 88 /models/kimi/model-{}-of-000064.safetensors\n"
    out = grep(
        {
            "/proc/10/cmdline": "python\0-m\0sglang.launch_server\0--api-key\0sk-secret\0",
            "/proc/10/io": "rchar: 9\nread_bytes: 4096\ncancelled_write_bytes: 0\n",
            "/proc/11/cmdline": "sglang::scheduler_TP0\0\0\0\0\0",
            "/proc/11/io": "rchar: 9\nread_bytes: 1000\n",
            "/proc/11/maps": mapped.format("00011") + mapped.format("00012"),
            "/proc/12/cmdline": "sglang::detokenizer\0",
            "/proc/12/io": "read_bytes: 5\n",
        }
    )
    facts = parse_processes(out, "grep: /proc/13/io: No such file or directory\n")
    assert "secret" not in out
    assert facts.processes == (
        ProcessSeen(11, "sglang::scheduler_TP0", Rank("TP0")),
        ProcessSeen(12, "sglang::detokenizer"),
    )
    assert facts.read == 5101
    assert facts.shard == ShardMapped(12, 64)
    assert facts.refused == frozenset()


def test_a_sum_that_is_not_whole_is_none() -> None:
    refused = "grep: /proc/10/io: Permission denied\ngrep: /proc/10/maps: Permission denied\n"
    facts = parse_processes("/proc/11/io:read_bytes: 7\n", refused)
    assert facts.read is None
    assert facts.refused == {"io", "maps"}


@pytest.mark.parametrize(
    "name",
    [
        "consolidated-00003-of-00007.safetensors",
        "pytorch_model-00003-of-00007.bin",
        "Q4_K-00003-of-00007.gguf",
    ],
)
def test_shards_of_any_name_are_seen(name: str) -> None:
    out = grep({"/proc/1/maps": f"7f1c-7f1d r--s 00000000 103:02 88 /models/a b/{name}\n"})
    assert out == f"/proc/1/maps:{name}\n"
    assert parse_processes(out, "").shard == ShardMapped(3, 7)


def test_shards_that_are_mapped_all_at_once_tell_nothing() -> None:
    lines = "".join(f"/proc/1/maps:model-{n:05d}-of-00008.safetensors\n" for n in range(1, 9))
    assert parse_processes(lines, "").shard is None
    assert parse_processes("/proc/1/maps:model-00001-of-00001.safetensors\n", "").shard == ShardMapped(1, 1)


@pytest.mark.parametrize(
    ("title", "rank"),
    [
        ("sglang::scheduler_TP5", "TP5"),
        ("sglang::scheduler_DP0_TP5_EP5", "DP0 TP5 EP5"),
        ("sglang::scheduler_PP1_ATTN_CP0_MOE_DP1_TP15", "PP1 ATTN_CP0 MOE_DP1 TP15"),
        ("VLLM::Worker_TP3", "TP3"),
        ("VLLM::Worker_DP1_TP3_EP7", "DP1 TP3 EP7"),
        ("sglang::detokenizer", None),
        ("sglang::scheduler", None),
        ("VLLM::EngineCore_DP1", "DP1"),
        ("VLLM::DPEngineCore_1", "DP1"),
        ("VLLM::EngineCore", None),
        ("VLLM::DPCoordinator", None),
    ],
)
def test_titles_name_ranks_as_the_log_does(title: str, rank: str | None) -> None:
    assert read_title(title) == rank


def test_gpus_as_the_driver_prints_them() -> None:
    text = "0, 75612, 81559, 100\n1, 4, 81559, [N/A]\n2, [Not Supported], 81559, 0\n"
    mib = 2**20
    assert parse_gpus(text) == (
        Gpu(0, 75612 * mib, 81559 * mib, 100),
        Gpu(1, 4 * mib, 81559 * mib, None),
        Gpu(2, None, 81559 * mib, 0),
    )
    assert Sample(AT, gpus=parse_gpus(text)).gpu_memory == 75616 * mib


@pytest.mark.parametrize(
    "complaint",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        "No devices were found\n",
        "Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error\n",
    ],
)
def test_a_driver_that_complains_names_no_gpu(complaint: str) -> None:
    assert parse_gpus(complaint) == ()
    assert Sample(AT, gpus=()).gpu_memory is None


def test_the_size_of_a_model() -> None:
    assert parse_sizes("10\n20\n") == 30
    assert parse_sizes("") is None


def test_of_a_model_in_several_forms_one_is_measured() -> None:
    shards = "10 model-00001-of-00002.safetensors\n20 model-00002-of-00002.safetensors\n"
    assert parse_sizes(f"{shards}30 consolidated.safetensors\n31 pytorch_model.bin\n") == 30
    assert parse_sizes("7 consolidated.00.safetensors\n") == 7
    assert parse_sizes("40 kimi-q4.gguf\n5 training_args.bin\nfind: x\n") == 40
    assert parse_sizes("6 pytorch_model-00001-of-00002.bin\n7 pytorch_model-00002-of-00002.bin\n") == 13


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("server_args=ServerArgs(model_path='/models/kimi-k2.5', tokenizer_path='/t')", "/models/kimi-k2.5"),
        ("non-default args: {'model': '/data/x', 'port': 8000}", "/data/x"),
        ("Initializing a V1 LLM engine with config: model='/data/y', speculative_config=None", "/data/y"),
        ("server_args=ServerArgs(model_path='moonshotai/Kimi-K2.5', host='::')", "moonshotai/Kimi-K2.5"),
        ("non-default args: {'model_tag': 'a/b', 'model': 'Qwen/Qwen3-8B', 'port': 1}", "Qwen/Qwen3-8B"),
        ("server_args=ServerArgs(model_path='gpt2', host='::')", None),
        ("server_args=ServerArgs(speculative_draft_model_path='a/b')", None),
        ("server_args=ServerArgs(model_path='/models/../etc', host='::')", None),
        ("loading the model: /models/x", None),
    ],
)
def test_where_the_weights_lie(line: str, path: str | None) -> None:
    assert read_model_path(line) == path


@pytest.mark.parametrize(
    ("shown", "cache"),
    [
        ("User=llm\nEnvironment=HF_HOME=/data/hf NCCL_DEBUG=INFO\n", "/data/hf/hub"),
        ("User=llm\nEnvironment=HF_HUB_CACHE=/data/hub/ HF_HOME=/x\n", "/data/hub"),
        ('Environment="XDG_CACHE_HOME=/var/a b" X=1\nUser=\n', "/var/a b/huggingface/hub"),
        ("User=llm\nEnvironment=\n", "/home/llm/.cache/huggingface/hub"),
        ("Environment='\n", "/root/.cache/huggingface/hub"),
    ],
)
def test_where_the_files_of_a_hubs_model_lie(shown: str, cache: str) -> None:
    assert hub_folders(shown, "moonshotai/Kimi-K2.5") == (f"{cache}/models--moonshotai--Kimi-K2.5/snapshots",)


def test_a_cache_that_is_no_path_is_none() -> None:
    assert hub_folders("Environment=HF_HOME=hf", "a/b") == ()
    assert hub_folders("Environment=HF_HOME=/x/../etc", "a/b") == ()


def test_the_same_file_of_two_revisions_counts_once() -> None:
    assert parse_sizes("10 model.safetensors\n10 model.safetensors\n") == 10


def test_a_line_that_quotes_anything_takes_no_time() -> None:
    assert read_model_path("args model" + " " * 200_000) is None


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300))
def test_no_answer_is_an_error(text: str) -> None:
    parse_counters(text)
    parse_gpus(text)
    parse_pids(text)
    parse_sizes(text)
    parse_processes(text, text)
    parse_processes(f"/proc/7/io:{text}", f"/proc/7/maps: {text}")
    read_model_path(f"args {text}")


def test_a_sample_survives_a_record() -> None:
    sample = Sample(
        AT,
        invocation=InvocationId("a" * 32),
        cpu=timedelta(seconds=3),
        processes=(ProcessSeen(7, "sglang::scheduler_TP0", Rank("TP0")),),
        shard=ShardMapped(3, 64),
        gpus=(Gpu(0, 1, 2, None),),
        refused=("GPUs",),
    )
    adapter = TypeAdapter(Sample)
    assert adapter.validate_json(adapter.dump_json(sample)) == sample
    assert sample.ranks == {"TP0": 7}

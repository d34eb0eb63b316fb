"""The lines the practice engine prints have the shape of SGLang's."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from bot.practice.scenarios import sglang_log as log

AT = datetime(2026, 5, 29, 23, 49, 47, tzinfo=UTC)


def test_prefixes() -> None:
    assert log.stamp(AT, 5) == "[2026-05-29 23:49:47 TP5] "
    assert log.stamp(AT, None) == "[2026-05-29 23:49:47] "


@pytest.mark.parametrize(
    ("done", "elapsed", "text"),
    [
        (0, 0.0, "\rLoading safetensors checkpoint shards:   0% Completed | 0/64 [00:00<?, ?it/s]\n"),
        (
            28,
            11.4,
            "\rLoading safetensors checkpoint shards:  44% Completed | 28/64 [00:11<00:14,  2.46it/s]\n",
        ),
        (
            12,
            56.0,
            "\rLoading safetensors checkpoint shards:  19% Completed | 12/64 [00:56<04:02,  4.67s/it]\n",
        ),
        (
            64,
            3700.0,
            "\rLoading safetensors checkpoint shards: 100% Completed | 64/64 [1:01:40<00:00, 57.81s/it]\n",
        ),
    ],
)
def test_the_old_bar(done: int, elapsed: float, text: str) -> None:
    assert log.shard_bar(log.OLD, done, 64, elapsed) == text


def test_an_update_of_two_digits_is_what_hosts_show_as_87_bytes() -> None:
    bar = log.shard_bar(log.OLD, 28, 64, 11.4).rstrip()
    assert len(bar.encode()) == 87


def test_the_new_bar_ends_in_nothing() -> None:
    assert log.shard_bar(log.NEW, 1, 64, 4.0).startswith(
        "\rMulti-thread loading shards:   2% Completed | 1/64"
    )
    assert not log.shard_bar(log.NEW, 1, 64, 4.0).endswith("\n")


def test_the_capture_bar() -> None:
    bar = log.capture_bar(3, 18, 7.5, 48)
    assert (
        bar
        == "\rCapturing batches (bs=48 avail_mem=11.57 GB):  17%|█         | 3/18 [00:07<00:37,  2.50s/it]"
    )


def test_server_args_are_one_long_line_with_the_key() -> None:
    text = log.server_args(port=30000, ranks=8)
    assert text.startswith("server_args=ServerArgs(model_path='/models/kimi-k2.5', ")
    assert f"api_key='{log.SECRET}', " in text
    assert "port=30000, " in text
    assert "tp_size=8, " in text
    assert "\n" not in text
    assert len(text) > 4096
    assert "api_key='other'" in log.server_args(port=1, ranks=8, api_key="other")


def test_ends_tell_seconds_only_in_the_new_dialect() -> None:
    assert log.distributed_end(log.OLD, 22) == "Init torch distributed ends. mem usage=1.31 GB"
    assert (
        log.distributed_end(log.NEW, 22) == "Init torch distributed ends. elapsed=22.00 s, mem usage=1.31 GB"
    )
    assert "elapsed=5.00 s" in log.weight_end(log.NEW, 5, draft=False)
    assert "elapsed" not in log.weight_end(log.OLD, 5, draft=False)
    assert "LlamaForCausalLMEagle3" in log.weight_end(log.OLD, 5, draft=True)


def test_a_traceback_reads_as_pythons() -> None:
    first, *frames, error, last = log.traceback(log.OUT_OF_MEMORY, "start", "weights")
    assert first == "Scheduler hit an exception: Traceback (most recent call last):"
    assert all(re.fullmatch(r'  File ".+", line \d+, in \w+', line) for line in frames[::2])
    assert all(line.startswith("    ") for line in frames[1::2])
    assert error == log.OUT_OF_MEMORY
    assert last == ""


def test_the_flags_of_the_command_stand_in_the_line_of_arguments() -> None:
    line = log.server_args(port=30000, ranks=8)
    command = "/opt/x/bin/python -m s --tool-call-parser qwen --mem-fraction-static 0.7 --enable-metrics"
    told = log.set_arguments(line, command, seed=4711)
    assert "tool_call_parser='qwen'," in told
    assert "mem_fraction_static=0.7," in told
    assert "random_seed=4711," in told
    assert len(told.split(", ")) == len(line.split(", "))

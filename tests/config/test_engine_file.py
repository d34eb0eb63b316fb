"""Engine files: read, refused with all faults, and what their rules match."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from bot.errors import ConfigurationInvalid
from config.engine_file import EngineFile, load_engine, load_engines
from config.engine_rules import Arguments, Frame, Kind
from tests.support.twins import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SGLANG = load_engine("sglang")

SMALL = """
name = "small"
title = "Small"
recognise = ["small engine"]
[prefix]
stamp = '\\[(?P<time>\\d+)(?P<ranks>(?: R\\d)*)\\] '
rank = 'R\\d'
[[phase]]
id = "weights"
ranks = "all"
patience = "90s"
begin = [{ line = 'load (?P<what>\\w+)', by = "1.0" }]
progress = [{ anywhere = '(?P<done>\\d+) of (?P<total>\\d+)', has = " of ", by = "1.0" }]
[[ready]]
line = "up"
by = "1.0"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "engine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_file_that_comes_along_loads() -> None:
    engines = load_engines()
    assert "sglang" in engines
    for name, engine in engines.items():
        assert engine.name == name
        assert all(rule.patience > timedelta(0) for rule in engine.phase)


def test_a_new_engine_is_a_new_file(tmp_path: Path) -> None:
    engine = load_engine(write(tmp_path, SMALL))
    begun = engine.read("load everything")
    assert begun is not None
    assert begun.match is not None
    assert (begun.kind, begun.match["what"]) == (Kind.BEGIN, "everything")
    moved = engine.read("1 of 4, 2 of 4")
    assert moved is not None
    assert (moved.kind, moved.bar) == (Kind.PROGRESS, (2, 4))
    ready = engine.read("up")
    assert ready is not None
    assert ready.kind is Kind.READY
    assert engine.read("unheard of") is None
    assert engine.patience_of("weights") == timedelta(seconds=90)
    assert engine.patience_of("graphs") is None
    assert engine.is_recognised("the small engine says")
    assert not engine.reader.starts("anything")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('name = "small"', "", "name"),
        ('id = "weights"', 'id = "loading"', "phase.0.id"),
        ('patience = "90s"', 'patience = "soon"', "phase.0.patience"),
        ('line = "up"', "line = '('", "ready.0"),
        ('line = "up"', 'anywhere = "up"', "`anywhere` and `has` go together"),
        ('line = "up"', "", "exactly one"),
        ('line = "up"', 'line = "up"\ncolour = "red"', "colour"),
        ("[prefix]", "[prefix", "no TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_key(tmp_path: Path, old: str, new: str, told: str) -> None:
    path = write(tmp_path, SMALL.replace(old, new))
    with pytest.raises(ConfigurationInvalid, match=re.escape(told)) as caught:
        load_engine(path)
    assert all(fault.startswith(str(path)) for fault in caught.value.faults)


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationInvalid, match="sglang"):
        load_engine("nonesuch")


def kind_of(text: str) -> tuple[str, str | None, str | None]:
    hit = SGLANG.read(text)
    assert hit is not None, text
    return hit.kind, hit.phase.id if hit.phase else None, hit.rule.role


@pytest.mark.parametrize(
    ("text", "kind", "phase", "role"),
    [
        ("Init torch distributed begin.", "begin", "distributed", None),
        ("Init nccl begin.", "begin", "distributed", None),
        ("Init torch distributed ends. mem usage=1.00 GB", "end", "distributed", None),
        ("Load weight begin. avail mem=1.00 GB", "begin", "weights", None),
        ("Load weight end. elapsed=1.00 s, type=X, avail mem=1.00 GB", "end", "weights", None),
        (
            "Load weight end. Committed real weights after CUDA graph capture in 1.00 s",
            "end",
            "weights",
            None,
        ),
        ("Using KV cache dtype: torch.bfloat16", "begin", "memory", None),
        ("KV Cache is allocated. K size: 1.00 GB, V size: 1.00 GB.", "begin", "memory", None),
        ("KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 1", "begin", "memory", None),
        ("Memory pool end. avail mem=1.00 GB", "end", "memory", None),
        ("Running FlashInfer autotune...", "begin", "compile", None),
        ("Running FlashInfer autotune with cache: /tmp/x", "begin", "compile", None),
        ("FlashInfer autotune completed.", "end", "compile", None),
        ("Capture cuda graph begin. This can take up to several minutes.", "begin", "graphs", None),
        ("Capture cuda graph end. Time elapsed: 1.00 s", "end", "graphs", None),
        ("Capture npu graph begin. This can take", "begin", "graphs", None),
        ("Capture piecewise CUDA graph begin. avail mem=1.00 GB", "begin", "graphs", "target"),
        ("Capture target decode CUDA graph begin. backend=full", "begin", "graphs", "target"),
        ("Capture target verify CUDA graph end. bs=[1], elapsed=1.00 s", "end", "graphs", "target"),
        ("Capture draft cuda graph begin. This can take", "begin", "graphs", "draft"),
        ("Capture draft extend cuda graph begin (step 2). This", "begin", "graphs", "draft"),
        ("Capture single-CG draft extend begin. This can", "begin", "graphs", "draft"),
        ("Capture Frozen-KV MTP draft cuda graph begin.", "begin", "graphs", "draft"),
        ("Capture UNO tree draft CUDA graph begin. ", "begin", "graphs", "draft"),
        ("INFO:     Started server process [1]", "begin", "server", None),
        ("Uvicorn running on http://0.0.0.0:30000", "begin", "warmup", None),
        ("SIGTERM received. signum=15", "begin", "stopping", None),
        ("max_total_num_tokens=1, context_len=2", "settled", None, None),
        ("Engine startup timings (s): load_weight=1.00", "settled", None, None),
        ("The server is fired up and ready to roll!", "ready", None, None),
        ("server_args=ServerArgs(model_path='x')", "arguments", None, None),
        ("server_args={'model_path': 'x'}", "arguments", None, None),
        ("Decode batch. #running-req: 1", "noise", None, None),
        ("Prefill batch [12], #new-seq: 1", "noise", None, None),
        ('INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK', "noise", None, None),
        ("Capture cuda graph bs [1, 2, 4]", "harmless", None, None),
        ("Capture cuda graph num tokens [4, 8]", "harmless", None, None),
        ("Ignore import error when loading x.y: No module named 'z'", "harmless", None, None),
        ("RuntimeError: anything", "failure", None, None),
        ("huggingface_hub.errors.RepositoryNotFoundError: 404", "failure", None, None),
    ],
)
def test_sglangs_lines_are_known(text: str, kind: str, phase: str | None, role: str | None) -> None:
    assert kind_of(text) == (kind, phase, role)


@pytest.mark.parametrize(
    ("bar", "phase", "done"),
    [
        (
            "Loading safetensors checkpoint shards:  44% Completed | 28/64 [00:11<00:14,  2.45it/s]",
            "weights",
            "28",
        ),
        ("Multi-thread loading shards: 100% Completed | 64/64 [02:32<00:00,  2.3s/it]", "weights", "64"),
        ("Loading pt checkpoint shards:   0% Completed | 0/1 [00:00<?, ?it/s]", "weights", "0"),
        (
            "Loading safetensors using Fastsafetensor loader:  50%|##   | 1/2 [00:01<00:01,  1.0it/s]",
            "weights",
            "1",
        ),
        (
            "Capturing batches (bs=160 avail_mem=8.01 GB):  12%|#2  | 3/24 [00:05<00:35,  1.67s/it]",
            "graphs",
            "3",
        ),
        ("Capturing batches (avail_mem=9.91 GB):   0%|    | 0/23 [00:00<?, ?it/s]", "graphs", "0"),
        (
            "Compiling num tokens (num_tokens=8192):   2%|\u258f  | 1/58 [00:03<03:46,  3.98s/it]",
            "graphs",
            "1",
        ),
        ("  0%|          | 0/23 [00:00<?, ?it/s]", "graphs", "0"),
        ("100%|##########| 2/2 [00:25<00:00, 12.92s/it]", "graphs", "2"),
        ("DeepGEMM warmup:  25%|##5  | 4/16 [00:03<00:09,  1.2it/s]", "compile", "4"),
    ],
)
def test_sglangs_bars_are_known(bar: str, phase: str, done: str) -> None:
    hit = SGLANG.read(bar)
    assert hit is not None
    assert hit.phase is not None
    assert (hit.kind, hit.phase.id, hit.bar[0]) == (Kind.PROGRESS, phase, int(done))


def test_patience_is_kept_as_written() -> None:
    assert SGLANG.patience_of("compile") == timedelta(minutes=30)
    assert isinstance(SGLANG, EngineFile)


def test_what_prints_beside_any_engine_is_known_to_an_operators_own_file_too(tmp_path: Path) -> None:
    engine = load_engine(write(tmp_path, SMALL))
    hit = engine.read("Fatal Python error: Segmentation fault")
    assert hit is not None
    assert (hit.kind, hit.rule.fatal) == (Kind.FAILURE, True)
    harmless = engine.read("x.py:9: UserWarning: no")
    assert harmless is not None
    assert harmless.kind is Kind.HARMLESS
    ready = engine.read("up")
    assert ready is not None
    assert ready.kind is Kind.READY


def test_auto_is_no_engine_but_can_be_loaded() -> None:
    assert "auto" not in load_engines()
    auto = load_engine("auto")
    assert auto.patience_of("process") == timedelta(minutes=15)
    hit = auto.read("RuntimeError: CUDA error: no")
    assert hit is not None
    assert hit.kind is Kind.FAILURE


def test_the_guide_knows_the_keys_of_an_engine_of_ones_own() -> None:
    guide = (ROOT / "docs" / "operators.md").read_text()
    own = guide.partition("**An engine of your own**")[2].partition("\n## ")[0]
    keys = {*EngineFile.model_fields, *Arguments.model_fields, *Frame.model_fields}
    assert [key for key in keys if not re.search(rf"`{key}`|^\[*{key}\b", own, re.MULTILINE)] == []

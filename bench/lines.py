"""A journal as a host with eight GPUs writes it: starts of SGLang, each followed by requests it serves."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVED = 7_500  # lines of requests behind the lines of a start, which are about 2,500
RANKS = 8
SHARDS = 64
GRAPHS = 36
UNIT = "sglang-kimi.service"

_BOOT = f"{11:032x}"
_BEGAN = datetime(2026, 5, 29, 23, 49, 47, tzinfo=UTC)
_GAP = timedelta(milliseconds=210)  # between two lines; a start with its requests takes half an hour
_MANAGER = 0  # as a process: not one of the unit's
_MAIN = 9

_Said: TypeAlias = tuple[int, str]  # the rank, or one of the processes above; the text behind the stamp
_DISTRIBUTED = (
    "Init torch distributed begin.",
    "sglang is using nccl==2.27.5",
    "Init torch distributed ends. elapsed={s:.2f} s, mem usage=1.{n:02d} GB",
    "Ignore import error when loading sglang.srt.models.glm4v: cannot import name 'Glm4v'",
    "Detected fp8 checkpoint.",
)
_MEMORY = (
    "Using KV cache dtype: torch.bfloat16",
    "KV Cache is allocated. #tokens: {m}, KV size: 34.{n:02d} GB",
    "Memory pool end. avail mem={s:.2f} GB",
)
_NCCL = "llm-two:{p}:{m} [{r}] NCCL INFO Channel {n:02d}/24 : {r}[{r}] -> {b}[{b}] via P2P/CUMEM/read"
_SHARD = (
    "\rLoading safetensors checkpoint shards: {share:3d}% Completed "
    "| {n}/{of} [00:{n:02d}<00:{left:02d},  2.4{d}it/s]"
)
_GRAPH = (
    "\rCapturing batches (bs={bs} avail_mem=8.{n:02d} GB): {share:3d}%|####      "
    "| {n}/{of} [00:{n:02d}<00:{left:02d},  1.1{d}it/s]"
)
_DECODE = (
    "Decode batch, #running-req: {n}, #token: {m}, token usage: 0.{n:02d}, cuda graph: True, "
    "gen throughput (token/s): {m}.45, #queue-req: 0, "
)
_PREFILL = (
    "Prefill batch, #new-seq: 1, #new-token: {m}, #cached-token: {n}, token usage: 0.{n:02d}, "
    "#running-req: {n}, #queue-req: 0, "
)
_SERVING = (
    _DECODE,
    'INFO:     10.0.4.{n}:{m} - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    _PREFILL,
    'INFO:     10.0.4.{n}:{m} - "GET /health HTTP/1.1" 200 OK',
    "Tool call {n} of request 5f{m:x} has arguments that are no JSON, passed on as text",
)
_WEIGHTS = (45, 35, 15, 4, 1)
_TRACEBACK = (
    "ERROR:    Exception in ASGI application",
    "Traceback (most recent call last):",
    '  File "/opt/env/site-packages/uvicorn/protocols/http/httptools_impl.py", line 409, in run_asgi',
    "    result = await app(",
    '  File "/opt/env/site-packages/sglang/srt/entrypoints/http_server.py", line {n}, in generate',
    "    async for out in stream:",
    "ValueError: The input ({m} tokens) is longer than the model's context length (262144 tokens).",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the journal."""

    number: int
    run: int
    process: int
    message: str

    @property
    def breaks(self) -> str:
        """A bar ends in no newline, so the next rank that writes cuts its line; more of it comes later."""
        return "pid-change" if "Capturing" in self.message and "100%" not in self.message else ""

    @property
    def micros(self) -> int:
        return int(_BEGAN.timestamp()) * 1_000_000 + self.number * (_GAP // timedelta(microseconds=1))

    def as_json(self) -> bytes:
        """As `journalctl -o json --all` prints it."""
        raw = self.message.encode()
        shown = json.dumps(self.message if self.message.isprintable() else list(raw), separators=(",", ":"))
        head = (
            f'{{"__CURSOR":"s={1:032x};i={self.number:x};b={_BOOT};m={self.number:x};t={self.micros:x};'
            f'x={self.number * 7919:x}","__REALTIME_TIMESTAMP":"{self.micros}",'
            f'"__MONOTONIC_TIMESTAMP":"{self.number}",'
        )
        broken = f'"_LINE_BREAK":"{self.breaks}",' if self.breaks else ""
        return f'{head}{_fields(self.run, self.process)[0]}{broken}"MESSAGE":{shown}}}\n'.encode()

    def as_export(self) -> bytes:
        """As systemd-journal-remote takes it in."""
        raw = self.message.encode()
        head = f"__REALTIME_TIMESTAMP={self.micros}\n__MONOTONIC_TIMESTAMP={self.number}\n".encode()
        head += f"_LINE_BREAK={self.breaks}\n".encode() if self.breaks else b""
        sized = b"MESSAGE\n" + len(raw).to_bytes(8, "little") + raw
        return head + _fields(self.run, self.process)[1].encode() + sized + b"\n\n"


@lru_cache(64)
def _fields(run: int, process: int) -> tuple[str, str]:
    """What the lines of a process share: as JSON, and in the export format."""
    invocation = f"{run + 1:032x}"
    if process == _MANAGER:
        fields = {"_PID": "1", "_COMM": "systemd", "SYSLOG_IDENTIFIER": "systemd", "_TRANSPORT": "journal"}
        fields |= {
            "UNIT": UNIT,
            "INVOCATION_ID": invocation,
            "MESSAGE_ID": "39f53479d3a045ac8e11786248231fbf",
        }
    else:
        fields = {
            "_PID": str(pid_of(run, process)),
            "_COMM": "sglang::schedul",
            "SYSLOG_IDENTIFIER": "python3",
        }
        fields |= {"_TRANSPORT": "stdout", "_STREAM_ID": f"{run * 16 + 7:032x}", "_SYSTEMD_UNIT": UNIT}
        fields |= {"_SYSTEMD_INVOCATION_ID": invocation}
    fields |= {"_BOOT_ID": _BOOT, "PRIORITY": "6", "_HOSTNAME": "llm-two"}
    as_json = "".join(f'"{name}":"{value}",' for name, value in fields.items())
    return as_json, "".join(f"{name}={value}\n" for name, value in fields.items())


def pid_of(run: int, process: int) -> int:
    return 40_000 + run * 16 % 3_000_000 + process


def write_journal(*, served: int = SERVED) -> Iterator[Entry]:
    """Entries without end, the same every time: one start after the other with `served` lines of requests."""
    numbers = count()
    for run in count():
        chosen = random.Random(run)  # noqa: S311 (the same journal every time)
        for process, text in _run(run, chosen, served):
            number = next(numbers)
            yield Entry(number, run, process, _stamped(number, process, text))


def _stamped(number: int, process: int, text: str) -> str:
    if process == _MANAGER or text[0] in "\r \n" or "NCCL" in text or text.startswith(("Trace", "Value")):
        return text
    tag = "" if process == _MAIN else f" TP{process - 1}"
    return f"[{_clock(number * _GAP // timedelta(seconds=1))}{tag}] {text}"


@lru_cache(64)
def _clock(seconds: int) -> str:
    return (_BEGAN + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")


def _run(run: int, chosen: random.Random, served: int) -> Iterator[_Said]:
    yield _MANAGER, f"Started {UNIT} - Kimi on eight GPUs."
    yield _MAIN, _arguments(run)
    yield from _each_rank(_DISTRIBUTED, run, chosen)
    for each in range(192):
        rank = each % RANKS
        told = _NCCL.format(
            p=pid_of(run, rank + 1), m=50_000 + each, r=rank, b=(rank + 1) % RANKS, n=each % 24
        )
        yield rank + 1, told
    for role in ("KimiK25ForConditionalGeneration", "DeepseekV3ForCausalLMNextN"):
        yield from _model(role, run, chosen)
    yield (
        1,
        f"max_total_num_tokens={chosen.randrange(200_000, 300_000)}, chunked_prefill_size=8192",
    )
    yield _MAIN, f"INFO:     Started server process [{pid_of(run, _MAIN)}]"
    yield _MAIN, "INFO:     Waiting for application startup."
    yield _MAIN, "INFO:     Application startup complete."
    yield _MAIN, "INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)"
    yield 1, "Prefill batch, #new-seq: 1, #new-token: 7, #cached-token: 0, token usage: 0.00, "
    yield _MAIN, "The server is fired up and ready to roll!"
    yield from _serve(chosen, served)


def _model(role: str, run: int, chosen: random.Random) -> Iterator[_Said]:
    yield from _each_rank(("Load weight begin. avail mem=78.{n:02d} GB",), run, chosen)
    for done in range(SHARDS + 1):
        yield 1, _bar(_SHARD, done, SHARDS)
        for rank in range(1, RANKS + 1):  # loaders tell what they do beside the bar
            yield rank, f"Rank {rank - 1}: prefetching shard {done} of {SHARDS} into the page cache"
    yield from _each_rank(
        (f"Load weight end. elapsed={{s:.2f}} s, type={role}, mem usage=73.{{n:02d}} GB.",), run, chosen
    )
    yield from _each_rank(_MEMORY, run, chosen)
    yield from _each_rank(
        ("Capture cuda graph begin. This can take up to several minutes. avail mem=8.{n:02d} GB",),
        run,
        chosen,
    )
    for done in range(GRAPHS + 1):
        yield 1, _bar(_GRAPH, done, GRAPHS)
        for rank in range(2, RANKS + 1):
            yield rank, f"Registering {chosen.randrange(100, 9_999)} cuda graph addresses"
    yield from _each_rank(
        ("Capture cuda graph end. Time elapsed: {s:.2f} s. mem usage=2.{n:02d} GB.",), run, chosen
    )


def _each_rank(forms: tuple[str, ...], run: int, chosen: random.Random) -> Iterator[_Said]:
    for form in forms:
        for rank in range(1, RANKS + 1):
            n, m = chosen.randrange(64), chosen.randrange(1_000, 60_000)
            yield rank, form.format(n=n, m=m, s=chosen.uniform(1, 90), r=rank, p=pid_of(run, rank))


def _bar(form: str, done: int, whole: int) -> str:
    left = min(59, whole - done)
    return form.format(
        n=done, of=whole, share=100 * done // whole, left=left, d=done % 10, bs=8 * (whole - done)
    )


def _serve(chosen: random.Random, served: int) -> Iterator[_Said]:
    for number in range(served):
        n, m = chosen.randrange(64), chosen.randrange(1_000, 60_000)
        if number % 2_500 == 2_000:  # noqa: PLR2004 (a request that fails now and then)
            yield from ((_MAIN, text.format(n=n, m=m)) for text in _TRACEBACK)
        form = chosen.choices(_SERVING, _WEIGHTS)[0]
        yield (1 if "batch" in form else _MAIN), form.format(n=n, m=m)


def _arguments(run: int) -> str:
    told = ", ".join(f"option_{at}={None if at % 3 else at}" for at in range(500))
    return (
        f"server_args=ServerArgs(model_path='/models/kimi', tp_size={RANKS}, port=30000, "
        f"api_key='k-{run:016x}', speculative_algorithm='EAGLE', {told})"
    )

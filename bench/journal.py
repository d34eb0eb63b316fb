"""Decoding and redaction of a journal, as a multiple of parsing its JSON alone."""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from typing import TYPE_CHECKING

from bot.core.journal import Decoder
from bot.core.redact import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable

LINES = 200_000
REPEATS = 5
CHUNK = 64 << 10  # bytes, as they come over SSH
GOAL = 2.5

_MESSAGES = (
    "Decode batch, #running-req: {n}, #token: {m}, token usage: 0.{n:02d}, gen throughput (token/s): {m}.45",
    "Prefill batch, #new-seq: 1, #new-token: {m}, token usage: 0.00, input throughput (token/s): {m}.34",
    'INFO:     127.0.0.1:{m} - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "Load weight end. elapsed={m}.49 s, type=KimiK25ForConditionalGeneration, mem usage=73.01 GB.",
    "Capture cuda graph begin. This can take up to several minutes. avail mem=8 GB",
    "max_total_num_tokens={m}, chunked_prefill_size=8192, context_len=262144",
    "Uvicorn running on http://0.0.0.0:{m} (Press CTRL+C to quit)",
)
_BAR = "\rLoading safetensors checkpoint shards:  {n}% Completed | {n}/64 [00:11<00:14,  2.45it/s]"
_SERVER_ARGS = "server_args=ServerArgs(model_path='/models/kimi', api_key='k-{m}-{n}', "


def main() -> int:
    data = b"".join(_entry(number) for number in range(LINES))
    lines = data.splitlines()
    parse = _median(lambda: [json.loads(line) for line in lines])
    decode = _median(lambda: _decode(data))
    ratio = decode / parse
    sys.stdout.write(
        f"{LINES:,} lines, {len(data) / 1e6:.0f} MB: json.loads {parse:.2f}s, "
        f"decode and redact {decode:.2f}s, ratio {ratio:.2f} (goal {GOAL})\n"
    )
    return 0


def _entry(number: int) -> bytes:
    chosen = random.Random(number)  # noqa: S311 (the same journal every time)
    n, m = chosen.randrange(64), chosen.randrange(1_000, 60_000)
    message: object = chosen.choice(_MESSAGES).format(n=n, m=m)
    message = f"[2026-05-29 23:49:47 TP{n % 8}] {message}"
    if number % 50 == 0:
        message = list(_BAR.format(n=n).encode())
    elif number % 5_000 == 1:
        message = _SERVER_ARGS.format(n=n, m=m) + ", ".join(f"option_{at}=None" for at in range(500)) + ")"
    fields = {
        "__CURSOR": f"s={1:032x};i={number:x};b={0:032x};m={number:x};t={number:x};x={number:x}",
        "__REALTIME_TIMESTAMP": str(1_780_098_587_123_456 + number),
        "__MONOTONIC_TIMESTAMP": str(number),
        "_BOOT_ID": f"{0:032x}",
        "PRIORITY": "6",
        "SYSLOG_IDENTIFIER": "python3",
        "_TRANSPORT": "stdout",
        "_STREAM_ID": f"{n:032x}",
        "_PID": str(40_000 + n % 10),
        "_COMM": "sglang::schedul",
        "_HOSTNAME": "llm-two",
        "_SYSTEMD_UNIT": "sglang-kimi.service",
        "_SYSTEMD_INVOCATION_ID": f"{7:032x}",
        "MESSAGE": message,
    }
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _decode(data: bytes) -> None:
    decoder = Decoder(Redactor(["the-key-of-this-service"]))
    for at in range(0, len(data), CHUNK):
        decoder.feed(data[at : at + CHUNK])


def _median(work: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main())

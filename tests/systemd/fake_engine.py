"""An engine as the journal sees one: eight rank processes, carriage-return bars, and HTTP that opens late.

Runs inside the real host, with nothing but Python's own library: `fake_engine.py SCENARIO.json`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar, NoReturn

DEFAULTS: dict[str, Any] = {
    "port": 30000,
    "model": "kimi-k2.5",
    "api_key": "kimi-seeded-secret-0123456789",
    "ranks": 8,
    "shards": 64,
    "draft": False,
    "crash": None,  # phase: rank 3 raises in it
    "hang": None,  # [phase, rank]: that rank never ends that phase
    "long_line": 0,  # characters of one line printed before the ranks start
    "seconds": {"distributed": 0.2, "weights": 1.3, "memory": 0.1, "graphs": 0.4, "warmup": 0.5, "stop": 0},
}
CRASHES = 3  # the rank
SCENARIOS: dict[str, dict[str, Any]] = {
    "healthy": {},
    "draft": {"draft": True},
    "long-line": {"long_line": 120_000},
    "hang-in-graphs": {"hang": ["graphs", 5]},
    "slow": {"seconds": {**DEFAULTS["seconds"], "weights": 20.0}},
}


def long_text(length: int) -> str:
    """Text of which every part is different, so that a lost or doubled piece shows."""
    return "".join(f"{number:07d}." for number in range(length // 8 + 1))[:length]


def say(text: str, rank: int | None = None) -> None:
    tag = "" if rank is None else f" TP{rank}"
    write(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}{tag}] {text}\n")


def write(text: str) -> None:
    """To standard error, unbuffered, as engines do."""
    left = text.encode()
    while left:
        left = left[os.write(2, left) :]


def bar(done: int, total: int, since: float) -> str:
    """A weight bar as tqdm draws it with a line feed at the end of its format."""
    spent = time.monotonic() - since
    rate = done / spent if done else 0.0
    left = (total - done) / rate if rate else 0.0
    speed = f"{rate:5.2f}it/s" if rate else "?it/s"
    times = f"{_clock(spent)}<{_clock(left) if rate else '?'}, {speed}"
    percent = f"{done * 100 // total:3d}% Completed"
    return f"\rLoading safetensors checkpoint shards: {percent} | {done}/{total} [{times}]\n"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


class Ranks:
    """Forked processes, so that the journal's `_PID` differs; each does a phase when told."""

    def __init__(self, scenario: dict[str, Any]) -> None:
        self._links: list[socket.socket] = []
        for rank in range(scenario["ranks"]):
            ours, theirs = socket.socketpair()
            if os.fork() == 0:
                serve_rank(rank, theirs, scenario)
            theirs.close()
            self._links.append(ours)

    def run(self, phase: str) -> None:
        for link in self._links:
            link.sendall(phase.encode() + b"\n")
        for link in self._links:
            if link.recv(1) != b".":
                time.sleep(0.2)  # where all are told to end at once, this process's own signal comes first
                say("A rank is gone.")
                sys.exit(1)


def serve_rank(rank: int, link: socket.socket, scenario: dict[str, Any]) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    set_title(f"sglang::scheduler_TP{rank}")
    for line in link.makefile():
        phase = line.strip()
        seconds = scenario["seconds"][phase]
        PHASES[phase](rank, seconds, scenario)
        link.sendall(b".")
    os._exit(0)


def set_title(title: str) -> None:
    """Write the title over this process's own command line, as engines have theirs written."""
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(stat[45]), int(stat[46])  # where the command line lies in memory
    with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(title.encode()[: end - start - 1].ljust(end - start, b"\0"))


def distributed(rank: int, seconds: float, scenario: dict[str, Any]) -> None:
    say("Init torch distributed begin.", rank)
    time.sleep(seconds)
    hang_if_told("distributed", rank, scenario)
    say("Init torch distributed ends. mem usage=1.24 GB", rank)


def weights(rank: int, seconds: float, scenario: dict[str, Any]) -> None:
    say("Load weight begin. avail mem=138.02 GB", rank)
    if rank:
        time.sleep(seconds)
    else:
        draw_bar(seconds, scenario["shards"])
    hang_if_told("weights", rank, scenario)
    say(
        "Load weight end. type=KimiK25ForConditionalGeneration, dtype=torch.bfloat16, "
        "avail mem=62.41 GB, mem usage=75.61 GB.",
        rank,
    )


def draw_bar(seconds: float, shards: int) -> None:
    since = time.monotonic()
    for done in range(shards + 1):
        write(bar(done, shards, since))
        time.sleep(seconds / (shards + 1))


def memory(rank: int, seconds: float, scenario: dict[str, Any]) -> None:
    time.sleep(seconds)
    hang_if_told("memory", rank, scenario)
    say("KV Cache is allocated. #tokens: 412160, KV size: 27.02 GB", rank)
    say("Memory pool end. avail mem=34.90 GB", rank)


def graphs(rank: int, seconds: float, scenario: dict[str, Any]) -> None:
    say("Capture cuda graph begin. This can take up to several minutes. avail mem=34.12 GB", rank)
    time.sleep(seconds)
    hang_if_told("graphs", rank, scenario)
    say(
        f"Capture cuda graph end. Time elapsed: {seconds:.2f} s. mem usage=2.13 GB. avail mem=31.99 GB.", rank
    )


def hang_if_told(phase: str, rank: int, scenario: dict[str, Any]) -> None:
    while scenario["hang"] == [phase, rank]:
        time.sleep(3600)
    if scenario["crash"] == phase and rank == CRASHES:
        say("Scheduler hit an exception: Traceback (most recent call last):", rank)
        write('  File "/opt/engine/scheduler.py", line 341, in __init__\n    self.init_model_worker()\n')
        write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n\n")
        os._exit(1)


PHASES = {"distributed": distributed, "weights": weights, "memory": memory, "graphs": graphs}


class Answers(BaseHTTPRequestHandler):
    """`/v1/models` as soon as the port is open, `/health` only once warm."""

    protocol_version = "HTTP/1.1"
    scenario: ClassVar[dict[str, Any]] = {}
    warm: ClassVar[bool] = False

    def log_message(self, *_: object) -> None:
        """Say nothing; access lines are written by `_answer` in the engine's own form."""

    def do_GET(self) -> None:
        if self.path == "/health":
            self._answer(200 if self.warm else 503, b"")
        elif self.path == "/v1/models":
            models = {"object": "list", "data": [{"id": self.scenario["model"], "object": "model"}]}
            self._answer(200, json.dumps(models).encode())
        else:
            self._answer(404, b'{"detail":"Not Found"}')

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        if self.path != "/v1/chat/completions":
            self._answer(404, b'{"detail":"Not Found"}')
            return
        self._begin(200, "text/event-stream", ("Connection", "close"))
        for event in completion(asked):
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
            time.sleep(0.01)  # a token each
        self.wfile.write(b"data: [DONE]\n\n")

    def _answer(self, status: int, body: bytes) -> None:
        self._begin(status, "application/json", ("Content-Length", str(len(body))))
        self.wfile.write(body)

    def _begin(self, status: int, kind: str, header: tuple[str, str]) -> None:
        say(f'INFO:     127.0.0.1:{self.client_address[1]} - "{self.command} {self.path} HTTP/1.1" {status}')
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header(*header)
        self.end_headers()


def completion(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The chunks of one streamed answer: reasoning, then words, or a call of the tool that was offered."""
    deltas: list[dict[str, Any]] = [{"role": "assistant"}, {"reasoning_content": "A short answer will do."}]
    if asked.get("tools"):
        function = {"name": asked["tools"][0]["function"]["name"], "arguments": "{}"}
        deltas.append(
            {"tool_calls": [{"index": 0, "id": "call_0", "type": "function", "function": function}]}
        )
    else:
        deltas += [{"content": word} for word in ("def ", "quicksort(items): ", "return ", "sorted(items)")]
    chunks: list[dict[str, Any]] = [{"delta": delta, "index": 0, "finish_reason": None} for delta in deltas]
    chunks.append({"delta": {}, "index": 0, "finish_reason": "stop"})
    return [{"model": asked.get("model"), "choices": [chunk]} for chunk in chunks]


def open_http(scenario: dict[str, Any]) -> None:
    Answers.scenario = scenario
    say(f"INFO:     Started server process [{os.getpid()}]")
    say("INFO:     Waiting for application startup.")
    say("INFO:     Application startup complete.")
    try:
        server = ThreadingHTTPServer(("127.0.0.1", scenario["port"]), Answers)
    except OSError as error:
        address = ("127.0.0.1", scenario["port"])
        say(
            f"ERROR:    [Errno {error.errno}] error while attempting to bind on address {address}: "
            f"{str(error.strerror).lower()}"
        )
        sys.exit(1)
    say(f"INFO:     Uvicorn running on http://127.0.0.1:{scenario['port']} (Press CTRL+C to quit)")
    Thread(target=server.serve_forever, daemon=True).start()


def stop(seconds: float) -> NoReturn:
    time.sleep(seconds)
    os._exit(0)


def start(scenario: dict[str, Any]) -> NoReturn:
    signal.signal(signal.SIGTERM, lambda *_: stop(scenario["seconds"]["stop"]))
    model, key, ranks = scenario["model"], scenario["api_key"], scenario["ranks"]
    say(f"server_args=ServerArgs(model_path='/models/{model}', api_key='{key}', tp_size={ranks})")
    if scenario["long_line"]:
        write(long_text(scenario["long_line"]) + "\n")
    ranks = Ranks(scenario)
    rounds = 2 if scenario["draft"] else 1
    for phase in ("distributed", "weights", "memory", "graphs") * rounds:
        ranks.run(phase)
    open_http(scenario)
    time.sleep(scenario["seconds"]["warmup"])
    Answers.warm = True
    say("The server is fired up and ready to roll!")
    while True:
        signal.pause()


if __name__ == "__main__":
    start({**DEFAULTS, **json.loads(Path(sys.argv[1]).read_text())})

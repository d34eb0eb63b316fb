from __future__ import annotations

import io
import json
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bot.replay import replay

if TYPE_CHECKING:
    from bot.core.outcome import Outcome

FILE = Path(__file__).parents[1] / "support" / "engine_logs.toml"
DATA: dict[str, list[dict[str, Any]]] = tomllib.loads(FILE.read_text(encoding="utf-8"))
STARTS: dict[str, list[dict[str, str]]] = {each["name"]: each["station"] for each in DATA["start"]}
HOUR = timedelta(hours=1)


def run(log: str, *, engine: str = "auto", idle: timedelta | None = None) -> Outcome:
    return replay(io.BytesIO(log.encode()), engine=engine, idle=idle)


def healthy(name: str, *, until: str = "ready") -> str:
    """The log of that start up to and with the first station that stands in that phase."""
    log = ""
    for station in STARTS[name]:
        log += station["lines"]
        if station["phase"] == until:
            break
    return log


@pytest.mark.parametrize("name", STARTS)
def test_each_engine_is_followed_station_by_station(name: str) -> None:
    log, (engine, *_) = "", name.split(maxsplit=1)
    for station in STARTS[name]:
        log += station["lines"]
        outcome = run(log)
        assert outcome.engine == engine
        assert outcome.phase == station["phase"]
        assert outcome.state == ("ready" if station["phase"] == "ready" else "starting")
        assert outcome.cause is None
        assert outcome.unrecognised <= 1


@pytest.mark.parametrize("name", STARTS)
def test_a_start_that_stands_still_is_stalled_where_it_stands(name: str) -> None:
    for station in STARTS[name][1:-1]:
        outcome = run(healthy(name, until=station["phase"]), idle=2 * HOUR)
        assert (outcome.state, outcome.phase) == ("stalled", station["phase"])


def told(log: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(json.dumps(run(log).to_json()))
    return told


@pytest.mark.parametrize(
    "case", DATA["failure"], ids=lambda case: f"{case['name']}, {case['until']}, {case['cause']}"
)
def test_an_engines_failure_is_named(case: dict[str, str]) -> None:
    outcome = told(healthy(case["name"], until=case["until"]) + case["lines"])
    assert (outcome["state"], outcome["phase"]) == ("failed", case["phase"])
    assert outcome["cause"]["id"] == case["cause"]


@pytest.mark.parametrize(
    "text",
    [
        "(EngineCore pid=2) INFO 05-29 23:50:01 [shm.py:9] No available shared memory broadcast block found",
        "/usr/lib/python3.12/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 1",
        "(Worker_TP0 pid=3) WARNING 05-29 23:50:02 [op.py:241] Priority not set for op rms_norm",
        "[W529 23:50:03.1 socket.cpp:1] The client socket has failed to connect to [host]:29500",
        "kernel: Out of memory: Killed process 9 (java) total-vm:1kB",
        "kernel: NVRM: Xid (PCI:0000:4e:00): 43, pid=9, name=other",
    ],
)
def test_harmless_alarms_stay_harmless(text: str) -> None:
    outcome = run(healthy("vllm 0.19", until="graphs") + text + "\n")
    assert (outcome.state, outcome.phase) == ("starting", "graphs")


ROUTER = "2026-02-26 13:55:38  INFO {}::server: src/server.rs:794: "
OLD_ROUTER = "[Router (Rust)] 2026-02-26 13:55:38 - INFO - "


@pytest.mark.parametrize("crate", ["sglang_router_rs", "smg"])
def test_a_router_alone_is_ready_when_it_listens(crate: str) -> None:
    stamp = ROUTER.format(crate)
    log = f'{stamp}Starting router on 0.0.0.0:8000 | mode: Regular {{ worker_urls: ["http://w:1"] }}\n'
    outcome = run(log)
    assert (outcome.engine, outcome.state, outcome.phase) == ("sglang", "starting", "server")
    log += f"{stamp}Initializing workers for routing mode: Regular\n"
    assert run(log).phase == "warmup"
    for told in ('Router ready | workers: ["http://w:1"]', "Starting server on 0.0.0.0:8000"):
        assert run(f"{log}{stamp}{told}\n").state == "ready"


@pytest.mark.parametrize("told", ["Starting server on 0.0.0.0:1", "Router ready | workers: []"])
def test_a_router_does_not_speak_for_an_engine_in_the_same_log(told: str) -> None:
    log = "[2026-10-01 10:00:18] server_args=ServerArgs(model_path='/m', tp_size=2)\n"
    router = ROUTER.format("smg")
    assert run(f"{log}{router}{told}\n").state == "starting"
    log += "[2026-10-01 10:00:19 TP0] Load weight begin. avail mem=78.00 GB\n"
    log += f"{router}Starting router on 0.0.0.0:1\n{router}Waiting for workers\n{router}{told}\n"
    outcome = run(log)
    assert (outcome.state, outcome.phase) == ("starting", "weights")
    quoted = "text='Timeout 9s waiting for workers to become healthy'"
    assert run(f"{log}[2026-10-01 10:00:19] Received: {quoted}\n").state == "starting"


def test_an_engine_that_starts_behind_its_router_is_starting() -> None:
    log = f"{ROUTER.format('smg')}Starting server on 0.0.0.0:1\n"
    log += "[2026-10-01 10:00:19 TP0] Load weight begin. avail mem=78.00 GB\n"
    outcome = run(log)
    assert (outcome.state, outcome.phase) == ("starting", "weights")
    assert run(f"{log}[2026-10-01 10:00:29] The server is fired up and ready to roll!\n").state == "ready"


def test_an_older_router_waits_for_its_workers() -> None:
    log = f"{OLD_ROUTER}🚧 Initializing router on 127.0.0.1:1\n{OLD_ROUTER}🚧 Initializing workers on ['http://w']\n"
    log += f"{OLD_ROUTER}Worker http://w health check is pending with error: error sending request\n"
    outcome = run(log, idle=HOUR)
    assert (outcome.engine, outcome.state, outcome.phase, outcome.unrecognised) == (
        "sglang",
        "stalled",
        "warmup",
        0,
    )
    log += f"{OLD_ROUTER}All workers are healthy\n"
    assert run(f"{log}{OLD_ROUTER}✅ Serving router on 127.0.0.1:1\n").state == "ready"
    failed = run(
        f"{log}ValueError: Failed to create router: Timeout 300s waiting for workers to become healthy\n"
    )
    assert (failed.state, failed.cause and failed.cause.id) == ("failed", "router-workers")


def test_a_server_of_granian_that_listens_is_warmed_up() -> None:
    log = "[2026-10-01 10:00:18] max_total_num_tokens=9, chunked_prefill_size=8\n"
    log += "[INFO] Starting granian (main PID: 7)\n"
    assert run(log).phase == "server"
    assert run(f"{log}[INFO] Listening at: http://0.0.0.0:30000\n").phase == "warmup"


def test_triton_that_quotes_its_lines_is_recognised_by_what_it_loads() -> None:
    stamp = "0529 23:49:10.123456 117 model_lifecycle.cc"
    outcome = run(
        f'I{stamp}:473] "loading: tensorrt_llm:1"\n'
        f"E{stamp}:654] \"failed to load 'tensorrt_llm' version 1: Invalid argument: no backend library\"\n"
        f"I{stamp}:789] \"failed to load 'tensorrt_llm'\"\n"
        "error: creating server: Internal - failed to load all models\n"
    )
    assert (outcome.engine, outcome.state) == ("trtllm", "failed")
    assert outcome.cause is not None
    assert outcome.cause.evidence[0].startswith("failed to load 'tensorrt_llm' version 1")

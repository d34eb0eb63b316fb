"""Saved logs of vLLM with several cores, behind the first node, and with a draft model."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from bot.replay import replay

if TYPE_CHECKING:
    from bot.core.outcome import Outcome

HOUR = timedelta(hours=1)


def run(*lines: str, engine: str = "auto", idle: timedelta | None = None) -> Outcome:
    return replay(io.BytesIO("".join(f"{line}\n" for line in lines).encode()), engine=engine, idle=idle)


def core(number: int, text: str, at: str = "23:50:00") -> str:
    return f"(EngineCore_DP{number} pid={70 + number}) INFO 05-29 {at} [core.py:77] {text}"


def worker(tags: str, text: str, at: str = "23:50:00", pid: int = 9) -> str:
    return f"(Worker_{tags} pid={pid}) INFO 05-29 {at} [gpu_model_runner.py:26] {text}"


LOADS = "Starting to load model m..."
LOADED = "Model loading took 85.12 GiB and 130.15 seconds"
FREE = "Available KV cache memory: 50.1 GiB"
CACHE = "GPU KV cache size: 398,000 tokens"
GRAPHS = "Graph capturing finished in 7 secs, took 0.61 GiB"
DONE = "init engine (profile, create kv cache, warmup model) took 44.1 seconds"
READY = "(APIServer pid=1) INFO:     Application startup complete."


def test_the_core_that_still_loads_is_named() -> None:
    log = [core(0, LOADS), core(1, LOADS), core(0, LOADED, "23:52:00")]
    outcome = run(*log, idle=HOUR)
    assert (outcome.state, outcome.phase) == ("stalled", "weights")
    assert outcome.to_json()["ranks"] == {"DP0": "weights", "DP1": "weights"}
    assert outcome.lagging == ("DP1",)
    assert run(*log, core(1, LOADED, "23:53:00")).phase == "compile"


def test_one_core_that_is_done_does_not_make_the_others_be() -> None:
    log = [core(0, LOADS), core(1, LOADS), core(0, LOADED), core(0, CACHE), core(0, GRAPHS), core(0, DONE)]
    outcome = run(*log)
    assert (outcome.state, outcome.phase, outcome.lagging) == ("starting", "weights", ("DP1",))
    assert run(*log, core(1, LOADED)).phase == "compile"  # where the last one is, unsaid
    assert run(*log, core(1, LOADED), core(1, DONE)).phase == "server"
    assert run(*log, READY).state == "ready"


def test_one_core_alone_is_what_it_was() -> None:
    log = [core(0, LOADS), core(0, LOADED), core(0, CACHE), core(0, DONE)]
    outcome = run(*log)
    assert (outcome.phase, outcome.to_json()["ranks"]) == ("server", {"main": "server"})
    with_workers = run(core(0, "Initializing a V1 LLM engine (v0.11.0)"), worker("TP0", LOADS), core(0, DONE))
    assert with_workers.to_json()["ranks"] == {"TP0": "weights"}


@pytest.mark.parametrize(
    "form", ["Worker_DP{}_TP{}_EP0 pid={}", "EngineCore_{} pid=7) (VllmWorker TP{} pid={}"]
)
def test_ranks_under_cores_are_told_apart(form: str) -> None:
    def tell(dp: int, tp: int, text: str) -> str:
        return f"({form.format(dp, tp, 10 * dp + tp)}) INFO 05-29 23:50:00 [core.py:1] {text}"

    both = [(0, 0), (0, 1), (1, 0), (1, 1)]
    log = [core(1, "hello")] + [tell(dp, tp, LOADS) for dp, tp in both]
    log += [tell(dp, tp, LOADED) for dp, tp in both[:3]]
    outcome = run(*log)
    assert outcome.phase == "weights"
    assert [rank.removesuffix(" EP0") for rank in outcome.lagging] == ["DP1 TP1"]
    assert len(outcome.to_json()["ranks"]) == 4


def test_a_core_speaks_for_its_own_ranks() -> None:
    tags = ["DP0_TP0", "DP0_TP1", "DP1_TP0", "DP1_TP1"]
    log = [worker(each, text) for text in (LOADS, LOADED, FREE) for each in tags]
    outcome = run(*log, core(0, CACHE))
    assert (outcome.phase, outcome.lagging) == ("memory", ("DP1 TP0", "DP1 TP1"))
    assert "DP0" not in outcome.to_json()["ranks"]
    assert run(*log, core(0, CACHE), core(1, CACHE)).phase == "graphs"
    late = run(*log, core(0, CACHE), core(1, CACHE), worker("DP0_TP0", GRAPHS), core(0, DONE))
    assert late.phase == "graphs"


def test_cores_that_call_their_workers_the_same_are_told_apart() -> None:
    """A model that needs no common step is told nothing of the other cores."""
    log = [
        "(APIServer pid=1) INFO 05-29 23:49:00 [utils.py:2] non-default args: {'data_parallel_size': 2}",
        core(0, "Initializing a V1 LLM engine (v0.20.0) with config: x"),
        worker("TP0", LOADS, pid=101),
        worker("TP0", LOADS, pid=105),
        worker("TP0", LOADED, pid=101),
        worker("TP0", FREE, pid=101),
        core(0, CACHE),
        core(0, DONE),
    ]
    outcome = run(*log)
    assert (outcome.phase, outcome.lagging) == ("weights", ("pid105 TP0",))
    log.append(worker("TP0", LOADED, pid=105))
    assert run(*log).phase == "compile"
    assert run(*log, core(1, DONE)).phase == "server"


def test_servers_are_no_cores() -> None:
    servers = [f"(ApiServer_{n} pid={n}) INFO 05-29 23:50:09 [a.py:1] Starting vLLM server" for n in (0, 1)]
    outcome = run(core(0, LOADS), core(0, LOADED), core(0, DONE), *servers)
    assert (outcome.phase, outcome.to_json()["ranks"]) == ("server", {"main": "server"})
    assert run(*servers, "(ApiServer_1 pid=1) INFO:     Application startup complete.").state == "ready"


HEADLESS = (
    "INFO 05-29 23:49:00 [serve.py:110] Launching 2 data parallel engine(s) in headless mode, with head"
)


def test_a_node_without_a_server_is_ready_when_its_cores_are_done() -> None:
    log = [HEADLESS, core(2, LOADS), core(3, LOADS), core(2, LOADED), core(2, DONE)]
    outcome = run(*log)
    assert (outcome.state, outcome.phase, outcome.lagging) == ("starting", "weights", ("DP3",))
    log += [core(3, LOADED), core(3, DONE)]
    assert run(*log).state == "ready"
    assert run(*log[1:]).state == "starting"  # nothing tells that no server will come
    alone = [core(0, LOADS), core(0, LOADED), core(0, DONE)]
    told = "INFO 05-29 23:49:00 [serve.py:9] non-default args: {'model': 'm', 'headless': True}"
    assert run(told, *alone).state == "ready"


@pytest.mark.parametrize(
    "heard",
    [
        [core(3, "Initializing a V1 LLM engine (v0.20.0) with config: x")],
        [worker("DP3_TP0", "hello")],
        [],  # nothing yet, but two were told
    ],
)
def test_a_core_that_came_to_no_phase_yet_is_waited_for(heard: list[str]) -> None:
    log = [HEADLESS, *heard, core(2, LOADS), core(2, LOADED), core(2, DONE)]
    assert run(*log).state == "starting"
    assert run(*log, core(3, DONE)).state == "ready"


def test_cores_without_a_name_are_counted() -> None:
    done = f"INFO 05-29 23:50:00 [core.py:77] {DONE}"
    assert run(HEADLESS, done).state == "starting"
    assert run(HEADLESS, done, done).state == "ready"


def test_a_node_with_workers_alone_is_ready_when_the_last_has_its_graphs() -> None:
    head = (
        "INFO 05-29 23:49:00 [serve.py:217] Launching vLLM (v0.14.0) headless multiproc executor, with head"
    )
    log = [worker(each, text) for text in (LOADS, LOADED, FREE) for each in ("TP2", "TP3")]
    assert run(head, *log, worker("TP2", GRAPHS)).state == "starting"
    assert run(head, *log, worker("TP2", GRAPHS), worker("TP3", GRAPHS)).state == "ready"
    assert run(*log, worker("TP2", GRAPHS), worker("TP3", GRAPHS)).state == "starting"


def test_workers_do_not_speak_for_cores_that_were_told() -> None:
    log = [HEADLESS, worker("TP0", LOADS), worker("TP0", LOADED), worker("TP0", GRAPHS)]
    assert run(*log).state == "starting"


def test_a_node_of_ray_has_joined() -> None:
    worker_node = [
        "Local node IP: 10.0.0.2",
        "Ray runtime started.",
        "--block",
        "This command will now block until",
    ]
    assert run(*worker_node, engine="vllm").state == "ready"
    first = "  To add another node to this Ray cluster, run"
    assert run(*worker_node[:2], first, *worker_node[2:], engine="vllm").state == "starting"
    lost = "Some Ray subprocesses exited unexpectedly:"
    assert run(*worker_node, lost, engine="vllm").state == "failed"


def old(text: str, at: str = "10:00:00", process: str = "") -> str:
    return f"{process}INFO 03-01 {at} model_runner.py:1056] {text}"


OTHER = "(VllmWorkerProcess pid=80) "
TAKEN = "Loading model weights took 65.0 GB"
ARGUMENTS = old("args: Namespace(model='/m/big', speculative_model='/m/small', num_speculative_tokens=5)")


def roles(outcome: Outcome) -> list[str]:
    return [str(record.role) for record in outcome.phases if record.phase == "weights"]


def test_the_draft_of_the_older_engine_is_loaded_in_the_same_words() -> None:
    both = [
        old(text, at, who) for text, at in ((LOADS, "10:00:10"), (TAKEN, "10:00:40")) for who in ("", OTHER)
    ]
    outcome = run(ARGUMENTS, *both)
    assert (outcome.phase, outcome.role) == ("weights", "draft")  # it comes next
    outcome = run(ARGUMENTS, *both, old(LOADS, "10:00:41"))
    assert (outcome.phase, outcome.role, roles(outcome)) == ("weights", "draft", ["target", "draft"])
    outcome = run(ARGUMENTS, *both, *both)
    assert (outcome.phase, roles(outcome)) == ("compile", ["target", "draft"])


@pytest.mark.parametrize(
    "arguments",
    ["speculative_config=None, speculative_model=None", "speculative_model='[ngram]'"],
)
def test_a_start_without_a_draft_loads_once(arguments: str) -> None:
    both = [old(LOADS), old(TAKEN), old(LOADS, process=OTHER), old(TAKEN, process=OTHER)]
    assert roles(run(old(f"args: Namespace({arguments})"), *both, old(LOADS))) == ["target"]


def test_a_worker_that_begins_late_loads_no_draft() -> None:
    late = [old(LOADS), old(TAKEN), old(LOADS, process=OTHER)]
    assert roles(run(ARGUMENTS, *late)) == ["target"]


@pytest.mark.parametrize(
    ("config", "drafts"),
    [
        ("{'method': 'eagle3', 'model': '/m/e'}", True),
        ('{"model": "/m/e", "num_speculative_tokens": 3}', True),
        ("{'method': 'ngram', 'num_speculative_tokens': 3}", False),
        ("None", False),
    ],
)
def test_the_arguments_tell_whether_a_draft_comes(config: str, drafts: bool) -> None:
    head = f"INFO 03-01 10:00:00 [utils.py:2] non-default args: {{'speculative_config': {config}}}"
    outcome = run(head, core(0, LOADS), core(0, LOADED))
    assert (outcome.role == "draft") is drafts

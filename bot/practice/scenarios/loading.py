"""Starts that end well: the way from the first line to a service that answers, and its variations."""

from __future__ import annotations

from bot.practice.instruments import SHARDS, WEIGHTS
from bot.practice.scenarios import sglang_log as log
from bot.practice.scenarios.stage import MAIN, Scenario, Stage

_WEIGHT_SECONDS = 286.0
_LOADED_AFTER = {0: 290, 1: 268, 2: 251, 3: 284, 4: 277, 5: 304, 6: 262, 7: 281}
_READ_SPEED = 1.9e9
_DRAFT = 17e9  # bytes of the draft model


async def launch(stage: Stage) -> None:
    stage.busy(cores=1.2)
    stage.raw(MAIN, "UserWarning: `launch_server` as a module is kept for old unit files.\n")
    await stage.wait(6)
    engine = stage.engine
    told = log.server_args(port=engine.port, ranks=len(stage.ranks), api_key=engine.api_key)
    process = stage.process
    stage.say(MAIN, log.set_arguments(told, process.command_line, seed=process.pid))
    await stage.wait(3)
    stage.say(MAIN, "Using default HuggingFace chat template with detected content format: openai")


async def distributed(stage: Stage) -> None:
    stage.busy(cores=4.0)
    stage.say_all("Init torch distributed begin.")
    await stage.wait(7)
    stage.raw(
        0, "[Gloo] Rank 0 is connected to 7 peer ranks. Expected number of connected peer ranks is : 7\n"
    )
    stage.say(0, "sglang is using nccl==2.27.5")
    await stage.wait(15)
    stage.say_all(log.distributed_end(stage.dialect, 22 * stage.stretch))


async def begin_weights(stage: Stage) -> None:
    stage.busy(cores=9.5, reading=_READ_SPEED / stage.stretch, most=WEIGHTS)
    stage.say_all("Load weight begin. avail mem=77.40 GB")
    await stage.wait(2)
    stage.say_all("Using CompressedTensorsWNA16MarlinMoEMethod")
    stage.say(0, "Using model weights format ['*.safetensors']")


async def shard_bar(
    stage: Stage, *, total: int = SHARDS, seconds: float = _WEIGHT_SECONDS, until: int | None = None
) -> None:
    await stage.bar(
        total, seconds, lambda done, elapsed: log.shard_bar(stage.dialect, done, total, elapsed), until=until
    )


async def weights(stage: Stage, late: dict[int, float] | None = None) -> None:
    """`late`: ranks that need longer, by seconds in all."""
    await begin_weights(stage)
    times = {rank: float(_LOADED_AFTER.get(rank, 270)) for rank in stage.ranks} | (late or {})
    await stage.together(
        shard_bar(stage),
        stage.each(times, lambda took: log.weight_end(stage.dialect, took, draft=False)),
    )


async def memory(stage: Stage) -> None:
    stage.busy(cores=2.0)
    await stage.wait(3)
    allocated, pooled = log.cache_lines(draft=False)
    stage.say(0, "Using KV cache dtype: torch.bfloat16")
    stage.process.meter.hold(gpu=47.31e9)
    stage.say_all(allocated)
    await stage.wait(2)
    stage.say_all(pooled)


async def begin_graphs(stage: Stage) -> None:
    stage.busy(cores=8.1)
    stage.say_all(log.capture_begin(""))
    stage.say(0, f"Capture cuda graph bs {log.batches()}")
    await stage.wait(1)


async def capture_bar(stage: Stage, seconds: float, *, until: int | None = None) -> None:
    sizes = log.batches()[::-1]

    def draw(done: int, elapsed: float) -> str:
        return log.capture_bar(done, len(sizes), elapsed, sizes[min(done, len(sizes) - 1)])

    await stage.bar(len(sizes), seconds, draw, until=until)


async def graphs(stage: Stage, seconds: float = 48) -> None:
    await begin_graphs(stage)
    await capture_bar(stage, seconds - 2)
    await stage.wait(1)
    stage.say_all(log.capture_end("", seconds * stage.stretch))


async def draft(stage: Stage) -> None:
    """EAGLE's draft model: weights, cache and graphs once more, in small."""
    await _draft_weights(stage)
    await _draft_graphs(stage, "draft ", 8)
    await _draft_graphs(stage, "draft extend ", 6)
    stage.say(
        0,
        "max_total_num_tokens=731206, chunked_prefill_size=16384, max_prefill_tokens=16384, "
        "max_running_requests=64, context_len=262144, available_gpu_mem=8.21 GB",
    )


async def _draft_weights(stage: Stage) -> None:
    stage.busy(cores=6.0, reading=_READ_SPEED / stage.stretch, most=WEIGHTS + _DRAFT)
    stage.say_all("Init torch distributed begin.")
    stage.say_all(log.distributed_end(stage.dialect, 0.0))
    stage.say_all("Load weight begin. avail mem=9.13 GB")
    await shard_bar(stage, total=2, seconds=9)
    await stage.wait(2)
    stage.say_all(log.weight_end(stage.dialect, 11 * stage.stretch, draft=True))
    for line in log.cache_lines(draft=True):
        await stage.wait(1)
        stage.say_all(line)


async def _draft_graphs(stage: Stage, kind: str, seconds: float) -> None:
    stage.busy(cores=8.1)
    ranks = stage.ranks if stage.dialect.draft_graphs_by_all else stage.ranks[:1]
    for rank in ranks:
        stage.say(rank, log.capture_begin(kind))
    await capture_bar(stage, seconds - 1)
    await stage.wait(1)
    for rank in ranks:
        stage.say(rank, log.capture_end(kind, seconds * stage.stretch))


async def listen(stage: Stage) -> bool:
    """Open the port; False when it is taken."""
    stage.busy(cores=1.5)
    await stage.wait(3)
    stage.say(MAIN, f"INFO:     Started server process [{stage.process.pid}]")
    stage.say(MAIN, "INFO:     Waiting for application startup.")
    await stage.wait(1)
    stage.say(MAIN, "INFO:     Application startup complete.")
    opened = await stage.open_port()
    if opened:
        stage.say(MAIN, f"INFO:     Uvicorn running on {stage.engine.url} (Press CTRL+C to quit)")
    return opened


async def warm_up(stage: Stage) -> None:
    await stage.wait(2)
    stage.say(MAIN, 'INFO:     127.0.0.1:41922 - "GET /model_info HTTP/1.1" 200 OK')
    stage.say(
        0,
        "Prefill batch, #new-seq: 1, #new-token: 64, #cached-token: 0, token usage: 0.00, #running-req: 0, "
        "#queue-req: 0, cuda graph: False, input throughput (token/s): 5.12",
    )
    await stage.wait(13)
    stage.say(MAIN, 'INFO:     127.0.0.1:41924 - "POST /v1/chat/completions HTTP/1.1" 200 OK')
    stage.up()
    stage.say(MAIN, log.READY)
    stage.busy(cores=0.6)


async def load(stage: Stage) -> None:
    """Everything up to a loaded model."""
    await launch(stage)
    await distributed(stage)
    await weights(stage)
    await memory(stage)
    await graphs(stage)
    await draft(stage)


async def serve(stage: Stage) -> None:
    """Serve until SIGTERM; then drain, and end as SGLang ends: with a SIGKILL of its own."""
    await stage.terminated()
    stage.say(MAIN, "SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    for left in (3, 1, 0):
        await stage.wait(4.5)
        rids = [f"{index:032x}" for index in range(left)]
        stage.say(
            MAIN,
            f"Gracefully exiting... Remaining number of requests {left}. Remaining requests "
            f"remaining_rids={rids}.",
        )
    await stage.wait(0.5)
    stage.die()


async def go_live(stage: Stage) -> None:
    await listen(stage)
    await warm_up(stage)
    await serve(stage)


async def healthy(stage: Stage) -> None:
    await load(stage)
    await go_live(stage)


async def new_bar(stage: Stage) -> None:
    stage.dialect = log.NEW
    await healthy(stage)


async def slow(stage: Stage) -> None:
    stage.stretch = 2.5
    await load(stage)
    stage.stretch = 1.0
    await go_live(stage)


async def straggler(stage: Stage) -> None:
    await launch(stage)
    await distributed(stage)
    await weights(stage, late={5: 660.0})
    await memory(stage)
    await graphs(stage)
    await draft(stage)
    await go_live(stage)


SCENARIOS = (
    Scenario("healthy", "Eight ranks load, capture and serve; an EAGLE draft model", (healthy,)),
    Scenario("new-bar", "The same with a bar that reaches the journal only when it is done", (new_bar,)),
    Scenario("straggler", "TP5 needs eleven minutes for its weights, the others five", (straggler, healthy)),
    Scenario("slow", "Everything takes two and a half times as long, and moves", (slow, healthy)),
)

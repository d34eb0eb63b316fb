"""Starts that fail: each a cause, what the ranks say about it, and how systemd sees the end."""

from __future__ import annotations

from bot.practice.scenarios import loading
from bot.practice.scenarios import sglang_log as log
from bot.practice.scenarios.stage import MAIN, Scenario, Stage


async def until_weights(stage: Stage, *, shards: int, seconds: float = 286.0) -> None:
    await loading.launch(stage)
    await loading.distributed(stage)
    await loading.begin_weights(stage)
    await loading.shard_bar(stage, seconds=seconds, until=shards)


async def fall(stage: Stage, rank: int, error: str, *frames: str) -> None:
    """One rank raises, the others lose their peer, the parent is told and kills all, itself last."""
    stage.say_lines(rank, log.traceback(error, *frames))
    await stage.wait(1.5)
    for other in stage.ranks:
        if other != rank:
            stage.say_lines(other, log.traceback(log.PEER_CLOSED.format(port=41000 + other), *frames))
    await stage.wait(0.5)
    stage.say(MAIN, log.CHILD_FAILED)
    stage.die()


async def oom_in_weights(stage: Stage) -> None:
    await until_weights(stage, shards=38)
    await fall(stage, 3, log.OUT_OF_MEMORY, "start", "weights")


async def dies_in_weights(stage: Stage) -> None:
    await until_weights(stage, shards=3)
    await fall(stage, 0, log.TRUNCATED_SHARD, "start", "weights")


async def crash_on_first_request(stage: Stage) -> None:
    await loading.load(stage)
    await loading.listen(stage)
    await loading.warm_up(stage)
    await stage.first_request()
    await stage.wait(0.3)
    stage.say_lines(0, log.traceback(log.ILLEGAL_ACCESS, "forward"))
    await stage.wait(0.5)
    stage.say(MAIN, log.CHILD_FAILED_SERVING)
    stage.die()


async def port_in_use(stage: Stage) -> None:
    """A stray process answers on the port; the engine's own warm-up is fooled by it and says it is ready."""
    await stage.occupy_port()
    await loading.load(stage)
    if await loading.listen(stage):
        raise AssertionError("the stray process must hold the port")
    stage.say(
        MAIN,
        f"ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', {stage.engine.port}): "
        "address already in use",
    )
    stage.say(MAIN, "INFO:     Waiting for application shutdown.")
    await stage.wait(3)
    stage.say(MAIN, log.READY)
    await stage.wait(2)
    stage.say(MAIN, "INFO:     Application shutdown complete.")
    stage.exit(3)


SCENARIOS = (
    Scenario(
        "oom-in-weights", "TP3 runs out of GPU memory at 38 of 64 shards", (oom_in_weights, loading.healthy)
    ),
    Scenario(
        "crash-on-first-request",
        "Ready, and dead at the first completion",
        (crash_on_first_request, loading.healthy),
    ),
    Scenario(
        "port-in-use", "Loads for minutes, then cannot bind; somebody else answers there", (port_in_use,)
    ),
)

"""Starts whose cause stands elsewhere than in the last lines: in the kernel's log, in a silent rank."""

from __future__ import annotations

from bot.practice.scenarios import loading
from bot.practice.scenarios import sglang_log as log
from bot.practice.scenarios.failing import until_weights
from bot.practice.scenarios.stage import MAIN, Scenario, Stage

_COLLECTIVE_TIMEOUT = 600.0  # torch's own


async def kernel_oom(stage: Stage) -> None:
    """The host's memory is used up while weights load; the rank that is killed has no time for a word."""
    await until_weights(stage, shards=41)
    await stage.wait(0.4)
    await stage.kill_for_memory(4)


async def nccl_timeout(stage: Stage) -> None:
    """TP5 hangs, the others wait for it in a collective until their watchdogs end them."""
    await loading.launch(stage)
    await loading.distributed(stage)
    await loading.weights(stage)
    await loading.memory(stage)
    await loading.begin_graphs(stage)
    await loading.capture_bar(stage, 4, until=1)
    await stage.wait(_COLLECTIVE_TIMEOUT)
    for rank in stage.ranks:
        if rank != 5:  # noqa: PLR2004 - the one that hangs
            stage.raw(rank, log.watchdog_timeout(stage.now, rank) + "\n")
    await stage.wait(0.5)
    stage.raw(0, "\n".join(log.terminated(0)) + "\n")
    await stage.wait(1.5)
    stage.say(MAIN, log.CHILD_FAILED)
    stage.die()


async def two_causes(stage: Stage) -> None:
    """TP2 runs out of GPU memory; TP6 finds a broken shard for itself, a moment later."""
    await until_weights(stage, shards=22)
    stage.say_lines(2, log.traceback(log.OUT_OF_MEMORY.replace("GPU 3", "GPU 2"), "start", "weights"))
    await stage.wait(0.8)
    stage.say_lines(6, log.traceback(log.TRUNCATED_SHARD, "start", "weights"))
    await stage.wait(1.2)
    for rank in stage.ranks:
        if rank not in {2, 6}:
            stage.say_lines(rank, log.traceback(log.PEER_CLOSED.format(port=41000 + rank), "start"))
    await stage.wait(0.5)
    stage.say(MAIN, log.CHILD_FAILED)
    stage.die()


SCENARIOS = (
    Scenario(
        "kernel-oom",
        "The kernel kills TP4 at 41 of 64 shards: the host is out of memory",
        (kernel_oom, loading.healthy),
    ),
    Scenario(
        "nccl-timeout",
        "TP5 hangs in graph capture; after ten minutes NCCL's watchdog ends the others",
        (nccl_timeout, loading.healthy),
        stalls_first=True,
    ),
    Scenario(
        "two-causes",
        "TP2 runs out of GPU memory and TP6 finds a broken shard, two failures at once",
        (two_causes, loading.healthy),
    ),
)

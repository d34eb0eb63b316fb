"""Starts whose log tells little: what the host measures says whether they move."""

from __future__ import annotations

from bot.practice.instruments import WEIGHTS
from bot.practice.scenarios import loading
from bot.practice.scenarios import sglang_log as log
from bot.practice.scenarios.stage import Scenario, Stage

_SLOW_DISK = 1320.0  # seconds
_REPACK = 540.0


async def finish(stage: Stage) -> None:
    """From loaded weights to a service that answers."""
    await loading.memory(stage)
    await loading.graphs(stage)
    await loading.draft(stage)
    await loading.go_live(stage)


async def end_weights(stage: Stage, seconds: float) -> None:
    """The ranks end one after the other."""
    for rank in stage.ranks:
        stage.say(rank, log.weight_end(stage.dialect, seconds, draft=False))
        await stage.wait(1)


async def begin(stage: Stage) -> None:
    await loading.launch(stage)
    await loading.distributed(stage)
    await loading.begin_weights(stage)


async def invisible_bar(stage: Stage) -> None:
    """A slow disk, and a bar that reaches the journal only when it is full: 22 minutes without a line."""
    stage.dialect = log.NEW
    await begin(stage)
    stage.busy(cores=3.0, reading=WEIGHTS / _SLOW_DISK, most=WEIGHTS)
    await loading.shard_bar(stage, seconds=_SLOW_DISK)
    await end_weights(stage, _SLOW_DISK)
    await finish(stage)


async def quiet_repack(stage: Stage) -> None:
    """The bar is full, and the weights are brought into another order for nine minutes."""
    await begin(stage)
    await loading.shard_bar(stage)
    stage.busy(cores=8.0, growing=15e6)
    await stage.wait(_REPACK)
    await end_weights(stage, 286 + _REPACK)
    await finish(stage)


async def spinning(stage: Stage) -> None:
    """The bar is full, every rank computes, and nothing comes of it."""
    await begin(stage)
    await loading.shard_bar(stage)
    stage.busy(cores=8.0)
    await stage.forever()


async def rank_vanished(stage: Stage) -> None:
    """TP5 is killed from outside; no other process notices, and the start would wait for ever."""
    await begin(stage)
    await loading.shard_bar(stage, until=20)
    stage.vanish(5)
    stage.busy(cores=1.0)
    await stage.forever()


SCENARIOS = (
    Scenario(
        "invisible-bar",
        "A slow disk and no bar for 22 minutes: progress shows in the bytes read",
        (invisible_bar, loading.healthy),
    ),
    Scenario(
        "quiet-repack",
        "Nine silent minutes after a full bar, in which the GPUs' memory moves",
        (quiet_repack, loading.healthy),
    ),
    Scenario(
        "spinning", "CPU at 100 % a rank after a full bar, and no progress", (spinning, loading.healthy)
    ),
    Scenario("rank-vanished", "TP5's process vanishes without a word", (rank_vanished, loading.healthy)),
    Scenario(
        "slow-second-start",
        "The first start teaches the usual; the second takes two and a half times as long",
        (loading.healthy, loading.slow),
        starts=2,
    ),
)

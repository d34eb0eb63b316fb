"""Starts that go nowhere: no failure, no end."""

from __future__ import annotations

from bot.practice.scenarios import loading
from bot.practice.scenarios.stage import Scenario, Stage


async def stall_in_graphs(stage: Stage) -> None:
    """All ranks begin to capture and spin in a collective that waits for one of them."""
    await loading.launch(stage)
    await loading.distributed(stage)
    await loading.weights(stage)
    await loading.memory(stage)
    await loading.begin_graphs(stage)
    await loading.capture_bar(stage, 46, until=3)
    await stage.forever()


SCENARIOS = (
    Scenario(
        "stall-in-graphs",
        "Graph capture begins and never ends; all ranks spin",
        (stall_in_graphs, loading.healthy),
    ),
)

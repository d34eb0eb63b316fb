"""The hanging scenarios hang where they should."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bot.core.events import PhaseId, Role
from bot.practice.scenarios import SCENARIOS
from tests.support.theatre import play

pytestmark = pytest.mark.looptime


async def test_graph_capture_begins_on_every_rank_and_then_nothing_is_said() -> None:
    async with play(SCENARIOS["stall-in-graphs"]) as theatre:
        await theatre.until(lambda: theatre.said("Capture cuda graph bs"))
        assert sum("Capture cuda graph begin" in text for text in theatre.texts()) == 8
        lines = len(theatre.journal.entries)
        process = theatre.unit.process
        assert process is not None
        cpu = process.meter.cpu_nanoseconds
        await theatre.clock.sleep(timedelta(hours=1))
        assert len(theatre.journal.entries) == lines
        assert theatre.unit.active == "active"
        assert theatre.track().current() == (PhaseId.GRAPHS, Role.TARGET)
        assert (process.meter.cpu_nanoseconds - cpu) / 1e9 == pytest.approx(8.1 * 3600, rel=0.01)


async def test_a_restart_out_of_the_stall_ends_well() -> None:
    async with play(SCENARIOS["stall-in-graphs"]) as theatre:
        await theatre.until(lambda: theatre.said("Capture cuda graph bs"))
        await theatre.clock.sleep(timedelta(minutes=1))
        theatre.unit.submit("restart")
        await theatre.until(lambda: theatre.said("fired up"))
        bars = [text for text in theatre.texts() if "Capturing batches" in text]
        assert bars[0].count("\r") == 4  # what it had drawn comes out when its process ends

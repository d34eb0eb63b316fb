"""What the host measures in the scenarios whose log tells little."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from bot.core.events import PhaseId, Role
from bot.practice.instruments import WEIGHTS
from bot.practice.scenarios import SCENARIOS
from tests.support.theatre import Theatre, play

if TYPE_CHECKING:
    from bot.practice.process import Meter

pytestmark = pytest.mark.looptime


def meter(theatre: Theatre) -> Meter:
    assert theatre.unit.process is not None
    return theatre.unit.process.meter


async def test_an_invisible_bar_reads_the_model_and_says_nothing() -> None:
    async with play(SCENARIOS["invisible-bar"]) as theatre:
        await theatre.until(lambda: theatre.said("Using model weights format"))
        lines = len(theatre.journal.entries)
        await theatre.clock.sleep(timedelta(minutes=20))
        assert len(theatre.journal.entries) == lines
        assert meter(theatre).read_bytes == pytest.approx(WEIGHTS * 20 / 22, rel=0.02)
        await theatre.until(lambda: theatre.said("fired up"))


async def test_a_repack_moves_gpu_memory_and_says_nothing() -> None:
    async with play(SCENARIOS["quiet-repack"]) as theatre:
        await theatre.until(lambda: theatre.said("64/64"))
        held, lines = meter(theatre).gpu_bytes, len(theatre.journal.entries)
        await theatre.clock.sleep(timedelta(minutes=8))
        assert len(theatre.journal.entries) == lines
        assert meter(theatre).gpu_bytes - held > 5e9
        await theatre.until(lambda: theatre.said("fired up"))


async def test_ranks_that_spin_move_nothing_else() -> None:
    async with play(SCENARIOS["spinning"]) as theatre:
        await theatre.until(lambda: theatre.said("64/64"))
        await theatre.clock.sleep(timedelta(seconds=10))
        now = meter(theatre)
        before = (now.gpu_bytes, now.read_bytes, now.cpu_nanoseconds)
        await theatre.clock.sleep(timedelta(hours=1))
        assert (now.gpu_bytes, now.read_bytes) == before[:2]
        assert (now.cpu_nanoseconds - before[2]) / 1e9 == pytest.approx(8 * 3600, rel=0.01)
        assert theatre.track().current() == (PhaseId.WEIGHTS, Role.TARGET)


async def test_a_rank_vanishes_and_nobody_says_so() -> None:
    async with play(SCENARIOS["rank-vanished"]) as theatre:
        await theatre.until(lambda: theatre.unit.process and 5 not in theatre.unit.process.ranks)
        assert theatre.unit.process is not None
        assert len(theatre.unit.process.ranks) == 7
        lines = len(theatre.journal.entries)
        await theatre.clock.sleep(timedelta(hours=1))
        assert len(theatre.journal.entries) == lines
        assert theatre.unit.active == "active"


async def test_the_second_start_is_the_slow_one() -> None:
    took = []
    async with play(SCENARIOS["slow-second-start"]) as theatre:
        for start in (1, 2):
            began = theatre.clock.now()
            await theatre.until(partial(_is_up, theatre, start))
            took.append(theatre.clock.now() - began)
            theatre.unit.submit("restart")
    assert took[1] > took[0] * 2


def _is_up(theatre: Theatre, starts: int) -> bool:
    return sum("fired up" in text for text in theatre.texts()) == starts

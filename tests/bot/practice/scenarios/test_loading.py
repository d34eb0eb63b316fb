"""The loading scenarios come to readiness, each in its own way."""

from __future__ import annotations

import pytest

from bot.core.actions import Progress
from bot.core.events import PhaseId, Rank, Role
from bot.practice.engine import ServerStatus
from bot.practice.scenarios import SCENARIOS
from tests.support.theatre import Theatre, play

pytestmark = pytest.mark.looptime

READY = "fired up and ready to roll"


def durations(theatre: Theatre) -> dict[str, int]:
    """Whole seconds of each phase, as the product's tracker sees them."""
    found = {}
    for record in theatre.track().phases():
        assert record.took is not None, record
        key = record.phase if record.role is Role.TARGET else f"{record.phase}/{record.role}"
        found[str(key)] = round(record.took.total_seconds())
    return found


async def test_a_healthy_start_takes_seven_and_a_half_minutes_with_its_stop() -> None:
    async with play(SCENARIOS["healthy"]) as theatre:
        began = theatre.clock.now()
        await theatre.until(lambda: theatre.said(READY))
        assert 433 <= (theatre.clock.now() - began).total_seconds() <= 440
        assert theatre.engine.status is ServerStatus.UP
        theatre.unit.submit("stop")
        began = theatre.clock.now()
        await theatre.until(lambda: theatre.unit.active == "failed")
        assert 14 <= (theatre.clock.now() - began).total_seconds() <= 15


async def test_every_phase_of_a_healthy_start_is_told_by_its_log() -> None:
    async with play(SCENARIOS["healthy"]) as theatre:
        await theatre.until(lambda: theatre.said(READY))
        took = durations(theatre)
        assert took["distributed"] == 22
        assert took["weights"] == 306
        assert took["graphs"] == 48
        assert took["weights/draft"] == 11
        assert took.keys() >= {"memory", "server", "warmup", "graphs/draft"}


async def test_the_ranks_of_a_healthy_start_end_their_weights_apart() -> None:
    async with play(SCENARIOS["healthy"]) as theatre:
        await theatre.until(lambda: theatre.said(READY))
        weights = next(record for record in theatre.track().phases() if record.phase is PhaseId.WEIGHTS)
        assert weights.progress == Progress(64, 64)
        assert weights.ranks.keys() >= {Rank(f"TP{rank}") for rank in range(8)}
        ended = {rank: span.ended for rank, span in weights.ranks.items() if span.ended is not None}
        assert min(ended, key=lambda rank: ended[rank]) == "TP2"
        assert max(ended, key=lambda rank: ended[rank]) == "TP5"


async def test_the_old_bar_reaches_the_journal_shard_by_shard() -> None:
    async with play(SCENARIOS["healthy"]) as theatre:
        await theatre.until(lambda: theatre.said("12/64"))
        bars = [text for text in theatre.texts() if "checkpoint shards" in text]
        assert len(bars) == 13
        assert bars[-1].startswith("\rLoading safetensors checkpoint shards:  19% Completed | 12/64 [00:5")
        assert not theatre.said("Load weight end")


async def test_the_api_key_is_in_the_log_and_nowhere_behind_the_decoder() -> None:
    async with play(SCENARIOS["healthy"]) as theatre:
        await theatre.until(lambda: theatre.said("server_args="))
        (arguments,) = [text for text in theatre.texts() if "server_args=" in text]
        assert len(arguments) > 4096
        assert "api_key='pk-practice-" in arguments
        assert not any("pk-practice-" in line.text for line in theatre.lines())
        assert any(line.masked for line in theatre.lines())


async def test_the_new_bar_reaches_the_journal_when_it_is_done() -> None:
    async with play(SCENARIOS["new-bar"]) as theatre:
        await theatre.until(lambda: theatre.said("Load weight begin"))
        await theatre.until(lambda: theatre.said("Load weight end"))
        bars = [text for text in theatre.texts() if "Multi-thread loading shards" in text]
        assert len(bars) == 1
        assert bars[0].count("\r") > 40
        await theatre.until(lambda: theatre.said(READY))
        assert theatre.said("Load weight end. elapsed=")
        drafts = [text for text in theatre.texts() if "Capture draft cuda graph begin" in text]
        assert len(drafts) == 1


async def test_a_straggler_is_the_one_that_lags() -> None:
    async with play(SCENARIOS["straggler"]) as theatre:
        await theatre.until(lambda: theatre.said("TP0] Load weight end"))
        await theatre.until(lambda: theatre.said("TP3] Load weight end"))
        began = theatre.clock.now()
        assert theatre.track().current() == (PhaseId.WEIGHTS, Role.TARGET)
        assert "TP5" in theatre.track().lagging()
        await theatre.until(lambda: theatre.said("TP5] Load weight end"))
        assert (theatre.clock.now() - began).total_seconds() > 300
        await theatre.until(lambda: theatre.said(READY))


async def test_slow_is_two_and_a_half_times_as_long_and_ends_well() -> None:
    async with play(SCENARIOS["slow"]) as theatre:
        await theatre.until(lambda: theatre.said(READY))
        took = durations(theatre)
        assert took["weights"] == 765
        assert took["distributed"] == 55
        assert took["graphs"] == 120


async def test_what_the_host_measures_tells_the_phases_apart() -> None:
    async with play(SCENARIOS["healthy"]) as theatre:
        await theatre.until(lambda: theatre.said("6/64"))
        process = theatre.unit.process
        assert process is not None
        assert process.meter.read_bytes > 20e9
        await theatre.until(lambda: theatre.said("Capture cuda graph begin"))
        read, cpu, began = process.meter.read_bytes, process.meter.cpu_nanoseconds, theatre.clock.now()
        await theatre.until(lambda: theatre.said("Capture cuda graph end"))
        spent = (process.meter.cpu_nanoseconds - cpu) / 1e9 / (theatre.clock.now() - began).total_seconds()
        assert 7.9 < spent < 8.3
        assert process.meter.read_bytes == read


async def test_sigterm_before_the_server_runs_ends_it_at_once() -> None:
    async with play(SCENARIOS["healthy"]) as theatre:
        await theatre.until(lambda: theatre.said("6/64"))
        theatre.unit.submit("stop")
        await theatre.until(lambda: theatre.unit.job is None)
        assert (theatre.unit.active, theatre.unit.result) == ("inactive", "success")
        assert not theatre.said("SIGTERM received")

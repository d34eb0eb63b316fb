"""The one clock, real or faster."""

from __future__ import annotations

from datetime import timedelta

from bot.clock import Clock


def test_told_time_passes_as_many_times_faster_as_asked() -> None:
    assert Clock(speed=20).real(timedelta(seconds=60)) == 3.0
    assert Clock().real(timedelta(seconds=60)) == 60.0


async def test_waiting_moves_the_told_time_on() -> None:
    clock = Clock(speed=1000)
    before = clock.now()
    await clock.sleep(timedelta(seconds=10))
    assert clock.now() - before >= timedelta(seconds=10)
    assert before.tzinfo is not None


async def test_two_clocks_of_one_origin_tell_the_same() -> None:
    first = Clock(speed=200)
    second = Clock(speed=200, origin=first.origin)
    await first.sleep(timedelta(seconds=5))
    assert first.now() <= second.now() <= first.now()

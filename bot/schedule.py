"""APScheduler drives what happens by the clock; its jobs only submit and end: a shutdown cancels them."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from apscheduler.schedulers.asyncio import AsyncIOScheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.clock import Clock
    from bot.startups import Startups

TICK = timedelta(seconds=1)
OBSERVE = timedelta(seconds=3)
PROBE = timedelta(seconds=10)  # /health generates a token each time: not oftener
EVIDENCE = timedelta(seconds=10)  # several commands on the host each time
ADOPT = 2.0  # real seconds, as leases are
RETAIN = 600.0  # real seconds
_FASTEST = 0.1  # real seconds, however fast a practice clock runs
_FASTEST_SAMPLE = 0.25


class Schedule:
    """In memory, in each process; the truth is in Redis."""

    def __init__(self, startups: Startups, *, clock: Clock) -> None:
        self._scheduler = AsyncIOScheduler(timezone=UTC)
        self._clock = clock
        self._every(TICK, startups.tick)
        self._every(OBSERVE, startups.observe)
        self._every(PROBE, startups.probe)
        self._every(EVIDENCE, startups.sample, fastest=_FASTEST_SAMPLE)
        self.add(ADOPT, startups.adopt_soon)

    def _every(self, told: timedelta, submit: Callable[[], None], *, fastest: float = _FASTEST) -> None:
        self.add(max(self._clock.real(told), fastest), submit)

    def add(self, seconds: float, submit: Callable[[], None]) -> None:
        """Call `submit`, which must not wait, every so many real seconds from the start on."""
        self._scheduler.add_job(
            _submit(submit),
            "interval",
            seconds=seconds,
            coalesce=True,
            max_instances=1,
            misfire_grace_time=None,  # late is better than never: a tick has no moment of its own
            name=submit.__name__,
        )

    def start(self) -> None:
        self._scheduler.start()

    def close(self) -> None:
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)


def _submit(submit: Callable[[], None]) -> Callable[[], object]:
    # A coroutine runs in the loop itself; a plain function would go to APScheduler's threads.
    async def job() -> None:
        submit()

    return job

"""Tells those who wait for it that this process lives: systemd's watchdog, and a dead man's switch."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from datetime import timedelta

    from bot.clients.dead_man import DeadMan
    from bot.notify import Notifier
    from bot.vitals import Report, Vitals

log = structlog.get_logger()

_EVERY = 1.0  # seconds between beats; of systemd's interval, at most a third


class Pulse:
    """`run` beats for ever. Where the event loop stands still, so does the pulse."""

    def __init__(
        self, vitals: Vitals, notifier: Notifier, *, dead_man: DeadMan | None, ping_every: timedelta
    ) -> None:
        self._vitals = vitals
        self._notifier = notifier
        self._dead_man = dead_man
        self._ping_every = ping_every.total_seconds()
        self._pinged = float("-inf")
        self._ping: asyncio.Task[bool] | None = None
        self._was_alive = True

    async def run(self) -> None:
        interval = self._notifier.interval
        pause = _EVERY if interval is None else min(_EVERY, interval / 3)
        while True:
            try:
                self.beat()
            except Exception:  # whoever waits for a beat takes its absence for a no
                log.exception("beat_broke")
            await asyncio.sleep(pause)

    def beat(self) -> None:
        """One look: systemd hears of a process that is alive, the switch of one that is ready."""
        report = self._vitals.report()
        if report.alive:
            self._notifier.alive()
        elif self._was_alive:
            log.error("not_alive", problems=report.problems(fatal=True))
        self._was_alive = report.alive
        self._notifier.status(_describe(report))
        if report.ready:
            self._ping_soon()

    async def close(self) -> None:
        """May be called twice."""
        if self._ping is not None:
            self._ping.cancel()
            await asyncio.wait({self._ping})
        if self._dead_man is not None:
            await self._dead_man.close()

    def _ping_soon(self) -> None:
        """Beside the beat, which waits for no answer."""
        now = time.monotonic()
        under_way = self._ping is not None and not self._ping.done()
        if self._dead_man is None or under_way or now - self._pinged < self._ping_every:
            return
        self._pinged = now
        self._ping = asyncio.create_task(self._dead_man.ping(), name="dead man's ping")


def _describe(report: Report) -> str:
    """One line for `systemctl status`; without what changes all the time."""
    wrong = [part for part in report.parts if not part.good]
    if not wrong:
        words = {part.name: part.words for part in report.parts}
        return f"ready; startups: {words['startups']}"
    return "not ready: " + ", ".join(
        part.words if part.name == "process" else f"{part.name} {part.words}" for part in wrong
    )

"""The one clock: real in production, faster in practice, so that a demo's minutes pass in seconds."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True, slots=True)
class Origin:
    """The moment from which a clock counts, as it is told and as the machine counts it, in seconds."""

    told: datetime
    monotonic: float


class Clock:
    """Tells the time and waits; `speed` 10 lets ten told seconds pass in a real one.

    Whatever concerns the services (phases, patience, probes) is timed with this clock. Whatever
    concerns Slack, Redis and SSH themselves (rate limits, time-outs, leases) stays in real seconds.
    """

    def __init__(self, speed: float = 1.0, *, origin: Origin | None = None) -> None:
        """`origin`: that of another process's clock on this machine, to tell the same time as it does."""
        self.speed = speed
        self.origin = origin or Origin(datetime.now(UTC), time.monotonic())

    def now(self) -> datetime:
        """Aware UTC; never jumps, since it advances by the monotonic clock."""
        return self.origin.told + timedelta(seconds=(time.monotonic() - self.origin.monotonic) * self.speed)

    def real(self, told: timedelta) -> float:
        """Real seconds that `told` takes."""
        return told.total_seconds() / self.speed

    async def sleep(self, told: timedelta) -> None:
        await asyncio.sleep(self.real(told))

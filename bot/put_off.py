"""What broke in our own hands is taken up again later and later, so that it holds up nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_FIRST = 4.0  # real seconds; doubled each time
_LONGEST = 300.0


@dataclass(slots=True)
class PutOff:
    """By name. Times are those of the running loop."""

    _waits: dict[str, tuple[float, float]] = field(default_factory=dict)  # for how long, until when
    _known: dict[str, str] = field(default_factory=dict)  # what broke it last

    def defer(self, name: str) -> float:
        """It broke once more; real seconds for which it `waits` now."""
        seconds = min(_LONGEST, 2 * self._waits.get(name, (_FIRST / 2, 0.0))[0])
        self._waits[name] = (seconds, asyncio.get_running_loop().time() + seconds)
        return seconds

    def news(self, name: str, error: Exception) -> Exception | None:
        """`error`, for the log to show whole; None where it broke in the same way the last time."""
        known, self._known[name] = self._known.get(name), repr(error)
        return None if known == repr(error) else error

    def waits(self, name: str) -> bool:
        return asyncio.get_running_loop().time() < self._waits.get(name, (0.0, 0.0))[1]

    def forget(self, name: str) -> None:
        """It came to its end."""
        self._waits.pop(name, None)
        self._known.pop(name, None)

    def keep(self, names: Iterable[str]) -> None:
        """Whatever else there was is gone."""
        for name in set(self._waits).difference(names):
            self.forget(name)

    def __len__(self) -> int:
        return len(self._waits)

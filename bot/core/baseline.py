"""What a healthy start of one service usually takes, phase by phase and as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median
from typing import TYPE_CHECKING

from bot.core.events import PhaseId, Role

if TYPE_CHECKING:
    from collections.abc import Mapping

WHOLE = "whole"  # the key of the start as a whole, beside those of its phases
REMEMBERED = 9  # starts; enough for a median that one odd start does not move


def phase_key(phase: PhaseId, role: Role = Role.TARGET) -> str:
    """`weights`, or `weights/draft`: what durations are filed under."""
    return phase.value if role is Role.TARGET else f"{phase.value}/{role.value}"


@dataclass(frozen=True, slots=True)
class Usual:
    """Seconds of the last healthy starts, newest last, by phase key and `whole`."""

    samples: dict[str, tuple[float, ...]] = field(default_factory=dict)

    def of(self, phase: PhaseId, role: Role = Role.TARGET) -> timedelta | None:
        return self._median(phase_key(phase, role))

    @property
    def whole(self) -> timedelta | None:
        return self._median(WHOLE)

    def expects(self, phase: PhaseId, role: Role = Role.TARGET) -> bool:
        """Whether healthy starts of this service went through that phase."""
        return phase_key(phase, role) in self.samples

    def _median(self, key: str) -> timedelta | None:
        samples = self.samples.get(key)
        return timedelta(seconds=median(samples)) if samples else None


def learn(usual: Usual, durations: Mapping[str, float]) -> Usual:
    """The baseline with one more healthy start in it.

    A phase that did not occur this time keeps its samples: a start that resumes midway tells less, not
    that the phase is gone. Negative durations come from a clock that was set and teach nothing.
    """
    samples = dict(usual.samples)
    for key, seconds in durations.items():
        if seconds >= 0:
            samples[key] = (*samples.get(key, ()), seconds)[-REMEMBERED:]
    return Usual(samples)

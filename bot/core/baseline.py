"""What a healthy start of one service usually takes, and how long it is silent, phase by phase."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from statistics import median, quantiles
from typing import TYPE_CHECKING

from bot.core.events import PhaseId, Role

if TYPE_CHECKING:
    from collections.abc import Mapping

WHOLE = "whole"  # the key of the start as a whole, beside those of its phases
REMEMBERED = 20  # starts
_ENOUGH = 5  # starts, before the odd ones among them are left out


def phase_key(phase: PhaseId, role: Role = Role.TARGET) -> str:
    """`weights`, or `weights/draft`: what durations are filed under."""
    return f"{phase}" if role is Role.TARGET else f"{phase}/{role}"


@dataclass(frozen=True, slots=True)
class Usual:
    """Seconds of the last healthy starts, newest last, by phase key and `whole`."""

    samples: dict[str, tuple[float, ...]] = field(default_factory=dict)
    silences: dict[str, tuple[float, ...]] = field(default_factory=dict)  # the longest of each start
    speeds: dict[str, tuple[float, ...]] = field(default_factory=dict)  # of their smoke tests

    def of(self, phase: PhaseId, role: Role = Role.TARGET) -> timedelta | None:
        return self._median(phase_key(phase, role))

    @property
    def whole(self) -> timedelta | None:
        return self._median(WHOLE)

    def expects(self, phase: PhaseId, role: Role = Role.TARGET) -> bool:
        """Whether healthy starts of this service went through that phase."""
        return phase_key(phase, role) in self.samples

    def span_of(self, phase: PhaseId, role: Role = Role.TARGET) -> tuple[timedelta, timedelta] | None:
        """Between which durations half of the starts lie; of few starts, all."""
        samples = self.samples.get(phase_key(phase, role))
        if not samples:
            return None
        least, most = min(samples), max(samples)
        if len(samples) >= _ENOUGH:
            least, _, most = quantiles(samples, n=4, method="inclusive")
        return timedelta(seconds=least), timedelta(seconds=most)

    def longest_silence(self, phase: PhaseId, role: Role = Role.TARGET) -> timedelta | None:
        samples = self.silences.get(phase_key(phase, role))
        return timedelta(seconds=max(samples)) if samples else None

    def speed(self, name: str) -> float | None:
        """What the smoke test usually measures under that name."""
        samples = self.speeds.get(name)
        return median(samples) if samples else None

    def _median(self, key: str) -> timedelta | None:
        samples = self.samples.get(key)
        return timedelta(seconds=median(samples)) if samples else None


def learn(usual: Usual, durations: Mapping[str, float], silences: Mapping[str, float] | None = None) -> Usual:
    """The baseline with one more healthy start in it.

    A phase that did not occur this time keeps its samples: a start that resumes midway tells less, not
    that the phase is gone. Negative durations come from a clock that was set and teach nothing.
    """
    samples, longest = _add(usual.samples, durations), _add(usual.silences, silences or {})
    return replace(usual, samples=samples, silences=longest)


def learn_speeds(usual: Usual, speeds: Mapping[str, float]) -> Usual:
    """The baseline with the numbers of one more smoke test in it."""
    return replace(usual, speeds=_add(usual.speeds, speeds))


def _add(known: Mapping[str, tuple[float, ...]], new: Mapping[str, float]) -> dict[str, tuple[float, ...]]:
    samples = dict(known)
    for key, seconds in new.items():
        if seconds >= 0:
            samples[key] = (*samples.get(key, ()), seconds)[-REMEMBERED:]
    return samples

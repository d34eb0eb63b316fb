"""What the startups and incidents of this process came to, counted for the metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.core.actions import PostReply, StallReported, VerdictReached

if TYPE_CHECKING:
    from bot.core.actions import Action


@dataclass(slots=True)
class Tallies:
    """Since this process began; what another process told is counted there. `running`: just now."""

    verdicts: Counter[str] = field(default_factory=Counter)
    stalls: int = 0
    endings: Counter[str] = field(default_factory=Counter)  # of incidents
    webhooks: Counter[str] = field(default_factory=Counter)  # attempts by outcome, and "given_up"
    put_off: Counter[str] = field(default_factory=Counter)  # faults of ours, by what is begun anew after them
    running: int = 0

    def note(self, action: Action) -> None:
        """Of whatever the core orders, what counts."""
        match action:
            case PostReply(reply=VerdictReached(verdict=verdict)):
                self.verdicts[verdict.value] += 1
            case PostReply(reply=StallReported()):
                self.stalls += 1
            case _:
                pass

"""What every reader of a saved log gives out: one physical line, and what its carrier knew of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from bot.core.events import Origin


@dataclass(frozen=True, slots=True)
class Row:
    """One physical line without what its carrier wrote before it."""

    text: str
    at: datetime | None = None  # None: the engine's own prefix may tell
    pid: int | None = None
    origin: Origin | None = None  # None: its words may tell
    fields: dict[str, str] = field(default_factory=dict)
    stream: str = ""  # whose lines follow each other

"""Which unit a saved journal is about, where systemd speaks of several: a whole host's journal was saved."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from bot.core.events import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bot.core.events import LogLine

_NAMED = re.compile(
    r"(?i)vllm|sglang|llama|llm|tgi|text-gen|trt|triton|infer|serve|model|kimi|qwen|deepseek|gpt"
)
_BY_NAME = 1000  # against which no number of lines counts
_FELL = re.compile(r"Main process exited|Failed with result|Scheduled restart|killed by the OOM killer")
_BY_FALL = 5


def find_unit(lines: Iterable[LogLine]) -> str | None:
    """The unit named like an engine, else the one that fell or is spoken of most; None where there is one."""
    votes: Counter[str] = Counter()
    for line in lines:
        unit = line.fields.get("UNIT") if line.origin is Origin.MANAGER else None
        if unit is not None:
            votes[unit] += _BY_FALL if _FELL.search(line.reading) else 1
    for unit in votes:
        votes[unit] += _BY_NAME if _NAMED.search(unit) and unit.endswith(".service") else 0
    return votes.most_common(1)[0][0] if len(votes) > 1 else None

"""Whether memory grows with the lines that are read: one decoder, one tracker, one startup."""

from __future__ import annotations

import gc
import os
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from bench.lines import write_journal
from bench.readers import Live, Parts, new_decoder

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATM = Path("/proc/self/statm")
_MARKS = (0.1, 0.2, 0.5, 1.0)  # of all lines
_BATCH = 100  # entries, about what a read over SSH brings

_Row = tuple[str, str, str, str]


def grow(lines: int) -> Iterator[_Row]:
    """Rows of a table: the memory in use at each mark, and its growth from the first to the last."""
    if not _STATM.exists():
        yield "memory", "skipped: needs /proc", "", ""
        return
    marks = {int(lines * share) // _BATCH * _BATCH: share for share in _MARKS}
    seen: list[tuple[int, float]] = []
    for number in _read_on(lines):
        if number in marks:
            seen.append((number, _megabytes()))
            yield f"memory after {number:,} lines", f"{seen[-1][1]:.1f} MB", "", ""
    if len(seen) > 1 and seen[-1][0] > seen[0][0]:
        grown = (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0]) * 1e6
        yield "growth for each million lines", f"{grown:.2f} MB", "flat", ""


def _read_on(lines: int) -> Iterator[int]:
    """Reads on, all starts as if they were one: nothing is ever begun anew and nothing forgotten."""
    entries, decoder = write_journal(), new_decoder()
    parts, live = Parts(one=True), Live(one=True)
    for number in range(_BATCH, lines + 1, _BATCH):
        for line in decoder.feed(b"".join(entry.as_json() for entry in islice(entries, _BATCH))):
            parts.read(line)
            live.read(replace(line, invocation=live.run or line.invocation))
        yield number


def _megabytes() -> float:
    gc.collect()
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

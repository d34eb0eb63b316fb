"""What the journal already holds when the practice begins: a run that has been serving for hours."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from bot.practice.scenarios import sglang_log as log

if TYPE_CHECKING:
    from bot.practice.process import Process


def write_past(process: Process, *, since: datetime, until: datetime, pid: int) -> None:
    """A few lines of a service that has been up since then: the ready line, then decode lines by the hour."""
    _say(process, process.pid, log.READY, at=since + timedelta(minutes=7), rank=None)
    at = since + timedelta(minutes=20)
    while at < until:
        text = (
            "Decode batch, #running-req: 3, #token: 41822, token usage: 0.06, accept len: 3.10, "
            "accept rate: 0.70, cuda graph: True, gen throughput (token/s): 231.45, #queue-req: 0"
        )
        _say(process, pid, text, at=at, rank=0)
        at += timedelta(hours=1)


def _say(process: Process, pid: int, text: str, *, at: datetime, rank: int | None) -> None:
    comm = "python" if rank is None else f"sglang::scheduler_TP{rank}"
    process.write((log.stamp(at, rank) + text + "\n").encode(), pid=pid, comm=comm, at=at)

"""The tail: decoded lines as a file for people, which `replay` reads back to the last character."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING

from bot.core.events import LogLine, Origin

if TYPE_CHECKING:
    from collections.abc import Iterable

HEADER = "# kimi-bot log: "  # what such a file begins with
CONTINUATION = "\n\t"  # a line break inside one line

_WRITERS = {
    Origin.SERVICE: "service",
    Origin.MANAGER: "systemd",
    Origin.JOURNALD: "systemd-journald",
    Origin.KERNEL: "kernel",
    Origin.OTHER: "other",
}
_ROW = re.compile(r"\n(?!\t)")
_UNFIT = re.compile(r"[\s:\[\]]")


@dataclass(frozen=True, slots=True)
class TailFile:
    text: str
    lines: int
    masked: int  # places redaction masked


def render_tail(lines: Iterable[LogLine]) -> TailFile:
    """One row per line, `2026-05-29T23:49:47.123456+00:00 host ident[pid]: text`, the text untouched."""
    whole = [line for line in lines if not line.partial]
    masked = sum(line.masked for line in whole)
    rows = [f"{HEADER}{_count(len(whole), 'line')}, {_count(masked, 'secret')} masked", *map(_row, whole)]
    return TailFile("\n".join(rows) + "\n", len(whole), masked)


def split_rows(text: str) -> list[str]:
    """What such a file counts as lines, those of several rows whole; of any other file its rows."""
    whole = text.removesuffix("\n")
    if not whole:
        return []
    if not whole.startswith(HEADER):
        return whole.split("\n")
    return _ROW.split(whole)[1:]


def _row(line: LogLine) -> str:
    at = line.at.astimezone(UTC).isoformat(timespec="microseconds") if line.at else "-"
    host = _UNFIT.sub("_", line.fields.get("_HOSTNAME", "")) or "-"
    pid = "" if line.pid is None else f"[{line.pid}]"
    return f"{at} {host} {_writer(line)}{pid}: " + line.text.replace("\n", CONTINUATION)


def _writer(line: LogLine) -> str:
    """The identifier; only systemd's own lines may be read back as systemd's."""
    ident = _UNFIT.sub("_", line.fields.get("SYSLOG_IDENTIFIER", ""))
    if line.origin is Origin.SERVICE and ident and ident not in _WRITERS.values():
        return ident
    return _WRITERS[line.origin]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")

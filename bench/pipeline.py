"""The whole way of a journal, from bytes to findings and suspects, as ratios to what nobody can do without.

Processor time is measured, so that waiting for a busy machine does not count. Each round measures everything
once, one after the other, and the ratios are taken within a round: what the machine's other work does to
caches and clock is then in both. The median of the rounds counts.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from bench.lines import write_journal
from bench.memory import grow
from bench.readers import read_live, read_parts
from bot.core.entries import OUTPUT_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LINES = 200_000
ROUNDS = 5
GROWN = 500_000  # lines in one startup, to see whether memory grows; 10 million take minutes
GOAL, STRETCH = 4.0, 2.5  # times json.loads
REMOTE = ("/lib/systemd/systemd-journal-remote", "/usr/lib/systemd/systemd-journal-remote")
_NO_JOURNAL = "skipped: needs journalctl and systemd-journal-remote"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.pipeline", description=__doc__)
    parser.add_argument("--lines", type=int, default=GROWN, help="of the memory run (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the time runs (default: %(default)s)")
    asked = parser.parse_args(arguments)
    for row in grow(asked.lines):
        _print(*row)
    with tempfile.TemporaryDirectory() as folder:
        _compare(Path(folder), asked.rounds)
    return 0


def _compare(folder: Path, rounds: int) -> None:
    data = b"".join(entry.as_json() for entry in islice(write_journal(), LINES))
    lines = data.splitlines()
    runs: dict[str, Callable[[], object]] = {
        "json.loads": lambda: _parse(lines),
        "pipeline": lambda: read_parts(data),
        "startup": lambda: read_live(data),
    }
    journal = _build_journal(folder)
    if journal is not None:
        runs["journalctl"] = lambda: _print_journal(journal)
        runs["journalctl, fields asked for"] = lambda: _print_journal(
            journal, f"--output-fields={','.join(OUTPUT_FIELDS)}"
        )
    taken = [{name: _time(run) for name, run in runs.items()} for _ in range(rounds)]
    _print(f"{LINES:,} lines, {len(data) / 1e6:.0f} MB, {rounds} rounds", "median", "goal")
    for name in runs:
        seconds = statistics.median(each[name] for each in taken)
        _print(name, f"{seconds:.2f} s", "", f"{seconds / LINES * 1e6:.1f} µs a line")
    _print_ratio(taken, ("pipeline", "json.loads"), f"≤ {GOAL:g} ({STRETCH:g})")
    _print_ratio(taken, ("startup", "json.loads"), "")
    for name in ("journalctl", "journalctl, fields asked for"):
        if name in runs:
            _print_ratio(taken, ("pipeline", name), "< 1")
            _print_ratio(taken, ("startup", name), "")
        else:
            _print(f"pipeline / {name}", _NO_JOURNAL, "< 1")


def _print_ratio(taken: list[dict[str, float]], pair: tuple[str, str], goal: str) -> None:
    ratios = [each[pair[0]] / each[pair[1]] for each in taken]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    _print(" / ".join(pair), f"{statistics.median(ratios):.2f}", goal, spread)


def _print(name: str, value: str, goal: str = "", note: str = "") -> None:
    sys.stdout.write(f"{name:<44} {value:>10}  {goal:<9} {note}".rstrip() + "\n")
    sys.stdout.flush()


def _time(run: Callable[[], object]) -> float:
    began = _spent()
    run()
    return _spent() - began


def _spent() -> float:
    """Processor time of this process and of those it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _parse(lines: list[bytes]) -> None:
    for line in lines:
        json.loads(line)


def _build_journal(folder: Path) -> Path | None:
    """The same journal as journald keeps it; None where its tools are missing."""
    remote = next((path for path in REMOTE if Path(path).exists()), None)
    if remote is None or shutil.which("journalctl") is None:
        return None
    export = b"".join(entry.as_export() for entry in islice(write_journal(), LINES))
    journal = folder / "bench.journal"  # and files beside it, where one becomes too large
    subprocess.run((remote, "--output", str(journal), "-"), input=export, check=True, capture_output=True)
    return folder


def _print_journal(folder: Path, *options: str) -> None:
    command = ("journalctl", "--directory", str(folder), "--no-pager", "-o", "json", "--all", *options)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())

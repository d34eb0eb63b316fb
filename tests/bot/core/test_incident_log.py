"""The end of a run's log: its phase, its cause, and the lines before it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.core.events import PhaseId
from bot.core.incident_log import EXCERPT, read_run
from bot.core.incident_state import RunRead
from config.engine_file import load_engine
from tests.support.incidents import BEGAN, MEMBER, OUT_OF_MEMORY, make_lines

ACCESS = '[2026-05-29 03:12:39] INFO:     127.0.0.1:5555 - "GET /health HTTP/1.1" 200 OK'
READY = "[2026-05-29 03:00:00] The server is fired up and ready to roll!"
LOADING = "[2026-05-29 03:10:00 TP0] Load weight begin. avail mem=78.50 GB"


def _read(*texts: str, engine: str = "sglang") -> RunRead:
    return read_run(make_lines(*texts), load_engine(engine), member=MEMBER, now=BEGAN)


def test_nothing_tells_nothing() -> None:
    assert _read() == RunRead()


@pytest.mark.parametrize("engine", ["sglang", "auto"])
def test_the_first_root_error_names_the_cause(engine: str) -> None:
    read = _read(*OUT_OF_MEMORY, engine=engine)
    assert read.cause.startswith("Out of GPU memory")
    assert read.rank == "TP3"
    assert read.advice
    assert any("OutOfMemoryError" in line for line in read.evidence)
    assert read.phase is None  # nothing shows that it was starting


def test_it_died_in_the_phase_it_was_in() -> None:
    read = _read(LOADING, *OUT_OF_MEMORY)
    assert read.phase is PhaseId.WEIGHTS
    assert read.lasted == timedelta(seconds=4)


def test_what_was_ready_had_served() -> None:
    assert _read(LOADING, READY, *OUT_OF_MEMORY).phase is None


def test_without_a_reason_the_lines_are_shown_all_the_same() -> None:
    read = _read(LOADING, "something new")
    assert not read.is_known
    assert read.phase is PhaseId.WEIGHTS
    assert read.excerpt == (LOADING, "something new")


def test_the_lines_before_the_end_are_not_the_noise_of_serving() -> None:
    texts = [READY, *(f"something {number}" for number in range(30)), *[ACCESS] * 50]
    read = _read(*texts)
    assert len(read.excerpt) == EXCERPT
    assert read.excerpt[-1] == "something 29"


def test_a_beginning_without_its_rest_is_left_out() -> None:
    whole, part = make_lines("one", "two")
    read = read_run((whole, replace(part, partial=True)), load_engine("sglang"), member=MEMBER, now=BEGAN)
    assert read.excerpt == ("one",)


def test_long_lines_are_cut() -> None:
    assert len(_read("x" * 10_000).excerpt[0]) == 400

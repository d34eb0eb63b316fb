"""Which lines tell that a service dies or is not well, and that the host's own search finds them."""

from __future__ import annotations

import re

import pytest

from bot.core.events import LogLine, Origin
from bot.core.incident_state import SignKind
from bot.core.monitor_lines import (
    Ailing,
    Began,
    Died,
    Ended,
    Restarting,
    Stopping,
    read_telling,
    say_death,
    telling_pattern,
)
from config.engine_file import load_engine

SGLANG = load_engine("sglang")
FATAL = {
    "sglang": (
        "[2026-05-29 23:49:47 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        "[2026-05-29 23:49:47] Subprocess scheduler_0 (pid=7) crashed with exit code -6. Triggering",
        "[2026-05-29 23:49:47] SIGQUIT received. signum=None, frame=None. It usually",
        "[2026-05-29 23:49:47 TP3] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
        "Fatal Python error: Segmentation fault",
    ),
    "vllm": (
        "(EngineCore pid=2) ERROR 05-29 23:49:05 [core.py:58] EngineCore encountered a fatal error.",
        "(APIServer pid=1) ERROR 05-29 23:49:05 [a.py:5] Worker proc VllmWorker-1 died unexpectedly",
    ),
}
AILING = {
    "[2026-05-29 23:49:47 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 1": SignKind.MEMORY,
    "[2026-05-29 23:49:47] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)": (
        SignKind.WATCHDOG
    ),
}
XID = "NVRM: Xid (PCI:0000:4e:00): 79, pid=7, GPU has fallen off the bus."


def _line(text: str, origin: Origin = Origin.SERVICE) -> LogLine:
    return LogLine(text, text, origin=origin)


@pytest.mark.parametrize("text", FATAL["sglang"])
def test_what_sglang_does_not_survive(text: str) -> None:
    told = read_telling(_line(text), SGLANG)
    assert isinstance(told, Died)
    assert told.kind is SignKind.FATAL
    assert told.evidence == text
    assert re.search(telling_pattern(), text)


@pytest.mark.parametrize("text", FATAL["vllm"])
@pytest.mark.parametrize("engine", ["vllm", "auto"])
def test_what_vllm_does_not_survive(text: str, engine: str) -> None:
    assert isinstance(read_telling(_line(text), load_engine(engine)), Died)
    assert re.search(telling_pattern(), text)


@pytest.mark.parametrize(("text", "kind"), AILING.items())
def test_what_is_not_well(text: str, kind: SignKind) -> None:
    told = read_telling(_line(text), SGLANG)
    assert isinstance(told, Ailing)
    assert told.kind is kind
    assert re.search(telling_pattern(), text)


def test_a_fault_of_a_gpu_is_told_with_its_number() -> None:
    told = read_telling(_line(XID, Origin.KERNEL), SGLANG)
    assert isinstance(told, Ailing)
    assert told.sentence == "the GPU driver reports Xid 79 (PCI:0000:4e:00)"
    assert re.search(telling_pattern(), XID)


@pytest.mark.parametrize(
    "text",
    [
        "[2026-05-29 23:49:47 TP0] Decode batch, #running-req: 3, #token: 4567, token usage: 0.01",
        '[2026-05-29 23:49:47] INFO:     127.0.0.1:5555 - "GET /health HTTP/1.1" 200 OK',
        "[2026-05-29 23:49:47] a prompt about how the Scheduler hit an exception",
        "",
    ],
)
def test_most_lines_tell_nothing(text: str) -> None:
    assert read_telling(_line(text), SGLANG) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Started kimi.service - Kimi.", Began),
        ("Stopping kimi.service - Kimi...", Stopping),
        ("Stopped kimi.service - Kimi.", Ended),
        ("kimi.service: Deactivated successfully.", Ended),
        ("kimi.service: Main process exited, code=killed, status=11/SEGV", Died),
        ("kimi.service: Failed with result 'exit-code'.", Died),
        ("kimi.service: Start request repeated too quickly.", Died),
        ("kimi.service: A process of this unit has been killed by the OOM killer.", Died),
        ("kimi.service: Scheduled restart job, restart counter is at 4.", Restarting),
        ("kimi.service: Main process exited, code=exited, status=0/SUCCESS", None),
        ("kimi.service: Consumed 3min CPU time.", None),
    ],
)
def test_what_systemd_says(text: str, kind: type | None) -> None:
    told = read_telling(_line(text, Origin.MANAGER), SGLANG)
    assert told is None if kind is None else isinstance(told, kind)
    assert told is None or re.search(telling_pattern(), text)
    assert told is None or not re.search(telling_pattern(systemd=False), text)


def test_the_counter_is_read_from_the_words_where_the_field_is_not_there() -> None:
    text = "kimi.service: Scheduled restart job, restart counter is at 4."
    told = read_telling(_line(text, Origin.MANAGER), SGLANG)
    assert isinstance(told, Restarting)
    assert told.counter == 4


def test_a_beginning_whose_rest_has_not_come_is_not_judged() -> None:
    text = FATAL["sglang"][0]
    assert read_telling(LogLine(text, text, partial=True), SGLANG) is None
    assert read_telling(_line(text, Origin.OTHER), SGLANG) is None


@pytest.mark.parametrize(
    ("exited", "result", "told"),
    [
        ("killed 11", None, "process died by SIGSEGV"),
        (
            "killed 9",
            None,
            "process died by SIGKILL (sent by a person or a tool, or by the engine to itself after an error)",
        ),
        ("exited 1", "exit-code", "process ended with exit status 1"),
        (None, "exit-code", "systemd ends the unit with result exit-code"),
        (None, "oom-kill", "the kernel killed it: memory ran out (oom-kill)"),
        (None, "watchdog", "systemd killed it: it ran out of time (watchdog)"),
        (None, None, "process ended"),
    ],
)
def test_how_it_died_in_words(exited: str | None, result: str | None, told: str) -> None:
    assert say_death(exited, result) == told

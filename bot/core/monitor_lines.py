"""What one line tells about a service that runs: that a start began, that it dies, that it is not well.

Most of what a serving engine prints tells nothing of this, so the host sends only what `telling_pattern`
matches; it is made for `journalctl --grep`, whose expressions are those of PCRE.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from bot.core.downfall import Said, read_exit, read_manager
from bot.core.events import Origin
from bot.core.exit_status import name_signal
from bot.core.incident_state import SignKind
from bot.core.ranks import read_parts
from config.engine_file import AUTO, load_engines
from config.engine_rules import Kind

if TYPE_CHECKING:
    from bot.core.events import LogLine
    from config.engine_file import EngineFile

_LONGEST = 600  # characters of a line that is kept as evidence
_KILL = 9
_KILLERS = "sent by a person or a tool, or by the engine to itself after an error"
# Literals of which each line that matters here holds one; what systemd itself says is all let through.
_TELLING = (
    "hit an exception",
    "atchdog timeout",
    "crashed with exit code",
    "SIGQUIT received",
    "Received sigquit",
    "scheduler is dead",
    "scheduler died",
    "fatal error",
    "failed to start",
    "died unexpectedly",
    "EngineDeadError",
    "got fatal signal|Got fatal signal",
    "Engine process",
    "Failed core proc",
    "has errored already",
    "Fatal Python error",
    "terminate called",
    "[Ss]egmentation fault",
    "address already in use",
    "[Pp]ort .{0,20}in use",
    "out of memory",
    "KV cache pool is full",
    "preempted by",
    "NVRM: Xid",
)
# What systemd itself says of a unit's life, in the words of every version.
_LIFE = (
    "^Start(ing|ed) ",
    "^Stopp(ing|ed) ",
    "^Failed to start ",
    "Main process exited",
    "Failed with result",
    "Deactivated successfully",
    "Succeeded",
    "Scheduled restart job",
    "OOM killer",
    "repeated too quickly",
    "timed out",
)
_GATE = re.compile("|".join(_TELLING))
_XID = re.compile(r"NVRM: Xid \((?P<device>[^)]*)\): (?P<number>\d+)")
_FULL = re.compile(r"KV cache pool is full|is preempted by PreemptionMode|(?:Prefill|Decode) out of memory")
_SOFT = re.compile(r"[Ww]atchdog timeout .*soft=True|Health check failed\.")


def telling_pattern(*, systemd: bool = True) -> str:
    """For `journalctl --grep`: all that a watch wants to see; `systemd`: of its own lines too."""
    return "|".join((*_LIFE, *_TELLING) if systemd else _TELLING)


@dataclass(frozen=True, slots=True)
class Began:
    """A start of the unit."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """Somebody asked systemd to stop it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """It went in order, or by itself without an error."""


@dataclass(frozen=True, slots=True)
class Restarting:
    """It ended, and systemd will start it again; `counter`: how often it has then."""

    counter: int
    evidence: str


@dataclass(frozen=True, slots=True)
class Died:
    kind: SignKind
    sentence: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Ailing:
    """It goes on, but not well."""

    kind: SignKind
    sentence: str
    evidence: str


Told: TypeAlias = Began | Stopping | Ended | Restarting | Died | Ailing
_SIMPLE: dict[Said, Told] = {
    Said.STARTING: Began(),
    Said.STOPPING: Stopping(),
    Said.STOPPED: Ended(),
    Said.DEACTIVATED: Ended(),
}


def read_telling(line: LogLine, engine: EngineFile) -> Told | None:
    """None for a line that tells nothing here."""
    if line.partial:
        return None
    match line.origin:
        case Origin.MANAGER:
            return _read_manager(line)
        case Origin.KERNEL:
            return _read_kernel(line.reading)
        case Origin.SERVICE:
            return _read_service(line.reading, engine)
        case _:
            return None


def _read_manager(line: LogLine) -> Told | None:
    said, evidence = read_manager(line), _short(line.reading)
    match said:
        case Said.EXITED:
            exited = read_exit(line)
            return None if exited == "exited 0" else Died(SignKind.PROCESS, say_death(exited, None), evidence)
        case Said.FAILED | Said.OUT_OF_MEMORY:
            return Died(SignKind.PROCESS, say_death(None, _result(said, line)), evidence)
        case Said.TOO_OFTEN:
            return Died(SignKind.LOOP, say_death(None, "start-limit-hit"), evidence)
        case Said.RESTARTING:
            return Restarting(_counter(line), evidence)
        case None:
            return None
        case _:
            return _SIMPLE.get(said)


def _counter(line: LogLine) -> int:
    found = re.search(r"restart counter is at (\d{1,9})", line.reading)
    told = line.fields.get("N_RESTARTS") or (found[1] if found else "")
    return int(told) if told.isdigit() else 0


def _result(said: Said, line: LogLine) -> str | None:
    if said is Said.OUT_OF_MEMORY:
        return "oom-kill"
    found = re.search(r"Failed with result '([a-z-]+)'", line.reading)
    return line.fields.get("UNIT_RESULT") or (found[1] if found else None)


def say_death(exited: str | None, result: str | None) -> str:
    """`exited`: "killed 11", as `read_exit` gives it; `result`: systemd's word for the unit."""
    if result == "oom-kill":
        return "the kernel killed it: memory ran out (oom-kill)"
    if result == "start-limit-hit":
        return "systemd starts it no more: it was started too often (start-limit-hit)"
    if result in {"timeout", "watchdog"}:
        return f"systemd killed it: it ran out of time ({result})"
    code, _, status = (exited or "").partition(" ")
    number = int(status) if status.isdigit() else 0
    if code in {"killed", "dumped"}:
        kill = f" ({_KILLERS})" if number == _KILL else ""
        return f"process died by {name_signal(number)}{kill}"
    if code == "exited":
        return f"process ended with exit status {number}"
    return (
        f"systemd ends the unit with result {result}" if result and result != "success" else "process ended"
    )


def _read_kernel(reading: str) -> Told | None:
    found = _XID.search(reading)
    if found is None:
        return None
    told = f"the GPU driver reports Xid {found['number']} ({found['device']})"
    return Ailing(SignKind.GPU, told, _short(reading))


def _read_service(reading: str, engine: EngineFile) -> Told | None:
    if _GATE.search(reading) is None:
        return None
    if _FULL.search(reading):
        return Ailing(SignKind.MEMORY, "the KV cache is full and requests are put back", _short(reading))
    if _SOFT.search(reading):
        return Ailing(SignKind.WATCHDOG, "the engine's own watchdog speaks", _short(reading))
    for each in load_engines().values() if engine.name == AUTO else (engine,):
        text = _fatal_text(reading, each)
        if text is not None:
            return Died(SignKind.FATAL, f"the log says: {_short(text, 160)}", _short(reading))
    return None


def _fatal_text(reading: str, engine: EngineFile) -> str | None:
    for said in read_parts(engine, reading):
        hit = engine.read(said.text)
        if hit is not None and hit.kind is Kind.FAILURE and hit.rule.fatal and not hit.rule.warning:
            return said.text.strip()
    return None


def _short(text: str, most: int = _LONGEST) -> str:
    told = text.strip("\n")
    return told if len(told) <= most else told[: most - 1] + "…"

"""How a unit ends: what systemd's own lines and states say about it, in a sentence a person understands."""

from __future__ import annotations

import re
from enum import StrEnum
from signal import Signals
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.core.events import LogLine, UnitState
    from bot.core.startup_state import MemberState


class Said(StrEnum):
    """What a line of systemd about the unit tells."""

    STARTING = "starting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    EXITED = "exited"
    FAILED = "failed"
    DEACTIVATED = "deactivated"
    NOT_STARTED = "not started"
    RESTARTING = "restarting"
    OUT_OF_MEMORY = "out of memory"
    FORCED = "forced"
    TOO_OFTEN = "too often"


# systemd's catalogue: stable over versions, where the words are not.
_MESSAGES: dict[str, Said] = {
    "7d4958e842da4a758f6c1cdc7b36dcc5": Said.STARTING,
    "39f53479d3a045ac8e11786248231fbf": Said.STARTING,
    "de5b426a63be47a7b6ac3eaac82e2f6f": Said.STOPPING,
    "9d1aaa27d60140bd96365438aad20286": Said.STOPPED,
    "be02cf6855d2428ba40df7e9d022f03d": Said.NOT_STARTED,
    "98e322203f7a4ed290d09fe03c09fe15": Said.EXITED,
    "d9b373ed55a64feb8242e02dbe79a49c": Said.FAILED,
    "7ad2d189f7e94e70a38c781354912448": Said.DEACTIVATED,
    "5eb03494b6584870a536b337290809b3": Said.RESTARTING,
    "fe6faa94e7774663a0da52717891d8ef": Said.OUT_OF_MEMORY,
}
# Where there is no MESSAGE_ID: lines systemd gives none, and journals saved as text.
_WORDS: tuple[tuple[re.Pattern[str], Said], ...] = (
    (re.compile(r"Start request repeated too quickly"), Said.TOO_OFTEN),
    (re.compile(r"State '[a-z-]+' timed out\. (?:Killing|Terminating)"), Said.FORCED),
    (re.compile(r"Main process exited, code="), Said.EXITED),
    (re.compile(r"Failed with result '"), Said.FAILED),
    (re.compile(r"Deactivated successfully|: Succeeded\.$"), Said.DEACTIVATED),
    (re.compile(r"Scheduled restart job"), Said.RESTARTING),
    (re.compile(r"killed by the OOM killer"), Said.OUT_OF_MEMORY),
    (re.compile(r"^Stopping "), Said.STOPPING),
    (re.compile(r"^Stopped "), Said.STOPPED),
    (re.compile(r"^Failed to start "), Said.NOT_STARTED),
    (re.compile(r"^Start(?:ing|ed) "), Said.STARTING),
)
_EXIT = re.compile(r"code=(\w+), status=(\d+)(?:/(\S+))?")
_RESULT = re.compile(r"Failed with result '([a-z-]+)'")
_COUNTER = re.compile(r"restart counter is at (\d+)")
_CODES = {1: "exited", 2: "killed", 3: "dumped"}
_KILL = 9
_LIMIT = "start-limit-hit"


def read_manager(line: LogLine) -> Said | None:
    """What systemd says here; None for the many lines that say nothing about the unit's life."""
    said = _MESSAGES.get(line.fields.get("MESSAGE_ID", ""))
    if said is None:
        said = next((said for pattern, said in _WORDS if pattern.search(line.reading)), None)
    if said is Said.EXITED and "Control process" in line.reading:
        return (
            None  # an ExecStartPre= and the like share the id; the unit's own result tells whether it matters
        )
    return said


def note_end(member: MemberState, said: Said, line: LogLine) -> None:
    """Keep what one of systemd's lines tells about the end of the watched start."""
    match said:
        case Said.EXITED:
            member.exit = read_exit(line) or member.exit
        case Said.FAILED:
            member.result = _read(line, "UNIT_RESULT", _RESULT) or member.result
        case Said.RESTARTING:
            counter = _read(line, "N_RESTARTS", _COUNTER)
            member.counter = int(counter) if counter and counter.isdigit() else member.counter
        case Said.OUT_OF_MEMORY:
            member.result = "oom-kill"
        case Said.TOO_OFTEN:
            member.result, member.limited = _LIMIT, True  # the result is overruled by that of the last crash
        case Said.STOPPING:
            member.stopping = True
        case _:
            pass


def note_state(member: MemberState, unit: UnitState) -> None:
    """Keep what `systemctl show` tells about the end; systemd's lines, where they came, tell it too."""
    if unit.result != "success" and member.result is None:
        member.result = unit.result
    if unit.exec_code in _CODES and member.exit is None:
        member.exit = f"{_CODES[unit.exec_code]} {unit.exec_status}"
    counter = unit.restarts + (unit.sub == "auto-restart")  # counted only when the wait is over
    if member.restarts is not None and counter > member.restarts:
        member.counter = max(counter, member.counter or 0)


def read_exit(line: LogLine) -> str | None:
    """`killed 9`, `exited 1`: from the fields, else from the words."""
    code, status = line.fields.get("EXIT_CODE"), line.fields.get("EXIT_STATUS")
    found = _EXIT.search(line.reading)
    if found is not None:
        return f"{found[1]} {found[2]}"
    return f"{code} {status}" if code and status else None


def say_end(member: MemberState, unit_name: str) -> str:
    """Why the unit is down, as far as systemd knows."""
    if member.result == "oom-kill":
        return "the kernel killed it because the host ran out of memory (oom-kill)"
    if member.result == _LIMIT:
        return say_limit(unit_name)
    if member.stopping:
        return "it was stopped outside chat before it was ready"
    if member.result in {"timeout", "watchdog"}:
        return f"systemd ended it because it ran out of time ({member.result})"
    return _say_exit(member)


def _say_exit(member: MemberState) -> str:
    code, _, status = (member.exit or "").partition(" ")
    number = int(status) if status.isdigit() else None
    if code in {"killed", "dumped"} and number == _KILL:
        return (
            "the main process was killed with SIGKILL; an engine does that to itself after an error, "
            "so it does not mean that memory ran out"
        )
    if code in {"killed", "dumped"} and number is not None:
        return f"the main process was killed by {_signal(number)}"
    if code == "exited" and number:
        return f"the main process ended with exit status {number}"
    if code == "exited" or member.result in {None, "success"}:
        return "the main process ended by itself, without an error, before it was ready"
    return f"the unit is down: systemd says {member.result}"


def is_crash(member: MemberState) -> bool:
    """A signal nobody sends on purpose: it says more than a line of the log."""
    code, _, status = (member.exit or "").partition(" ")
    return code in {"killed", "dumped"} and status not in {"2", "9", "15"}


def say_limit(unit_name: str) -> str:
    """No start comes of anything until a person allows it."""
    return (
        f"systemd refuses to start it: it was started too often ({_LIMIT}); "
        f"`systemctl reset-failed {unit_name}` allows the next start"
    )


def say_loop(counter: int | None) -> str:
    """A crash loop: such a unit never shows as failed."""
    if not counter:
        return "systemd starts it again by itself after each crash"
    return f"systemd starts it again by itself (restart counter {counter}; attempt {counter + 1} follows)"


def _signal(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def _read(line: LogLine, key: str, pattern: re.Pattern[str]) -> str | None:
    found = pattern.search(line.reading)
    return line.fields.get(key) or (found[1] if found else None)

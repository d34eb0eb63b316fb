"""What `systemctl` answers for the practice unit: verbs, properties, exit codes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.practice.units import JobVerb, Unit

NOT_SET = "[not set]"
_DEAD: dict[str, str] = {
    "Type": "simple",
    "Restart": "no",
    "NotifyAccess": "none",
    "MainPID": "0",
    "ControlPID": "0",
    "Result": "success",
    "NRestarts": "0",
    "ExecMainPID": "0",
    "ExecMainCode": "0",
    "ExecMainStatus": "0",
    "ControlGroup": "",
    "MemoryCurrent": NOT_SET,
    "CPUUsageNSec": NOT_SET,
    "TasksCurrent": NOT_SET,
    "IOReadBytes": NOT_SET,
    "IOReadOperations": NOT_SET,
    "LoadState": "not-found",
    "ActiveState": "inactive",
    "SubState": "dead",
    "FragmentPath": "",
    "DropInPaths": "",
    "UnitFileState": "",
    "InvocationID": "",
    "Job": "",
    "NeedDaemonReload": "no",
}
_FLAGS = {"--no-block", "--version", "--quiet", "-q", "--no-ask-password"}
_STAMPS = (
    "ExecMainStartTimestamp",
    "ExecMainExitTimestamp",
    "StateChangeTimestamp",
    "ActiveEnterTimestamp",
    "ActiveExitTimestamp",
    "InactiveExitTimestamp",
    "InactiveEnterTimestamp",
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed and how it ended."""

    status: int = 0
    output: str = ""
    error: str = ""


def answer_systemctl(words: Sequence[str], units: dict[str, Unit], *, user: bool) -> Answer:
    """`words` without the command's name, scope options and `--no-pager`."""
    options = [word for word in words if word in _FLAGS]
    match [word for word in words if word not in options]:
        case ["start" | "stop" | "restart" as verb, name]:
            return _submit(verb, name, units, options)
        case ["show", *rest]:
            return _show(rest, units, user=user)
        case ["daemon-reload"]:
            return _reload(units)
        case ["is-active", name]:
            unit = units.get(name)
            active = "inactive" if unit is None else unit.active
            status = 0 if active == "active" else 4 if unit is None else 3
            return Answer(status, active + "\n")
        case [] if "--version" in options:
            return Answer(output="systemd 252 (252.39-1~deb12u2)\n")
        case other:
            return Answer(1, error=f"Unknown command verb {' '.join(other)}.\n")


def _submit(verb: JobVerb, name: str, units: dict[str, Unit], options: list[str]) -> Answer:
    unit = units.get(name)
    if unit is None:
        known = f"{name} not loaded" if verb == "stop" else f"{name} not found"
        return Answer(5, error=f"Failed to {verb} {name}: Unit {known}.\n")
    if "--no-block" not in options:
        return Answer(1, error="practice: only --no-block is played here, a bot never waits for a job\n")
    unit.submit(verb)
    return Answer()


def _reload(units: dict[str, Unit]) -> Answer:
    for unit in units.values():
        unit.reload()
    return Answer()


def _show(rest: list[str], units: dict[str, Unit], *, user: bool) -> Answer:
    wanted, names, values_only = _show_options(rest)
    blocks = []
    for name in names:
        unit = units.get(name)
        found = unknown_properties(name) if unit is None else properties(unit, user=user)
        shown = [item for item in found.items() if not wanted or item[0] in wanted]
        lines = [value if values_only else f"{key}={value}" for key, value in shown]
        blocks.append("".join(line + "\n" for line in lines))
    return Answer(output="\n".join(blocks))


def _show_options(rest: list[str]) -> tuple[set[str], list[str], bool]:
    wanted: set[str] = set()
    names: list[str] = []
    words = iter(rest)
    values_only = False
    for word in words:
        match word.split("=", 1):
            case ["-p" | "--property" | "-P"]:
                wanted.update(next(words, "").split(","))
            case ["--property", listed]:
                wanted.update(listed.split(","))
            case _ if word.startswith("-p"):
                wanted.update(word[2:].split(","))
            case _ if not word.startswith("-"):
                names.append(word)
        values_only = values_only or word in {"-P", "--value"}
    return wanted, names, values_only


def unknown_properties(name: str) -> dict[str, str]:
    """An unknown unit is shown too, and the exit status is 0."""
    stamps = {f"{stamp}{kind}": "0" if kind else "" for stamp in _STAMPS for kind in ("", "Monotonic")}
    return _DEAD | stamps | {"Id": name, "Names": name, "Description": name}


def properties(unit: Unit, *, user: bool = False) -> dict[str, str]:
    """In an order of systemd's own, whatever order was asked for."""
    file, process, last = unit.file, unit.process, unit.last_exit
    found = unknown_properties(file.name) | {
        "Restart": file.restart,
        "RestartUSec": _span(file.restart_after.total_seconds()),
        "TimeoutStopUSec": _span(file.stop_timeout.total_seconds()),
        "MainPID": str(process.pid if process is not None else 0),
        "Result": unit.result,
        "NRestarts": str(unit.restarts),
        "ExecMainPID": str(unit.last_pid),
        "ExecMainCode": str(last.code if last is not None else 0),
        "ExecMainStatus": str(last.status if last is not None else 0),
        "ControlGroup": file.cgroup if process is not None else "",
        "Description": file.description,
        "LoadState": "loaded",
        "ActiveState": unit.active,
        "SubState": unit.sub,
        "FragmentPath": f"/etc/systemd/{'user' if user else 'system'}/{file.name}",
        "DropInPaths": " ".join(file.drop_ins),
        "ExecStart": _exec_start(file.command_line),
        "Environment": " ".join(file.environment),
        "NeedDaemonReload": "no" if unit.edited is None else "yes",
        "UnitFileState": "enabled",
        "InvocationID": unit.invocation or "",
        "Job": str(unit.job or ""),
    }
    return found | _accounting(unit) | _stamps(unit)


def _exec_start(command_line: str) -> str:
    """The words joined with blanks, as systemd 252 prints them."""
    program = command_line.partition(" ")[0]
    return (
        f"{{ path={program} ; argv[]={command_line} ; ignore_errors=no ; start_time=[n/a] ; "
        "stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }"
    )


def _accounting(unit: Unit) -> dict[str, str]:
    meter = unit.last_meter
    if meter is None:
        return {}
    running = unit.process is not None
    counted = {"CPUUsageNSec": str(meter.cpu_nanoseconds)}
    if running:
        counted |= {"TasksCurrent": str(meter.tasks), "MemoryCurrent": str(meter.memory_bytes)}
    if unit.file.io_accounting:
        counted["IOReadBytes"] = str(meter.read_bytes)
    return counted


def _stamps(unit: Unit) -> dict[str, str]:
    shown: dict[str, str] = {}
    for name, at in unit.stamps.items():
        shown[name] = render_timestamp(at)
        shown[f"{name}Monotonic"] = str(unit.journal.monotonic(at))
    return shown


def render_timestamp(at: datetime) -> str:
    """As `TZ=UTC systemctl show` prints a time."""
    return f"{at.astimezone(UTC):%a %Y-%m-%d %H:%M:%S} UTC"


def _span(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    minutes, rest = divmod(int(seconds), 60)
    return " ".join(([f"{minutes}min"] if minutes else []) + ([f"{rest}s"] if rest or not minutes else []))

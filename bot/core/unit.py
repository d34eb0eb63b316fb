"""Reads what one `systemctl show` says about a unit."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from bot.core.events import InvocationId, UnitState

SHOW_PROPERTIES: tuple[str, ...] = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "InvocationID",
    "Job",
    "NRestarts",
    "MainPID",
    "ExecMainCode",
    "ExecMainStatus",
    "NeedDaemonReload",
    "Restart",
    "CPUUsageNSec",
    "MemoryCurrent",
    "TasksCurrent",
    "IOReadBytes",
    "ActiveEnterTimestamp",
)

# systemd's unit_name_is_valid: these characters, at most 255, one known suffix. A leading dash would be an
# option and a glob would name several units, so neither is let through.
UNIT_NAME = re.compile(
    r"(?!-)[A-Za-z0-9:_.\\@-]{1,247}\.(?:service|slice|scope|target|socket|mount|timer|path)"
)

_UNKNOWN = 2**64 - 1  # how older systemd prints a counter it does not have
_SIGNALS = {"exited": 1, "killed": 2, "dumped": 3}


def is_unit_name(name: str) -> bool:
    return UNIT_NAME.fullmatch(name) is not None


def parse_show(text: str) -> UnitState:
    """Read `KEY=value` lines; what is missing or unreadable takes the value that claims least.

    Timestamps are expected as `LC_ALL=C TZ=UTC systemctl show` prints them.
    """
    read = read_properties(text)
    return UnitState(
        load=read.get("LoadState") or "not-found",
        active=read.get("ActiveState") or "inactive",
        sub=read.get("SubState") or "dead",
        result=read.get("Result") or "success",
        invocation=_invocation(read.get("InvocationID", "")),
        job=_count(read.get("Job", "")) or None,
        restarts=_count(read.get("NRestarts", "")) or 0,
        main_pid=_count(read.get("MainPID", "")) or 0,
        exec_code=_exit_code(read.get("ExecMainCode", "")),
        exec_status=_count(read.get("ExecMainStatus", "")) or 0,
        need_daemon_reload=read.get("NeedDaemonReload") == "yes",
        restart_policy=read.get("Restart") or "no",
        cpu=_nanoseconds(read.get("CPUUsageNSec", "")),
        memory=_count(read.get("MemoryCurrent", "")),
        tasks=_count(read.get("TasksCurrent", "")),
        read=_count(read.get("IOReadBytes", "")),
        active_since=parse_timestamp(read.get("ActiveEnterTimestamp", "")),
    )


def read_properties(text: str) -> dict[str, str]:
    """`KEY=value` lines as a mapping: others are passed over, the first of a repeated key counts."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            found.setdefault(key.strip(), value.strip())
    return found


def parse_timestamp(text: str) -> datetime | None:
    """`Fri 2026-05-29 23:49:47 UTC`, or with microseconds; None for `n/a`, nothing, or another zone."""
    for form in ("%a %Y-%m-%d %H:%M:%S UTC", "%a %Y-%m-%d %H:%M:%S.%f UTC"):
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def _count(text: str) -> int | None:
    """Digits; None for `[not set]`, `[no data]`, `infinity`, nothing, and 2^64 - 1."""
    if not re.fullmatch(r"[0-9]{1,20}", text):
        return None
    count = int(text)
    return None if count >= _UNKNOWN else count


def _nanoseconds(text: str) -> timedelta | None:
    count = _count(text)
    return None if count is None else timedelta(microseconds=count // 1000)


def _exit_code(text: str) -> int:
    return _SIGNALS.get(text) or _count(text) or 0


def _invocation(text: str) -> InvocationId | None:
    if not re.fullmatch(r"[0-9a-f]{32}", text) or not text.strip("0"):
        return None
    return InvocationId(text)

"""One journal entry: its message, its time, and who wrote it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from bot.core.events import InvocationId, Origin

Entry = Mapping[str, object]  # as JSON hands it over: a value may be anything

# What `--output-fields=` is given. `__CURSOR`, `__REALTIME_TIMESTAMP` and `_BOOT_ID` come in any case, and
# `_CMDLINE`, which may hold a key, stays away.
OUTPUT_FIELDS: tuple[str, ...] = (
    "MESSAGE",
    "MESSAGE_ID",
    "PRIORITY",
    "SYSLOG_IDENTIFIER",
    "UNIT",
    "USER_UNIT",
    "INVOCATION_ID",
    "USER_INVOCATION_ID",
    "EXIT_CODE",
    "EXIT_STATUS",
    "UNIT_RESULT",
    "N_RESTARTS",
    "N_DROPPED",
    "JOB_TYPE",
    "JOB_RESULT",
    "CPU_USAGE_NSEC",
    "OBJECT_SYSTEMD_UNIT",
    "OBJECT_SYSTEMD_INVOCATION_ID",
    "COREDUMP_UNIT",
    "COREDUMP_SIGNAL_NAME",
    "_PID",
    "_COMM",
    "_HOSTNAME",
    "_TRANSPORT",
    "_STREAM_ID",
    "_LINE_BREAK",
    "_SYSTEMD_UNIT",
    "_SYSTEMD_USER_UNIT",
    "_SYSTEMD_INVOCATION_ID",
)
WITHHELD = "[left out by journalctl, which shows a message of 4,096 bytes and more with --all only]"

_SPOKEN = {"MESSAGE", "_PID", "_TRANSPORT", "_STREAM_ID", "_LINE_BREAK"}  # told by other parts of a LogLine
KEPT_FIELDS = tuple(name for name in OUTPUT_FIELDS if name not in _SPOKEN)
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_BYTE_DEPTH = 2  # a repeated field of byte arrays; no deeper nesting is anything of journald's


def read_word(entry: Entry, name: str) -> str | None:
    """A field that is one string; of a repeated one the first value."""
    value = entry.get(name)
    if type(value) is list and value:
        value = value[0]
    return value if isinstance(value, str) else None


def read_message(message: object) -> bytes:
    """MESSAGE as bytes: a string, byte values (so with any control character), null, or a list of those."""
    if message is None:
        return WITHHELD.encode()
    return _message_bytes(message, _BYTE_DEPTH)


def _message_bytes(message: object, depth: int) -> bytes:
    if isinstance(message, bytes):  # of the export format
        return message
    if isinstance(message, str):
        return message.encode("utf-8", "backslashreplace")
    if isinstance(message, list) and depth:
        try:
            return bytes(message)
        except (TypeError, ValueError):
            return b"\n".join(_message_bytes(value, depth - 1) for value in message)
    try:
        return json.dumps(message, ensure_ascii=False).encode("utf-8", "backslashreplace")
    except (RecursionError, ValueError):
        return b"[no message]"


def read_text(data: bytes) -> str:
    r"""Log bytes as text; what is no UTF-8 is written `\xff`: nothing is lost, and all can be stored."""
    return data.decode("utf-8", "backslashreplace")


def read_time(entry: Entry) -> datetime | None:
    """The host's clock when journald took the entry."""
    return read_stamp(entry.get("__REALTIME_TIMESTAMP"))


def read_stamp(stamp: object) -> datetime | None:
    """Microseconds since the epoch, as journald writes them."""
    try:
        return _EPOCH + int(stamp) * _MICROSECOND  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        return None


def read_pid(entry: Entry) -> int | None:
    word = read_word(entry, "_PID")
    if word is None or len(word) > 10 or not word.isdecimal():  # noqa: PLR2004 (more than any pid)
        return None
    return int(word)


def read_origin(entry: Entry) -> Origin:
    """Who wrote it. Trusted fields (`_…`, set by journald) go before what a process says of itself."""
    transport = entry.get("_TRANSPORT")
    if transport == "stdout":
        return Origin.SERVICE
    if transport == "kernel":
        return Origin.KERNEL
    if transport == "driver":
        return Origin.JOURNALD
    if ("UNIT" in entry or "USER_UNIT" in entry) and _is_manager(entry):
        return Origin.MANAGER
    if "COREDUMP_UNIT" in entry:
        return Origin.OTHER
    return Origin.SERVICE


def _is_manager(entry: Entry) -> bool:
    pid, name = entry.get("_PID"), entry.get("_COMM")
    if pid is None and name is None:
        return entry.get("SYSLOG_IDENTIFIER") == "systemd"
    return pid == "1" or name == "systemd"


_INVOCATION_FIELDS: dict[Origin, tuple[str, ...]] = {
    Origin.SERVICE: ("_SYSTEMD_INVOCATION_ID",),
    Origin.MANAGER: ("INVOCATION_ID", "USER_INVOCATION_ID"),
    Origin.JOURNALD: ("OBJECT_SYSTEMD_INVOCATION_ID",),
    Origin.KERNEL: (),
    Origin.OTHER: (),
}


def read_invocation(entry: Entry, origin: Origin) -> InvocationId | None:
    for name in _INVOCATION_FIELDS[origin]:
        word = read_word(entry, name)
        if word:
            return InvocationId(word)
    return None


def read_fields(entry: Entry) -> dict[str, str]:
    """What else is worth keeping of an entry."""
    fields = {}
    for name in KEPT_FIELDS:
        word = read_word(entry, name)
        if word is not None:
            fields[name] = word
    return fields

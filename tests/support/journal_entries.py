"""Journal entries as `journalctl -o json --all` prints them."""

from __future__ import annotations

import json
from typing import Any

INVOCATION = "1f" * 16
BOOT = "b0" * 16
SERVER_ARGS_KEY = "K9-tellNobody_77x"


def make_cursor(number: int) -> str:
    return f"s={'5' * 32};i={number:x};b={BOOT};m={number:x};t={number:x};x={number:x}"


def make_entry(number: int, message: object, **fields: Any) -> dict[str, Any]:
    """A line the service wrote to its standard error; a field given as None is left out."""
    text = message.encode() if isinstance(message, str) else message
    entry = {
        "__CURSOR": make_cursor(number),
        "__REALTIME_TIMESTAMP": str(1_780_000_000_000_000 + number),
        "__MONOTONIC_TIMESTAMP": str(number),
        "_BOOT_ID": BOOT,
        "_PID": "4711",
        "_COMM": "sglang::schedul",
        "_HOSTNAME": "llm-two",
        "_TRANSPORT": "stdout",
        "_STREAM_ID": "57" * 16,
        "_SYSTEMD_UNIT": "sglang-kimi.service",
        "_SYSTEMD_INVOCATION_ID": INVOCATION,
        "SYSLOG_IDENTIFIER": "python3",
        "PRIORITY": "6",
        "MESSAGE": _as_journal(text) if isinstance(text, bytes) else message,
    }
    return {name: value for name, value in (entry | fields).items() if value is not None}


def make_manager_entry(number: int, message: str, **fields: Any) -> dict[str, Any]:
    """A line systemd wrote about the unit."""
    own = {
        "_PID": "1",
        "_COMM": "systemd",
        "_TRANSPORT": "journal",
        "_STREAM_ID": None,
        "_SYSTEMD_UNIT": "init.scope",
        "_SYSTEMD_INVOCATION_ID": None,
        "SYSLOG_IDENTIFIER": "systemd",
        "UNIT": "sglang-kimi.service",
        "INVOCATION_ID": INVOCATION,
    }
    return make_entry(number, message, **(own | fields))


def write_entries(*entries: object) -> bytes:
    return b"".join(json.dumps(entry, ensure_ascii=False).encode() + b"\n" for entry in entries)


def _as_journal(message: bytes) -> str | list[int]:
    """A string where it is printable UTF-8, else its byte values, as journalctl decides."""
    try:
        text = message.decode()
    except UnicodeDecodeError:
        return list(message)
    if any((char < " " and char not in "\t\n") or "\x7f" <= char <= "\x9f" for char in text):
        return list(message)
    return text

"""One journal entry, read field by field."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bot.core.entries import (
    KEPT_FIELDS,
    OUTPUT_FIELDS,
    read_fields,
    read_invocation,
    read_message,
    read_origin,
    read_pid,
    read_text,
    read_time,
    read_word,
)
from bot.core.events import Origin


def test_what_journalctl_is_asked_for() -> None:
    assert {"MESSAGE", "_STREAM_ID", "_LINE_BREAK", "INVOCATION_ID", "EXIT_STATUS"} <= set(OUTPUT_FIELDS)
    assert "_CMDLINE" not in OUTPUT_FIELDS
    assert "MESSAGE" not in KEPT_FIELDS


@pytest.mark.parametrize(
    ("fields", "origin"),
    [
        ({"_TRANSPORT": "stdout"}, Origin.SERVICE),
        ({"_TRANSPORT": "stdout", "SYSLOG_IDENTIFIER": "systemd", "UNIT": "u.service"}, Origin.SERVICE),
        ({"_TRANSPORT": "journal", "UNIT": "u.service", "_PID": "1", "_COMM": "systemd"}, Origin.MANAGER),
        (
            {"_TRANSPORT": "journal", "USER_UNIT": "u.service", "_PID": "977", "_COMM": "systemd"},
            Origin.MANAGER,
        ),
        ({"UNIT": "u.service", "SYSLOG_IDENTIFIER": "systemd"}, Origin.MANAGER),
        (
            {"UNIT": "u.service", "SYSLOG_IDENTIFIER": "systemd", "_PID": "9", "_COMM": "python3"},
            Origin.SERVICE,
        ),
        ({"_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel"}, Origin.KERNEL),
        ({"_TRANSPORT": "driver", "_COMM": "systemd-journal"}, Origin.JOURNALD),
        ({"_TRANSPORT": "journal", "COREDUMP_UNIT": "u.service"}, Origin.OTHER),
        ({"_TRANSPORT": "syslog"}, Origin.SERVICE),
        ({}, Origin.SERVICE),
    ],
)
def test_who_wrote_it(fields: dict[str, object], origin: Origin) -> None:
    assert read_origin(fields) is origin


def test_the_invocation_of_either_side() -> None:
    entry = {"_SYSTEMD_INVOCATION_ID": "aa", "INVOCATION_ID": "bb", "USER_INVOCATION_ID": "cc"}
    assert read_invocation(entry, Origin.SERVICE) == "aa"
    assert read_invocation(entry, Origin.MANAGER) == "bb"
    assert read_invocation({"USER_INVOCATION_ID": "cc"}, Origin.MANAGER) == "cc"
    assert read_invocation(entry, Origin.KERNEL) is None
    assert read_invocation({}, Origin.SERVICE) is None


def test_times_to_the_microsecond() -> None:
    exact = datetime(2026, 5, 29, 23, 49, 47, 123457, UTC)
    assert read_time({"__REALTIME_TIMESTAMP": str(int(exact.timestamp()) * 1_000_000 + 123457)}) == exact


@pytest.mark.parametrize("stamp", [None, "", "x", [], {}, "9" * 30, "-" + "9" * 30, "1e5", "\ud800"])
def test_times_that_are_none(stamp: object) -> None:
    assert read_time({"__REALTIME_TIMESTAMP": stamp}) is None


@pytest.mark.parametrize(
    ("value", "pid"),
    [("12", 12), (["12", "13"], 12), ("", None), ("-1", None), ("9" * 40, None), ("²", None)],
)
def test_pids(value: object, pid: int | None) -> None:
    assert read_pid({"_PID": value}) == pid


def test_words() -> None:
    entry = {"a": "x", "b": ["y", "z"], "c": [], "d": 1, "e": [[1]], "f": None}
    assert [read_word(entry, name) for name in "abcdefg"] == ["x", "y", None, None, None, None, None]


def test_messages() -> None:
    deep: object = "x"
    for _ in range(5000):
        deep = [deep]
    assert read_message("é") == "é".encode()
    assert read_message([1, 2, 255]) == b"\x01\x02\xff"
    assert read_message([["a"], [98]]) == b'["a"]\nb' or read_message([["a"], [98]]) == b"a\nb"
    assert read_message(deep) == b"[no message]"
    assert b"--all" in read_message(None)
    assert read_text(b"ok \xff") == "ok \\xff"


def test_kept_fields_are_strings() -> None:
    entry = {
        "MESSAGE_ID": "m",
        "EXIT_STATUS": 9,
        "UNIT": ["u"],
        "_CMDLINE": "x --api-key y",
        "MESSAGE": "text",
    }
    assert read_fields(entry) == {"MESSAGE_ID": "m", "UNIT": "u"}

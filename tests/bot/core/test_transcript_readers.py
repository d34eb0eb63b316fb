"""Each format's reader: text, time and writer of physical lines."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from time import process_time

import pytest

from bot.core.events import LogLine, Origin
from bot.core.journal import Decoder
from bot.core.log_times import LogClock
from bot.core.redact import Redactor
from bot.core.transcript_formats import Format
from bot.core.transcript_readers import open_reader
from bot.core.transcript_rows import Row

AT = datetime(2026, 5, 29, 23, 49, 47, tzinfo=UTC)
STAMP = "2026-05-29T23:49:47.000000000Z"


def read(kind: Format, *raws: bytes) -> list[Row | LogLine]:
    reader = open_reader(kind, clock=LogClock(2026), decoder=Decoder(Redactor()))
    return [row for raw in raws for row in reader.read(raw)] + list(reader.close())


def texts(kind: Format, *raws: bytes) -> list[str]:
    return [row.text for row in read(kind, *raws)]


def test_every_format_has_a_reader() -> None:
    for kind in Format:
        expected = {Format.EXPORT: [""], Format.VERBOSE: []}.get(kind, ["=x"])
        assert texts(kind, b"=x") == expected


def test_plain() -> None:
    assert texts(Format.PLAIN, b"\rbar\r", b"", b"\xff\r\n"[:2]) == ["\rbar", "", "\\xff"]


def test_short() -> None:
    rows = read(
        Format.SHORT,
        b"May 29 23:49:47 llm-two python3[4711]: #033[32mfirst#033[0m",
        b"                                       second",
        b"third",
        b"May 29 23:49:48 llm-two systemd[1]: a.service: Failed with result 'signal'.",
        b"-- Boot 0123 --",
        b"May 29 23:49:49 llm-two systemd-journald[3]: Suppressed 9 messages from a.service",
        b"May 29 23:49:50 llm-two kernel: Out of memory: Killed process 9",
    )
    assert all(isinstance(row, Row) for row in rows)
    assert [(row.text, row.at and row.at.second, row.pid, row.origin) for row in rows] == [
        ("\x1b[32mfirst\x1b[0m", 47, 4711, Origin.SERVICE),
        ("second", 47, 4711, Origin.SERVICE),
        ("third", 47, 4711, Origin.SERVICE),
        ("a.service: Failed with result 'signal'.", 48, 1, Origin.MANAGER),
        ("-- Boot 0123 --", None, None, Origin.OTHER),
        ("Suppressed 9 messages from a.service", 49, 3, Origin.JOURNALD),
        ("Out of memory: Killed process 9", 50, None, Origin.KERNEL),
    ]
    assert rows[0].fields == {"SYSLOG_IDENTIFIER": "python3", "_HOSTNAME": "llm-two"}
    assert rows[3].fields["UNIT_RESULT"] == "signal"
    assert rows[5].fields["N_DROPPED"] == "9"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("a#015b", "a\rb"),
        ("#011x#012y#177", "\tx\ny\x7f"),
        ("#tokens: 123, #040 #1 #0", "#tokens: 123, #040 #1 #0"),
        ("  12%|#2        | 3/24", "  12%|#2        | 3/24"),
    ],
)
def test_rsyslog_escapes(written: str, text: str) -> None:
    assert texts(Format.SHORT, b"May 29 23:49:47 h p: " + written.encode()) == [text]


def test_docker_and_compose() -> None:
    rows = read(
        Format.COMPOSE,
        b"sglang-1  | " + STAMP.encode() + b" [2026-05-29 23:49:46] x",
        b"\x1b[36mredis-1   |\x1b[0m y",
        b"[pod/kimi-0/engine] z",
        STAMP.encode() + b" only a time\r",
        b"neither",
    )
    assert [(row.text, row.at, row.fields) for row in rows] == [
        ("[2026-05-29 23:49:46] x", AT, {"CONTAINER_NAME": "sglang-1"}),
        ("y", None, {"CONTAINER_NAME": "redis-1"}),
        ("z", None, {"CONTAINER_NAME": "pod/kimi-0/engine"}),
        ("only a time", AT, {}),
        ("neither", None, {}),
    ]


def test_kubernetes_joins_what_was_cut() -> None:
    stamp = STAMP.encode()
    rows = read(
        Format.KUBERNETES,
        stamp + b" stderr P one ",
        stamp + b" stdout F other",
        stamp + b" stderr F two",
        stamp + b" stderr F ",
        b"no header",
        stamp + b" stderr P never ended",
    )
    assert [row.text for row in rows] == ["other", "one two", "", "no header", "never ended"]
    assert rows[1].at == AT


def test_docker_json_joins_what_was_cut() -> None:
    def entry(log: object, stream: str = "stderr") -> bytes:
        return json.dumps({"log": log, "stream": stream, "time": STAMP}).encode()

    rows = read(
        Format.DOCKER_JSON,
        entry("one "),
        entry("out\r\n", "stdout"),
        entry("two\n"),
        b"[1]",
        entry(3),
        entry("end"),
    )
    assert [row.text for row in rows] == ["out", "one two", "[1]", entry(3).decode(), "end"]
    assert rows[0].at == AT


def test_json_in_every_layout() -> None:
    entry = {"__CURSOR": "c", "__REALTIME_TIMESTAMP": "1780098587000000", "MESSAGE": "x"}
    pretty = json.dumps(entry, indent=1).encode().split(b"\n")
    for raws in (
        [json.dumps(entry).encode()],
        [b"\x1e" + json.dumps(entry).encode()],
        [b"data: " + json.dumps(entry).encode(), b""],
        pretty,
    ):
        (line,) = read(Format.JSON, *raws)
        assert isinstance(line, LogLine)
        assert (line.text, line.at, line.cursor) == ("x", AT.replace(second=47), "c")
    assert texts(Format.JSON, *pretty[:2]) == [b" ".join(each.strip() for each in pretty[:2]).decode()]


def test_export() -> None:
    message = b"\rbar\nof two lines"
    rows = read(
        Format.EXPORT,
        b"__CURSOR=c1",
        b"__REALTIME_TIMESTAMP=1780098587000000",
        b"MESSAGE",
        *(len(message).to_bytes(8, "little") + message).split(b"\n"),
        b"_PID=4711",
        b"",
        b"",
        b"__CURSOR=c2",
        b"MESSAGE=a=b",
        b"MESSAGE=again",
        b"UNIT=u1",
        b"UNIT=u2",
        b"",
        b"__CURSOR=c3",
        b"MESSAGE=without an end",
    )
    assert all(isinstance(row, LogLine) for row in rows)
    assert [row.text for row in rows] == ["\rbar", "of two lines", "a=b", "again", "without an end"]
    assert (rows[0].at, rows[0].pid) == (AT, 4711)


def test_an_export_that_stops_within_a_field() -> None:
    assert texts(Format.EXPORT, b"MESSAGE", b"\x40" + b"\0" * 7 + b"half") == ["half"]
    assert texts(Format.EXPORT, b"MESSAGE", b"\xff" * 8 + b"half") == ["half"]


def test_our_own_tail() -> None:
    rows = read(
        Format.TAIL,
        b"# kimi-bot log: 3 lines, 0 secrets masked",
        b"2026-05-29T23:49:47.000000+00:00 llm-two python3[4711]: one",
        b"\ttwo\r",
        b"- - kernel: three",
        b"no row",
    )
    assert [(row.text, row.at, row.pid, row.origin) for row in rows] == [
        ("one\ntwo\r", AT, 4711, Origin.SERVICE),
        ("three", None, None, Origin.KERNEL),
        ("no row", None, None, Origin.OTHER),
    ]


@pytest.mark.parametrize(
    ("kind", "first", "more"),
    [
        (Format.TAIL, STAMP.encode() + b" llm-two python3[4711]: one", b"\t" + b"two" * 12),
        (Format.KUBERNETES, STAMP.encode() + b" stderr P one", STAMP.encode() + b" stderr P " + b"two" * 12),
    ],
)
def test_a_line_of_very_many_pieces_takes_no_longer_than_its_size(
    kind: Format, first: bytes, more: bytes
) -> None:
    began = process_time()
    (row,) = read(kind, first, *[more] * 100_000)
    assert len(row.text) >= 300_000
    assert process_time() - began < 5

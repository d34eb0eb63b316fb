"""The file of a tail: every byte of every line, read back the same."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.events import LogLine, Origin
from bot.core.redact import Redactor
from bot.core.tail import render_tail, split_rows
from bot.core.transcript import Format, Transcript

AT = datetime(2026, 5, 29, 23, 49, 47, 123456, UTC)
FIELDS = {"_HOSTNAME": "llm-two", "SYSLOG_IDENTIFIER": "python3"}


def make_line(text: str, **changes: object) -> LogLine:
    told = {"at": AT, "pid": 4711, "fields": FIELDS} | changes
    return LogLine(text, text, **told)  # type: ignore[arg-type]


def read_back(text: str) -> list[LogLine]:
    transcript = Transcript(Redactor())
    lines = transcript.feed(text.encode()) + transcript.close()
    assert transcript.kind is Format.TAIL
    return lines


def test_a_row_per_line() -> None:
    tail = render_tail(
        [
            make_line("one"),
            make_line("begun", partial=True),
            make_line("--api-key [masked]", masked=1),
            make_line("two\nlines", pid=None),
            make_line("Started", origin=Origin.MANAGER, pid=1, fields={}),
            make_line("no time", at=None, fields={"SYSLOG_IDENTIFIER": "a b:[c]"}),
        ]
    )
    assert tail.text == (
        "# kimi-bot log: 5 lines, 1 secret masked\n"
        "2026-05-29T23:49:47.123456+00:00 llm-two python3[4711]: one\n"
        "2026-05-29T23:49:47.123456+00:00 llm-two python3[4711]: --api-key [masked]\n"
        "2026-05-29T23:49:47.123456+00:00 llm-two python3: two\n"
        "\tlines\n"
        "2026-05-29T23:49:47.123456+00:00 - systemd[1]: Started\n"
        "- - a_b__c_[4711]: no time\n"
    )
    assert (tail.lines, tail.masked) == (5, 1)


def test_a_service_cannot_be_taken_for_systemd() -> None:
    tail = render_tail([make_line("x", fields={"SYSLOG_IDENTIFIER": "systemd"})])
    assert [line.origin for line in read_back(tail.text)] == [Origin.SERVICE]


def test_numbers_are_grouped() -> None:
    assert render_tail([make_line("x")] * 4212).text.startswith(
        "# kimi-bot log: 4,212 lines, 0 secrets masked\n"
    )


TEXTS = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(
    ["\r\n", "\n\t\n", "a\r", "# kimi-bot log: ", "- - x: y", "\x1b[31m", "\u2028 \x85", "line\n", "#033[0m"]
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.builds(
            make_line,
            TEXTS,
            at=st.none() | st.datetimes(datetime(1980, 1, 1), datetime(2099, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
            pid=st.none() | st.integers(0, 4_000_000),
            origin=st.sampled_from(Origin),
            fields=st.sampled_from([FIELDS, {}, {"SYSLOG_IDENTIFIER": "kernel"}]),
        ),
        max_size=6,
    )
)
def test_a_tail_is_read_back_the_same(lines: list[LogLine]) -> None:
    back = read_back(render_tail(lines).text)
    assert [(line.text, line.at, line.pid, line.origin) for line in back] == [
        (line.text, line.at, line.pid, line.origin) for line in lines
    ]


@given(st.lists(st.text(st.sampled_from("ab\n\r\t\x0b\x85\u2028 ")), max_size=6))
def test_its_lines_are_counted_the_same_way_again(texts: list[str]) -> None:
    tail = render_tail([make_line(text) for text in texts])
    assert len(split_rows(tail.text)) == tail.lines


def test_any_other_file_is_counted_by_its_rows() -> None:
    assert split_rows("") == []
    assert split_rows("Thread 1\n\tin wait\n") == ["Thread 1", "\tin wait"]

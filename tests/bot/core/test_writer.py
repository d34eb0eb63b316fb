"""Who wrote an entry: read once for all lines of a process, and never mixed up with another."""

from __future__ import annotations

from dataclasses import fields

from bot.core.events import LogLine, Origin
from bot.core.redact import Redactor
from bot.core.writer import Writers, _Draft, make_line
from tests.support.journal_entries import INVOCATION, make_entry, make_manager_entry

SECRET = "sk-seeded-0123456789abcdef"


def test_the_lines_of_a_process_share_their_writer() -> None:
    writers = Writers(Redactor(()))
    first = writers.of(make_entry(1, "one"))
    assert writers.of(make_entry(2, "two")) is first
    assert (first.pid, first.origin, first.invocation) == (4711, Origin.SERVICE, INVOCATION)
    assert first.fields["_COMM"] == "sglang::schedul"


def test_a_pid_that_another_process_has_now_is_another_writer() -> None:
    writers = Writers(Redactor(()))
    before = writers.of(make_entry(1, "one"))
    after = writers.of(make_entry(2, "two", _SYSTEMD_INVOCATION_ID="b" * 32))
    assert (before.invocation, after.invocation) == (INVOCATION, "b" * 32)
    assert list(writers.known.values()) == [after]


def test_what_others_say_is_not_remembered_and_what_lacks_a_field_is_read_alone() -> None:
    writers = Writers(Redactor(()))
    assert writers.of(make_manager_entry(1, "Started it.")).origin is Origin.MANAGER
    assert writers.of(make_entry(2, "one", _HOSTNAME=None)).pid == 4711
    assert writers.of(make_entry(3, "one", MESSAGE_ID="c" * 32)).pid == 4711
    assert writers.known == {}


def test_a_secret_in_a_field_is_masked_once_for_all() -> None:
    writers = Writers(Redactor((SECRET,)))
    writer = writers.of(make_entry(1, "one", SYSLOG_IDENTIFIER=f"run {SECRET}"))
    assert SECRET not in str(writer.fields)


def test_no_more_than_so_many_are_remembered() -> None:
    writers = Writers(Redactor(()))
    for pid in range(600):
        writers.of(make_entry(pid, "one", _PID=str(pid)))
    assert len(writers.known) <= 512


def test_a_line_has_what_its_writer_tells() -> None:
    writer = Writers(Redactor(())).of(make_entry(1, "one"))
    line = make_line("one", "one", None, None, writer, masked=1, partial=True)
    told = LogLine(
        "one",
        "one",
        pid=4711,
        origin=Origin.SERVICE,
        invocation=writer.invocation,
        boot=writer.boot,
        partial=True,
        masked=1,
        fields=writer.fields,
    )
    assert type(line) is LogLine
    assert line == told


def test_a_draft_has_the_fields_of_a_line() -> None:
    assert [each.name for each in fields(_Draft)] == [each.name for each in fields(LogLine)]

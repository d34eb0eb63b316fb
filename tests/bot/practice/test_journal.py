"""The practice journal: entries, cursors, followers."""

from __future__ import annotations

import asyncio
import itertools
import json
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.clock import Clock
from bot.practice.journal import (
    LINE_MAX,
    Journal,
    Stream,
    is_printable,
    manager_fields,
    parse_cursor,
    render_json,
    render_short,
)

BAR = "\rLoading safetensors checkpoint shards:  44% Completed | 28/64 [00:11<00:14,  2.45it/s]\n"


def new_stream(fields: dict[str, bytes] | None = None) -> tuple[Journal, Stream]:
    journal = Journal(Clock())
    return journal, Stream(journal, fields or {"SYSLOG_IDENTIFIER": b"python"})


def messages(journal: Journal) -> list[bytes]:
    return [entry.fields["MESSAGE"] for entry in journal.entries]


def breaks(journal: Journal) -> list[str]:
    return [entry.text("_LINE_BREAK") for entry in journal.entries]


class TestStream:
    def test_a_bar_of_the_old_look_is_one_record_with_its_carriage_return(self) -> None:
        journal, stream = new_stream()
        stream.write(BAR.encode(), pid=7, comm="x")
        assert messages(journal) == [BAR.rstrip("\n").encode()]
        assert len(messages(journal)[0]) == 87

    def test_carriage_returns_alone_end_nothing(self) -> None:
        journal, stream = new_stream()
        stream.write(b"\r1/3", pid=7, comm="x")
        stream.write(b"\r2/3", pid=7, comm="x")
        assert journal.entries == []
        stream.write(b"\r3/3\n", pid=7, comm="x")
        assert messages(journal) == [b"\r1/3\r2/3\r3/3"]

    def test_another_writer_breaks_an_unfinished_line(self) -> None:
        journal, stream = new_stream()
        stream.write(b"\r1/3", pid=7, comm="x")
        stream.write(b"hello\n", pid=8, comm="y")
        stream.write(b"\r2/3\n", pid=7, comm="x")
        assert messages(journal) == [b"\r1/3", b"hello", b"\r2/3"]
        assert breaks(journal) == ["pid-change", "", ""]
        assert [entry.text("_PID") for entry in journal.entries] == ["7", "8", "7"]

    def test_a_long_line_comes_in_pieces(self) -> None:
        journal, stream = new_stream()
        line = b"x" * 120_000
        stream.write(line + b"\n", pid=7, comm="x")
        assert breaks(journal) == ["line-max", "line-max", ""]
        assert [len(message) for message in messages(journal)] == [LINE_MAX, LINE_MAX, 120_000 - 2 * LINE_MAX]
        assert b"".join(messages(journal)) == line

    def test_what_is_left_at_the_end_is_marked(self) -> None:
        journal, stream = new_stream()
        stream.write(b"cut of", pid=7, comm="x")
        stream.close()
        stream.close()
        assert messages(journal) == [b"cut of"]
        assert breaks(journal) == ["eof"]

    @pytest.mark.parametrize(
        ("written", "kept"),
        [
            (b"a \t\r\n", [b"a"]),
            (b"  a\n", [b"  a"]),
            (b"\n\n", []),
            (b"   \n", [b"   "]),
            (b"a\0b\n", [b"a", b"b"]),
            (b"<3>bad\n", [b"bad"]),
        ],
    )
    def test_white_space_nul_and_level(self, written: bytes, kept: list[bytes]) -> None:
        journal, stream = new_stream()
        stream.write(written, pid=7, comm="x")
        assert messages(journal) == kept

    def test_a_level_in_front_is_the_priority_else_six(self) -> None:
        journal, stream = new_stream()
        stream.write(b"<3>bad\nfine\n", pid=7, comm="x")
        assert [entry.text("PRIORITY") for entry in journal.entries] == ["3", "6"]

    def test_comm_is_cut_as_the_kernel_cuts_it(self) -> None:
        journal, stream = new_stream()
        stream.write(b"a\n", pid=7, comm="sglang::scheduler_TP5")
        assert journal.entries[0].text("_COMM") == "sglang::schedul"

    @given(text=st.binary(max_size=400), cuts=st.lists(st.integers(0, 400), max_size=6))
    @settings(max_examples=60, deadline=None)
    def test_any_cut_of_one_writers_bytes_gives_the_same_records(self, text: bytes, cuts: list[int]) -> None:
        whole, stream = new_stream()
        stream.write(text, pid=7, comm="x")
        stream.close()
        pieces, cut_stream = new_stream()
        edges = [0, *sorted(cuts), len(text)]
        for start, end in itertools.pairwise(edges):
            cut_stream.write(text[start:end], pid=7, comm="x")
        cut_stream.close()
        assert messages(pieces) == messages(whole)


class TestJson:
    def render(
        self, message: bytes, *, all_fields: bool = True, fields: set[str] | None = None
    ) -> dict[str, object]:
        journal, stream = new_stream({"_CMDLINE": b"python --api-key x"})
        stream.write(message + b"\n", pid=7, comm="x")
        text = render_json(journal.entries[0], all_fields=all_fields, output_fields=fields)
        shown: dict[str, object] = json.loads(text)
        return shown

    def test_plain_text_is_a_string_and_control_characters_are_bytes(self) -> None:
        assert self.render("grüße\tda".encode())["MESSAGE"] == "grüße\tda"
        assert self.render(b"\r1/2")["MESSAGE"] == list(b"\r1/2")
        assert self.render(b"\x1b[31mred")["MESSAGE"] == list(b"\x1b[31mred")
        assert self.render(b"\xff\xfe")["MESSAGE"] == [255, 254]

    def test_a_long_field_is_null_without_all(self) -> None:
        long = b"x" * (4096 - len("MESSAGE="))
        assert self.render(long, all_fields=False)["MESSAGE"] is None
        assert self.render(long[:-1], all_fields=False)["MESSAGE"] == long[:-1].decode()
        assert self.render(long)["MESSAGE"] == long.decode()

    def test_output_fields_keep_what_is_always_there(self) -> None:
        shown = self.render(b"a", fields={"MESSAGE", "_PID"})
        always = {"__CURSOR", "__REALTIME_TIMESTAMP", "__MONOTONIC_TIMESTAMP", "_BOOT_ID"}
        assert shown.keys() == {*always, "MESSAGE", "_PID"}
        assert "_CMDLINE" in self.render(b"a")

    def test_printable_is_judged_as_systemd_judges(self) -> None:
        assert is_printable(b"a\tb\nc")
        assert not is_printable(b"a\rb")
        assert not is_printable("\x85".encode())
        assert not is_printable(b"\x80")


def test_short_output_hides_what_it_cannot_print() -> None:
    journal, stream = new_stream({"SYSLOG_IDENTIFIER": b"python", "_HOSTNAME": b"llm-two"})
    stream.write(BAR.encode(), pid=7, comm="x")
    stream.write(b"\x1b[31mred\x1b[0m\n", pid=7, comm="x")
    bar, red = journal.entries
    assert render_short(bar, all_fields=False).endswith("llm-two python[7]: [87B blob data]")
    assert render_short(bar, all_fields=True).endswith(BAR.strip())
    assert render_short(red, all_fields=False).endswith("python[7]: red")


class TestCursor:
    def test_a_cursor_is_read_back(self) -> None:
        journal, stream = new_stream()
        stream.write(b"a\nb\n", pid=7, comm="x")
        place = parse_cursor(journal.entries[1].cursor)
        assert (place.source, place.number, place.boot) == (journal.source, 2, journal.boot)
        assert place.realtime == journal.entries[1].realtime
        assert journal.seek(place) == 1

    @pytest.mark.parametrize("text", ["", "nonsense", "s=1", "x=zz", "t=not-hex", "s=;i=1"])
    def test_nonsense_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match=r".*"):
            parse_cursor(text)

    def test_a_cursor_of_another_journal_goes_by_time(self) -> None:
        journal = Journal(Clock())
        now = journal.clock.now()
        for minutes in (30, 20, 10):
            journal.append({"MESSAGE": b"a"}, at=now - timedelta(minutes=minutes))
        lost = f"s={'0' * 32};i=99;t={journal.entries[1].realtime:x}"
        assert journal.seek(parse_cursor(lost)) == 1
        assert journal.seek(parse_cursor(f"t={2**60:x}")) == 3


async def test_whoever_waits_for_growth_is_woken() -> None:
    journal, stream = new_stream()
    waiting = asyncio.create_task(journal.grown(1))
    stream.write(b"a\n", pid=7, comm="x")
    await asyncio.sleep(0)
    assert not waiting.done()
    stream.write(b"b\n", pid=7, comm="x")
    await asyncio.wait_for(waiting, 60)


def test_a_reboot_starts_the_monotonic_time_anew() -> None:
    journal = Journal(Clock())
    before = journal.append({"MESSAGE": b"a"})
    journal.reboot()
    after = journal.append({"MESSAGE": b"b"})
    assert after.boot != before.boot
    assert after.monotonic < before.monotonic


def test_the_manager_names_the_unit_by_scope() -> None:
    system = manager_fields("m", unit="a.service", user=False, invocation="1", extra={"PRIORITY": "4"})
    assert (system["UNIT"], system["INVOCATION_ID"], system["_PID"]) == (b"a.service", b"1", b"1")
    assert system["PRIORITY"] == b"4"
    user = manager_fields("m", unit="a.service", user=True, invocation="1", extra={})
    assert (user["USER_UNIT"], user["USER_INVOCATION_ID"]) == (b"a.service", b"1")
    assert "UNIT" not in user

"""Frames of a log file, cut anywhere, to the same lines whatever the cuts, with the place to go on from."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bot.core.events import LogLine
from bot.core.log_file import LINE_MOST, FilePosition, LogFileDecoder, merge, since
from bot.core.redact import KeyBlock, Redactor

AT = datetime(2026, 5, 29, 23, 50, tzinfo=UTC)
SECONDS = int(AT.timestamp())
INODE = 77
PLACE = TypeAdapter(FilePosition)


def frame(
    data: bytes, offset: int = 0, *, kind: str = "d", seconds: float = SECONDS, inode: int = INODE
) -> bytes:
    return f"{kind} {inode} {offset} {seconds:.6f} {base64.b64encode(data).decode()}\n".encode()


def decode(*frames: bytes, position: FilePosition | None = None) -> tuple[LogFileDecoder, list[LogLine]]:
    decoder = LogFileDecoder(Redactor(("hush-4711",)), position=position)
    return decoder, [line for each in frames for line in decoder.feed(each)]


def texts(lines: list[LogLine]) -> list[str]:
    return [line.text for line in lines if not line.partial]


def test_lines_have_the_hosts_time_of_reading() -> None:
    decoder, lines = decode(frame(b"one\ntwo\n", seconds=SECONDS + 0.25))
    assert texts(lines) == ["one", "two"]
    assert {line.at for line in lines} == {AT + timedelta(milliseconds=250)}
    assert decoder.position == FilePosition(INODE, 8, SECONDS)


def test_a_line_over_two_frames_is_one() -> None:
    decoder, lines = decode(frame(b"one\nha"), frame(b"lf\n", 6))
    assert texts(lines) == ["one", "half"]
    assert decoder.position.offset == 9


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(alphabet="ab\r é", max_size=12), max_size=8),
    st.lists(st.integers(min_value=1, max_value=9), max_size=20),
    st.lists(st.integers(min_value=1, max_value=40), max_size=20),
)
def test_cuts_of_the_file_and_of_the_stream_change_nothing(
    lines: list[str], pieces: list[int], cuts: list[int]
) -> None:
    data = "".join(line + "\n" for line in lines).encode()
    stream, at = b"", 0
    for size in [*pieces, len(data)]:
        stream += frame(data[at : at + size], at)
        at += size
    decoder = LogFileDecoder(Redactor())
    found: list[LogLine] = []
    begin = 0
    for size in [*cuts, len(stream)]:
        found += decoder.feed(stream[begin : begin + size])
        begin += size
    assert texts(found) == [line.rstrip("\r") for line in lines if line.rstrip("\r")]
    assert decoder.malformed == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=6), min_size=1, max_size=6), st.data())
def test_whoever_goes_on_from_the_position_gets_the_rest_and_nothing_twice(
    lines: list[str], cut: st.DataObject
) -> None:
    data = "".join(line + "\n" for line in lines).encode()
    at = cut.draw(st.integers(min_value=0, max_value=len(data)))
    first, before = decode(frame(data[:at]))
    place = PLACE.validate_json(PLACE.dump_json(first.position))
    _, after = decode(frame(data[place.offset :], place.offset), position=place)
    assert texts(before) + texts(after) == lines


def test_a_bar_and_what_is_written_behind_it_are_two_lines() -> None:
    bar = "\r 10%|#         | 1/10 [00:01<00:09,  1.00s/it]"
    _, lines = decode(frame(f"{bar}[2026-05-29 23:49:47 TP1] Capture cuda graph begin.\n".encode()))
    assert [line.reading for line in lines] == [
        " 10%|#         | 1/10 [00:01<00:09,  1.00s/it]",
        "[2026-05-29 23:49:47 TP1] Capture cuda graph begin.",
    ]


def test_a_bar_is_shown_while_it_is_drawn() -> None:
    bar = b"\rLoading:  10% | 1/10 [00:01<00:09,  1.00s/it]"
    _, lines = decode(frame(bar), frame(b"\rLoading:  20% | 2/10", len(bar)))
    assert [(line.partial, line.reading[:20]) for line in lines] == [
        (True, "Loading:  10% | 1/10"),
        (True, "Loading:  20% | 2/10"),
    ]


def test_secrets_are_masked_over_lines_and_frames_and_after_a_crash() -> None:
    begin = b"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n"
    rest = b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASD\n-----END PRIVATE KEY-----\nplain hush-4711\n"
    first, one = decode(frame(begin))
    assert first.position.key == KeyBlock(1, 0)
    place = PLACE.validate_json(PLACE.dump_json(first.position))
    later, two = decode(frame(rest, len(begin)), position=place)
    told = "\n".join(texts(one + two))
    assert "MIIE" not in told
    assert "hush" not in told
    assert "plain" in told
    assert later.position.key is None


def test_what_was_written_before_anybody_looked_has_the_engines_times() -> None:
    data = (
        b"no time yet\n[2026-05-30 01:20:00 TP0] Load weight begin.\nof the same time\n"
        b"[2030-01-01 00:00:00] from the future\n"
    )
    _, lines = decode(b"z +0200\n", frame(data, kind="b"))
    begun = datetime(2026, 5, 29, 23, 20, tzinfo=UTC)
    assert [line.at for line in lines] == [None, begun, begun, begun]


@pytest.mark.parametrize(("zone", "hour"), [(b"z -0330", 4), (b"z +0000", 1)])
def test_zones_go_both_ways(zone: bytes, hour: int) -> None:
    late = frame(b"[2026-05-29 01:00:00 TP0] x\n", kind="b")
    _, [line] = decode(zone + b"\n", late)
    assert line.at is not None
    assert line.at.hour == hour


def test_a_look_moments_ago_makes_a_backlog_news() -> None:
    _, [line] = decode(frame(b"x\n", 10, kind="b"), position=FilePosition(INODE, 10, SECONDS - 2))
    assert line.at == AT
    _, [line] = decode(frame(b"x\n", 10, kind="b"), position=FilePosition(INODE, 10, SECONDS - 60))
    assert line.at is None


def test_a_new_file_begins_a_line() -> None:
    decoder, lines = decode(frame(b"cut of"), b"t\n", frame(b"new\n", inode=78))
    assert texts(lines) == ["cut of", "new"]
    assert decoder.position == FilePosition(78, 4, SECONDS)


def test_what_was_lost_with_a_file_is_lost_since_it_was_seen() -> None:
    decoder, lines = decode(b"m\n", b"t\n", frame(b"one\n"), position=FilePosition(5, 100, SECONDS - 60))
    assert decoder.missed == AT - timedelta(seconds=60)
    assert texts(lines) == ["one"]
    assert decode(b"m\n", position=FilePosition(5, 100))[0].missed is None


def test_the_end_of_a_long_file_begins_with_a_whole_line() -> None:
    _, lines = decode(frame(b"ail\nwhole\n", 5000, kind="b"), position=FilePosition(offset=100))
    assert texts(lines) == ["whole"]
    _, lines = decode(frame(b"short\n", 0, kind="b"), position=FilePosition(offset=100))
    assert texts(lines) == ["short"]


def test_a_line_without_an_end_comes_out_at_the_end_and_an_endless_one_in_parts() -> None:
    decoder, lines = decode(frame(b"last words"))
    assert texts(lines) == []
    assert texts(decoder.close()) == ["last words"]
    piece = b"y" * (1 << 20)
    decoder, lines = decode(*(frame(piece, at * len(piece)) for at in range(9)))
    assert [len(line.text) for line in lines] == [LINE_MOST]
    assert sum(len(line.text) for line in [*lines, *decoder.close()]) == 9 << 20


@pytest.mark.parametrize("junk", [b"hello\n", b"d 1 2\n", b"d 1 2 3 a*b\n", b"d 1 2 3 abc\n", b"\xff\n"])
def test_what_is_no_frame_is_counted(junk: bytes) -> None:
    decoder, lines = decode(junk, b".\n\n", frame(b"x\n"))
    assert (decoder.malformed, texts(lines)) == (1, ["x"])


def timed(text: str, seconds: float | None) -> LogLine:
    return LogLine(text, text, at=None if seconds is None else AT + timedelta(seconds=seconds))


def test_since_keeps_what_belongs_and_everything_where_times_do_not_tell() -> None:
    lines = [timed("old", -9), timed("older kin", None), timed("new", 0), timed("its kin", None)]
    assert texts(since(lines, AT)) == ["new", "its kin"]
    assert texts(since(lines, None)) == texts(lines)
    assert texts(since(lines[1:2], AT)) == ["older kin"]


def test_merge_is_by_time_and_keeps_kin_together() -> None:
    one = [timed("a", 0), timed("b", 10)]
    two = [timed("first of all", None), timed("c", 5), timed("behind c", None)]
    assert texts(merge(one, two)) == ["first of all", "a", "c", "behind c", "b"]

"""The decoder: any cut gives the same lines, any position goes on without loss or repetition."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bot.core import journal
from bot.core.events import Cursor, InvocationId, LogLine, Origin
from bot.core.journal import OUTPUT_FIELDS, Decoder, Position
from bot.core.redact import Redactor
from tests.support.journal_entries import (
    BOOT,
    INVOCATION,
    SERVER_ARGS_KEY,
    make_cursor,
    make_entry,
    make_manager_entry,
    write_entries,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bot.core.entries import Entry

BAR = "\rLoading safetensors checkpoint shards:  19% Completed | 12/64 [00:11<00:14,  2.45it/s]"


def decode(*entries: object) -> list[LogLine]:
    return Decoder(Redactor()).feed(write_entries(*entries))


def texts(lines: list[LogLine]) -> list[str]:
    return [line.text for line in lines]


def test_a_line_of_the_service() -> None:
    (line,) = decode(make_entry(7, "[2026-05-29 23:49:47 TP5] Load weight begin. avail mem=77.0 GB"))
    assert line == LogLine(
        text="[2026-05-29 23:49:47 TP5] Load weight begin. avail mem=77.0 GB",
        reading="[2026-05-29 23:49:47 TP5] Load weight begin. avail mem=77.0 GB",
        at=datetime(2026, 5, 28, 20, 26, 40, 7, UTC),
        cursor=Cursor(make_cursor(7)),
        pid=4711,
        origin=Origin.SERVICE,
        invocation=InvocationId(INVOCATION),
        boot=BOOT,
        fields={"SYSLOG_IDENTIFIER": "python3", "_COMM": "sglang::schedul", "_HOSTNAME": "llm-two"},
    )


def test_a_line_of_systemd_about_the_unit() -> None:
    (line,) = decode(
        make_manager_entry(
            1,
            "sglang-kimi.service: Main process exited, code=killed, status=9/KILL",
            MESSAGE_ID="98e322203f7a4ed290d09fe03c09fe15",
            EXIT_CODE="killed",
            EXIT_STATUS="9",
        )
    )
    assert (line.origin, line.invocation, line.pid) == (Origin.MANAGER, INVOCATION, 1)
    assert line.fields["EXIT_CODE"] == "killed"
    assert line.fields["EXIT_STATUS"] == "9"
    assert line.fields["MESSAGE_ID"] == "98e322203f7a4ed290d09fe03c09fe15"


def test_a_bar_is_read_by_its_last_redraw_and_kept_whole() -> None:
    (line,) = decode(make_entry(1, BAR.replace("12/64", "11/64") + BAR))
    assert (
        line.reading
        == "Loading safetensors checkpoint shards:  19% Completed | 12/64 [00:11<00:14,  2.45it/s]"
    )
    assert line.text == BAR.replace("12/64", "11/64") + BAR


def test_a_bar_and_the_line_behind_it_are_two_lines_of_one_entry() -> None:
    behind = "[2026-05-29 23:49:47 TP0] Registering 12 cuda graph addresses"
    lines = decode(make_entry(1, "\r  0%|          | 0/23 [00:00<?, ?it/s]" + behind))
    assert texts(lines) == ["\r  0%|          | 0/23 [00:00<?, ?it/s]", behind]
    assert {line.cursor for line in lines} == {make_cursor(1)}


def test_lines_that_were_said_in_one_entry_are_lines() -> None:
    """As a handler does that speaks to journald itself; through standard output they are entries."""
    key = "sk-" + "abcdefgh12345678" * 3
    said = f"hit an exception: Traceback\r\n  File x\n\n{BAR}\nRuntimeError: {key}\n"
    lines = decode(make_entry(1, "before"), make_entry(2, said), make_entry(3, "after"))
    assert texts(lines[1:-1]) == [
        "hit an exception: Traceback\r",
        "  File x",
        BAR,
        "RuntimeError: [masked]",
    ]
    assert [line.masked for line in lines] == [0, 0, 0, 0, 1, 0]
    assert {line.cursor for line in lines[1:-1]} == {make_cursor(2)}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("plain", "plain"),
        ([104, 105, 13, 255], "hi\r\\xff"),
        (["one", "two"], "one\ntwo"),
        ([[104, 105], "two", None], "hi\ntwo\nnull"),
        ([], ""),
        (12, "12"),
        ({"a": [1]}, '{"a": [1]}'),
        ([256, -1], "256\n-1"),
        ("lone \ud800 surrogate", "lone \\ud800 surrogate"),
        ("Grüße 🙂", "Grüße 🙂"),
    ],
)
def test_every_shape_of_message(message: object, text: str) -> None:
    lines = Decoder(Redactor()).feed(json.dumps(make_entry(1, None) | {"MESSAGE": message}).encode() + b"\n")
    assert "\n".join(texts(lines)).encode().decode() == text


def test_a_withheld_message_says_so() -> None:
    (line,) = Decoder(Redactor()).feed(json.dumps(make_entry(1, "x") | {"MESSAGE": None}).encode() + b"\n")
    assert "--all" in line.text


def test_line_max_pieces_are_one_line() -> None:
    pieces = ["a" * 49152, "b" * 49152, "c" * 21696]
    lines = decode(
        make_entry(1, pieces[0], _LINE_BREAK="line-max"),
        make_entry(2, "of another process", _PID="9", _STREAM_ID="aa"),
        make_entry(3, pieces[1], _LINE_BREAK="line-max"),
        make_entry(4, pieces[2]),
    )
    assert texts(lines) == ["of another process", "".join(pieces)]
    assert lines[1].cursor == make_cursor(4)


def test_a_character_cut_in_two_is_whole_again() -> None:
    euro = "€".encode()
    lines = decode(make_entry(1, b"5 " + euro[:2], _LINE_BREAK="line-max"), make_entry(2, euro[2:]))
    assert texts(lines) == ["5 €"]


def test_blanks_that_journald_strips_at_a_cut_are_made_good() -> None:
    begin = "x" * (48 * 1024 - len(" --api-key ")) + " --api-key"  # one blank short of LineMax
    (line,) = decode(
        make_entry(1, begin, _LINE_BREAK="line-max"), make_entry(2, SERVER_ARGS_KEY + " --port 1")
    )
    assert line.text.endswith(" --api-key [masked] --port 1")


def test_an_interrupted_line_is_told_at_once_and_whole_later() -> None:
    lines = decode(
        make_entry(1, BAR, _LINE_BREAK="pid-change"),
        make_entry(2, "[2026-05-29 23:49:47 TP3] Load weight end.", _PID="9"),
        make_entry(3, BAR.replace("12/64", "13/64"), _LINE_BREAK="pid-change"),
        make_entry(4, BAR.replace("12/64", "14/64")),
    )
    assert [(line.partial, line.reading.split()[7]) for line in lines if line.pid == 4711] == [
        (True, "12/64"),
        (True, "13/64"),
        (False, "14/64"),
    ]
    assert lines[-1].text == BAR + BAR.replace("12/64", "13/64") + BAR.replace("12/64", "14/64")


def test_the_end_of_a_stream_ends_every_line_of_it() -> None:
    lines = decode(
        make_entry(1, "half a line", _LINE_BREAK="pid-change"),
        make_entry(2, "last words", _PID="9", _LINE_BREAK="eof"),
    )
    assert [(line.text, line.partial) for line in lines] == [
        ("half a line", True),
        ("last words", False),
        ("half a line", False),
    ]


def test_an_unfinished_line_comes_out_at_the_end_and_after_long_waiting() -> None:
    decoder = Decoder(Redactor())
    decoder.feed(write_entries(make_entry(0, "begun", _LINE_BREAK="line-max")))
    assert texts(decoder.close()) == ["begun"]
    assert decoder.position == Position(Cursor(make_cursor(0)))

    others = [make_entry(number, "other", _PID="9") for number in range(1, 600)]
    lines = decode(make_entry(0, "begun", _LINE_BREAK="line-max"), *others)
    assert texts(lines).count("begun") == 1


def test_an_overlong_line_comes_in_parts_and_no_secret_is_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "JOINED_MOST", 3000)
    monkeypatch.setattr(journal, "OVERLAP", 30)
    for shift in range(40):
        begin = "y" * (2975 + shift) + f" api_key='{SERVER_ARGS_KEY}', x"
        lines = decode(make_entry(1, begin, _LINE_BREAK="line-max"), make_entry(2, "=1 end"))
        assert "".join(texts(lines)) == "y" * (2975 + shift) + " api_key='[masked]', x=1 end"
        assert sum(line.masked for line in lines) == 1


def test_a_secret_on_the_border_of_two_pieces_is_masked() -> None:
    text = f"server_args=ServerArgs(api_key='{SERVER_ARGS_KEY}', ssl_keyfile_password=None, tp_size=8)"
    for at in range(1, len(text)):
        for ending in ("line-max", "pid-change"):
            lines = decode(make_entry(1, text[:at], _LINE_BREAK=ending), make_entry(2, text[at:]))
            assert not any(SERVER_ARGS_KEY in line.text + line.reading for line in lines)
            assert lines[-1].text == text.replace(SERVER_ARGS_KEY, "[masked]")
            assert lines[-1].masked == 1


def test_a_private_key_over_several_entries_is_masked_also_after_a_crash_in_it() -> None:
    body = ["MIIEpAIBAAKCAQEAx" + letter * 47 for letter in "ABCDEF"]
    written = ["-----BEGIN RSA PRIVATE KEY-----", *body, "Q5w==", "-----END RSA PRIVATE KEY-----", "ready"]
    entries = [make_entry(number, text) for number, text in enumerate(written)]
    for crash in range(len(entries)):
        before = Decoder(Redactor())
        lines = before.feed(write_entries(*entries[:crash]))
        after = Decoder(Redactor(), position=before.position)
        lines += after.feed(write_entries(*_from(entries, before.position)))
        assert texts(lines) == [written[0], *["[masked]"] * 7, written[-2], "ready"]


def test_what_is_no_entry_is_kept_and_counted() -> None:
    decoder = Decoder(Redactor())
    lines = decoder.feed(b'-- No entries --\n\n[1]\n{"MESSAGE": \n' + write_entries(make_entry(1, "x")))
    assert [(line.text, line.origin) for line in lines] == [
        ("-- No entries --", Origin.OTHER),
        ("[1]", Origin.OTHER),
        ('{"MESSAGE": ', Origin.OTHER),
        ("x", Origin.SERVICE),
    ]
    assert decoder.malformed == 3


def test_the_entry_of_the_cursor_is_dropped_only_where_it_comes_first() -> None:
    position = Position(Cursor(make_cursor(4)))
    assert texts(Decoder(Redactor(), position=position).feed(write_entries(*_numbered(4, 5)))) == ["5"]
    assert texts(Decoder(Redactor(), position=position).feed(write_entries(*_numbered(6, 7)))) == ["6", "7"]


def test_a_position_is_kept_until_its_entries_came_again() -> None:
    position = Position(Cursor(make_cursor(4)), (Cursor(make_cursor(6)),))
    decoder = Decoder(Redactor(), position=position)
    assert decoder.position == position
    assert texts(decoder.feed(write_entries(*_numbered(4, 5)))) == ["5"]
    assert decoder.position == Position(Cursor(make_cursor(5)), position.seen)
    assert texts(decoder.feed(write_entries(*_numbered(6, 7)))) == ["7"]
    assert decoder.position == Position(Cursor(make_cursor(7)))


def test_fields_are_masked_too() -> None:
    (line,) = decode(make_entry(1, "x", SYSLOG_IDENTIFIER="hf_abcdefghijklmnopqrstuvwxyz012345"))
    assert line.fields["SYSLOG_IDENTIFIER"] == "[masked]"


def _numbered(*numbers: int) -> list[dict[str, Any]]:
    return [make_entry(number, str(number)) for number in numbers]


def _from(entries: list[dict[str, Any]], position: Position) -> list[dict[str, Any]]:
    """What `journalctl --cursor=` gives: from that very entry on."""
    cursors = [entry["__CURSOR"] for entry in entries]
    return entries[cursors.index(position.cursor) if position.cursor else 0 :]


def _make_entries(*rows: tuple[object, str, str, str | None]) -> list[dict[str, Any]]:
    """Of each its message, pid, stream and ending."""
    return [
        make_entry(number, message, _PID=pid, _STREAM_ID=stream, _LINE_BREAK=ending)
        for number, (message, pid, stream, ending) in enumerate(rows)
    ]


BEGIN_KEY = "-----BEGIN PRIVATE KEY-----"
# A key that was waited for in vain, part of which is read again: it does not begin anew, and its stream ends.
KEY_GIVEN_UP = _make_entries(
    ("joined: ", "1002", "bb", "line-max"),
    ("plain", "1001", "aa", None),
    ("unfinished", "1001", "aa", "line-max"),
    (BEGIN_KEY, "1002", "bb", None),
    ("MIIEpAIBAAKCAQEAx0ZzMIIEpAIBAAKCAQEAx0Zz", "1002", "bb", "line-max"),
)
STREAM_ENDED = _make_entries(
    ("joined: ", "1002", "bb", "line-max"),
    ("plain", "1001", "aa", None),
    ("plain", "1001", "aa", None),
    (BEGIN_KEY, "1001", "bb", "line-max"),
    (BEGIN_KEY, "1002", "bb", "eof"),
)
MESSAGES = st.sampled_from(
    [
        "[2026-05-29 23:49:47 TP5] Load weight begin. avail mem=77.0 GB",
        BAR,
        BAR + "[2026-05-29 23:49:47 TP0] one behind",
        f" api_key='{SERVER_ARGS_KEY}'",
        SERVER_ARGS_KEY[:5],
        BEGIN_KEY,
        "MIIEpAIBAAKCAQEAx0ZzMIIEpAIBAAKCAQEAx0Zz",
        "-----END PRIVATE KEY-----",
        "x" * 90,
        "\x1b[32mgreen\x1b[0m",
        b"\xff\xfe no text",
        b"half \xe2\x82",
        b"\xac a euro",
        "",
    ]
)
ENTRIES = st.lists(
    st.tuples(
        MESSAGES,
        st.sampled_from(["1001", "1002", "1003"]),
        st.sampled_from(["aa", "bb"]),
        st.sampled_from([None, None, "line-max", "pid-change", "eof", "nul"]),
    ),
    max_size=24,
).map(lambda rows: _make_entries(*rows))
BOUNDED = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(params=["as it is", "impatient"])
def limits(request: pytest.FixtureRequest) -> Iterator[None]:
    """Once with the limits so low that the examples exceed them."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "impatient":
            patch.setattr(journal, "HELD_ENTRIES", 4)
            patch.setattr(journal, "JOINED_MOST", 150)
            patch.setattr(journal, "OVERLAP", 20)
        yield


@BOUNDED
@given(entries=ENTRIES, cuts=st.lists(st.integers(0, 4000), max_size=12))
@pytest.mark.usefixtures("limits")
def test_any_cut_gives_the_same_lines_and_position(entries: list[dict[str, Any]], cuts: list[int]) -> None:
    data = write_entries(*entries)
    whole, cut = Decoder(Redactor()), Decoder(Redactor())
    expected = whole.feed(data)
    places = [0, *sorted(at for at in cuts if at < len(data)), len(data)]
    lines = [line for begin, end in pairwise(places) for line in cut.feed(data[begin:end])]
    assert lines == expected
    assert cut.position == whole.position
    assert cut.close() == whole.close()
    assert cut.position == whole.position


@BOUNDED
@given(entries=ENTRIES, crashes=st.lists(st.integers(0, 24), min_size=1, max_size=4))
@example(entries=KEY_GIVEN_UP, crashes=[5])
@example(entries=STREAM_ENDED, crashes=[5])
@pytest.mark.usefixtures("limits")
def test_going_on_from_any_position_loses_and_repeats_nothing(
    entries: list[dict[str, Any]], crashes: list[int]
) -> None:
    whole = Decoder(Redactor())
    expected = whole.feed(write_entries(*entries)) + whole.close()
    lines: list[LogLine] = []
    position = Position(None)
    for crash in sorted(crashes):
        decoder = Decoder(Redactor(), position=position)
        lines += decoder.feed(write_entries(*_from(entries[:crash], position)))
        position = decoder.position
    last = Decoder(Redactor(), position=position)
    lines += last.feed(write_entries(*_from(entries, position))) + last.close()
    assert lines == expected
    assert last.position == whole.position


@BOUNDED
@given(
    st.lists(
        st.tuples(
            st.text("ab \r\x1b[m|/0:<]it", max_size=30),
            st.sampled_from(["1001", "1002"]),
            st.sampled_from([None, "line-max", "pid-change", "eof"]),
        ),
        max_size=12,
    )
)
def test_nothing_is_cut(written: list[tuple[str, str, str | None]]) -> None:
    decoder = Decoder(Redactor())
    lines = decoder.feed(
        write_entries(
            *(
                make_entry(number, text, _PID=pid, _LINE_BREAK=ending)
                for number, (text, pid, ending) in enumerate(written)
            )
        )
    )
    lines += decoder.close()
    for pid in ("1001", "1002"):
        kept = "".join(line.text for line in lines if line.pid == int(pid) and not line.partial)
        assert kept == "".join(text for text, writer, _ in written if writer == pid)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)
FIELD_NAMES = st.sampled_from(
    [*OUTPUT_FIELDS, "__CURSOR", "__REALTIME_TIMESTAMP", "_BOOT_ID", "MESSAGE", "_PID", "_LINE_BREAK"]
)


@BOUNDED
@given(st.lists(st.dictionaries(FIELD_NAMES, JSON | st.sampled_from(["line-max", "pid-change"])) | JSON))
def test_no_json_is_too_strange(values: list[object]) -> None:
    decoder = Decoder(Redactor())
    lines = decoder.feed("\n".join(map(json.dumps, values)).encode() + b"\n") + decoder.close()
    assert all(line.text.encode().decode() == line.text for line in lines)
    assert decoder.position is not None


@BOUNDED
@given(
    st.lists(
        st.binary(max_size=60) | st.sampled_from([b"\n", b'{"MESSAGE":', b'"x"}', b"[" * 3000, b"9" * 5000])
    )
)
def test_no_bytes_are_too_strange(chunks: list[bytes]) -> None:
    decoder = Decoder(Redactor())
    whole = Decoder(Redactor())
    lines = [line for chunk in chunks for line in decoder.feed(chunk)] + decoder.close()
    assert lines == whole.feed(b"".join(chunks)) + whole.close()


class CarefulDecoder(Decoder):
    """Takes no entry the quick way."""

    def _take_plain(self, entry: Entry) -> None:
        del entry


STRANGE = st.dictionaries(
    FIELD_NAMES | st.just("_TRANSPORT"), JSON | st.sampled_from(["1", "kernel", "\ud800"])
)


@BOUNDED
@given(rows=st.lists(st.tuples(ENTRIES, STRANGE), max_size=4), resumed=st.integers(0, 8))
@pytest.mark.usefixtures("limits")
def test_the_quick_way_gives_what_the_careful_one_does(
    rows: list[tuple[list[dict[str, Any]], dict[str, Any]]], resumed: int
) -> None:
    entries = [{**entry, **strange} for some, strange in rows for entry in [*some, make_entry(99, "same")]]
    entries += [make_entry(number, f"line {number}") for number in range(9)]
    seen = tuple(Cursor(make_cursor(number)) for number in range(resumed))
    position = Position(Cursor(make_cursor(0)), seen, seen[:2]) if resumed else None
    quick = Decoder(Redactor([SERVER_ARGS_KEY]), position=position)
    careful = CarefulDecoder(Redactor([SERVER_ARGS_KEY]), position=position)
    for again in (entries, entries[-9:]):
        data = "\n".join(map(json.dumps, again)).encode() + b"\n"
        assert quick.feed(data) == careful.feed(data)
        assert (quick.position, quick.malformed) == (careful.position, careful.malformed)
    assert quick.close() == careful.close()


def test_a_line_taken_the_quick_way_is_as_frozen_as_any() -> None:
    first, second = decode(make_entry(1, "one"), make_entry(2, "two"))
    for line in (first, second):
        assert type(line) is LogLine
        assert replace(line, text="another") == LogLine(
            **{each.name: getattr(line, each.name) for each in fields(line)} | {"text": "another"}
        )
        with pytest.raises(FrozenInstanceError):
            line.text = "another"  # type: ignore[misc]

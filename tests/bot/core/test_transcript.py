"""Saved logs of every shape give the lines the journal would have given."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.events import LogLine, Origin
from bot.core.redact import Redactor
from bot.core.transcript import Format, Transcript
from tests.support.journal_entries import SERVER_ARGS_KEY, make_entry, write_entries

BEGAN = datetime(2026, 5, 29, 23, 49, 47, tzinfo=UTC)
BAR = "\rLoading safetensors checkpoint shards:  19% Completed | 12/64 [00:11<00:14,  2.45it/s]"
TEXTS = [
    f"[2026-05-29 23:49:47] server_args=ServerArgs(model_path='/m', api_key='{SERVER_ARGS_KEY}', tp_size=8)",
    "[2026-05-29 23:49:48 TP0] Load weight begin. avail mem=77.0 GB",
    BAR,
    "Traceback (most recent call last):",
    '  File "/opt/x.py", line 7, in load',
    "\x1b[31mRuntimeError: no\x1b[0m",
    "[2026-05-29 23:49:53 TP0] The end.",
]
READINGS = [
    "[2026-05-29 23:49:47] server_args=ServerArgs(model_path='/m', api_key='[masked]', tp_size=8)",
    TEXTS[1],
    BAR[1:],
    *TEXTS[3:5],
    "RuntimeError: no",
    TEXTS[6],
]


def read(data: bytes, kind: Format | None = None) -> list[LogLine]:
    transcript = Transcript(Redactor(), kind=kind)
    return transcript.feed(data) + transcript.close()


def readings(data: bytes) -> list[str]:
    return [line.reading for line in read(data)]


def _rows(form: str) -> bytes:
    """TEXTS a second apart, each behind the carrier's prefix."""
    stamps = [BEGAN + timedelta(seconds=number) for number in range(len(TEXTS))]
    return "".join(
        form.format(at=at, text=text) + "\n" for at, text in zip(stamps, TEXTS, strict=True)
    ).encode()


def _json() -> bytes:
    return write_entries(
        *(
            make_entry(0, text, __REALTIME_TIMESTAMP=f"{int((BEGAN.timestamp() + number) * 1e6)}")
            for number, text in enumerate(TEXTS)
        )
    )


def _docker_json() -> bytes:
    return b"".join(
        json.dumps(
            {
                "log": text + "\n",
                "stream": "stderr",
                "time": f"{BEGAN + timedelta(seconds=number):%Y-%m-%dT%H:%M:%S}.000000001Z",
            }
        ).encode()
        + b"\n"
        for number, text in enumerate(TEXTS)
    )


def _export() -> bytes:
    entries = []
    for number, text in enumerate(TEXTS):
        stamp = int((BEGAN.timestamp() + number) * 1e6)
        message = text.encode()
        entries.append(
            f"__CURSOR=c{number}\n__REALTIME_TIMESTAMP={stamp}\n_TRANSPORT=stdout\nMESSAGE\n".encode()
            + len(message).to_bytes(8, "little")
            + message
            + b"\n\n"
        )
    return b"".join(entries)


CARRIED = {
    "short": _rows("{at:%b %d %H:%M:%S} llm-two python3[4711]: {text}"),
    "short-iso": _rows("{at:%Y-%m-%dT%H:%M:%S}+0000 llm-two python3[4711]: {text}"),
    "short-precise": _rows("{at:%b %d %H:%M:%S}.000000 llm-two python3[4711]: {text}"),
    "short-full": _rows("{at:%a %Y-%m-%d %H:%M:%S} UTC llm-two python3[4711]: {text}"),
    "with-unit": _rows("{at:%a %Y-%m-%d %H:%M:%S} UTC llm-two sglang-kimi.service[4711]: {text}"),
    "rsyslog": _rows("{at:%b %d %H:%M:%S} llm-two sglang[4711]: {text}")
    .replace(b"\r", b"#015")
    .replace(b"\x1b", b"#033"),
    "rsyslog-iso": _rows("{at:%Y-%m-%dT%H:%M:%S}.000000+00:00 llm-two sglang[4711]: {text}")
    .replace(b"\r", b"#015")
    .replace(b"\x1b", b"#033"),
    "json": _json(),
    "export": _export(),
    "docker-json": _docker_json(),
    "docker": _rows("{at:%Y-%m-%dT%H:%M:%S}.000000001Z {text}"),
    "compose": _rows("sglang-1  | {at:%Y-%m-%dT%H:%M:%S}.000000001Z {text}"),
    "kubernetes": _rows("{at:%Y-%m-%dT%H:%M:%S}.000000001Z stderr F {text}"),
    "tail": b"# kimi-bot log: 7 lines, 0 secrets masked\n"
    + _rows("{at:%Y-%m-%dT%H:%M:%S}.000000+00:00 llm-two python3[4711]: {text}"),
}


@pytest.mark.parametrize("name", CARRIED)
def test_every_carrier_hands_over_the_same_lines(name: str) -> None:
    lines = read(CARRIED[name])
    assert [line.reading for line in lines] == READINGS
    assert [line.at for line in lines] == [BEGAN + timedelta(seconds=number) for number in range(7)]
    assert [line.masked for line in lines] == [1, 0, 0, 0, 0, 0, 0]
    assert {line.origin for line in lines} == {Origin.SERVICE}


def test_a_plain_log_tells_time_by_the_engine() -> None:
    lines = read("\n".join(TEXTS).encode())
    assert [line.reading for line in lines] == READINGS
    seconds = [line.at.second if line.at else None for line in lines]
    assert seconds == [47, 48, None, None, None, None, 53]


def test_a_plain_log_from_the_middle() -> None:
    data = (
        b"\x1b[0m=False, api_key=None)\x1b[32m\r\n\n[2026-05-29 23:49:47 TP0] Load weight begin.\r\nhalf a li"
    )
    assert readings(data) == [
        "=False, api_key=None)",
        "",
        "[2026-05-29 23:49:47 TP0] Load weight begin.",
        "half a li",
    ]


def test_a_bar_and_the_line_behind_it_are_two_lines() -> None:
    empty = "\r  0%|          | 0/23 [00:00<?, ?it/s]"
    data = (empty + "[2026-05-29 23:49:50 TP3] Capture cuda graph begin.\n" + BAR + BAR + "\n").encode()
    lines = read(data)
    assert [(line.reading, line.at is not None) for line in lines] == [
        (empty[1:], False),
        ("[2026-05-29 23:49:50 TP3] Capture cuda graph begin.", True),
        (BAR[1:], False),
    ]


def test_a_bar_that_is_still_being_drawn() -> None:
    assert readings((BAR.replace("12/64", "11/64") + BAR).encode()) == [BAR[1:]]


def test_systemd_in_a_short_log_and_in_a_plain_one() -> None:
    text = "sglang-kimi.service: Main process exited, code=killed, status=9/KILL"
    for data in (f"May 29 23:49:47 h systemd[1]: {text}\n", f"{text}\n"):
        (line,) = read(data.encode())
        assert line.origin is Origin.MANAGER
        assert (line.fields["EXIT_CODE"], line.fields["EXIT_STATUS"]) == ("killed", "9")


def test_a_private_key_over_lines_is_masked_beside_another_writer() -> None:
    data = (
        "a-1  | -----BEGIN PRIVATE KEY-----\nb-1  | AbcdEFGH\na-1  | AbcdEFGH\n"
        "a-1  | -----END PRIVATE KEY-----\na-1  | AbcdEFGH\n"
    )
    assert readings(data.encode()) == [
        "-----BEGIN PRIVATE KEY-----",
        "AbcdEFGH",
        "[masked]",
        "-----END PRIVATE KEY-----",
        "AbcdEFGH",
    ]


def test_years_are_one_throughout() -> None:
    data = b"INFO 12-31 23:59:59 [x.py:1] a\n[2027-01-01 00:00:01] b\nINFO 01-01 00:00:02 [x.py:1] c\n"
    assert [line.at and line.at.year for line in read(data)] == [2026, 2027, 2027]
    assert [line.at and line.at.year for line in Transcript(Redactor(), year=2025).feed(data * 100)][:1] == [
        2026
    ]
    yearless = Transcript(Redactor(), year=2025)
    (line,) = yearless.feed(b"INFO 05-29 23:49:47 [x.py:1] a\n") + yearless.close()
    assert line.at == datetime(2025, 5, 29, 23, 49, 47, tzinfo=UTC)


def test_the_format_can_be_given() -> None:
    (line,) = read(b"May 29 23:49:47 h p[1]: x\n", Format.PLAIN)
    assert line.text == "May 29 23:49:47 h p[1]: x"


def test_a_byte_order_mark_and_nothing_at_all() -> None:
    assert readings(b"\xef\xbb\xbfx\n") == ["x"]
    assert read(b"") == []


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from([*CARRIED, "plain"]),
    repeat=st.sampled_from([1, 40]),
    cuts=st.lists(st.integers(0, 9000)),
)
def test_any_cut_gives_the_same_lines(name: str, repeat: int, cuts: list[int]) -> None:
    data = CARRIED.get(name, "\n".join(TEXTS).encode()) * repeat
    places = [0, *sorted(at for at in cuts if at < len(data)), len(data)]
    transcript = Transcript(Redactor())
    lines = [line for begin, end in pairwise(places) for line in transcript.feed(data[begin:end])]
    assert lines + transcript.close() == read(data)


@settings(max_examples=100, deadline=None)
@given(
    kind=st.none() | st.sampled_from(Format),
    chunks=st.lists(
        st.binary(max_size=40) | st.sampled_from([*CARRIED.values(), b"\n", b"\r", b"{", b'{"log":'])
    ),
)
def test_no_bytes_are_too_strange(kind: Format | None, chunks: list[bytes]) -> None:
    data = b"".join(chunk[: len(chunk) - number] for number, chunk in enumerate(chunks))
    lines = read(data, kind)
    assert not any(SERVER_ARGS_KEY in line.text for line in lines)
    assert all(line.text.encode().decode() == line.text for line in lines)


def test_a_colour_that_lost_its_escape_character_is_none_of_the_text() -> None:
    line = "[1;36m(EngineCore pid=7)[0;0m INFO 05-29 23:49:47 [core.py:1] [0] x"
    assert [each.reading for each in read(line.encode())] == [
        "(EngineCore pid=7) INFO 05-29 23:49:47 [core.py:1] [0] x"
    ]


@pytest.mark.parametrize("escape", ["", "ESC", "^[", "\\x1b", "\\033", "\ufffd", "␛", "←"])
def test_an_escape_character_may_have_been_spelled_out(escape: str) -> None:
    line = f"{escape}[36m(RayWorkerWrapper pid=7){escape}[0m Loading weights took 9 seconds"
    assert [each.reading for each in read(line.encode())] == [
        "(RayWorkerWrapper pid=7) Loading weights took 9 seconds"
    ]


def test_what_cat_shows_of_control_characters_is_taken_off() -> None:
    data = b"^[[1;36m(Worker_TP6 pid=7)^[[0;0m ERROR 05-29 23:49:47 [x.py:1]   File x, line 9, in load^M\n"
    assert readings(data) == ["(Worker_TP6 pid=7) ERROR 05-29 23:49:47 [x.py:1]   File x, line 9, in load"]

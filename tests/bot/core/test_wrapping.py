"""What another program put before every line is taken off, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot.core.events import LogLine
from bot.core.wrapping import find_wrapping
from config.engine_file import load_engine
from tests.support.journals import journal, tp

ENGINE = load_engine("sglang")
TEXTS = [
    *journal("0.5.8", tp(2)).launched().connected().loading().lines,
    "Traceback (most recent call last):",
    '  File "/opt/engine/loader.py", line 7, in load_model',
    "",
    "KeyError: 'layers.1'",
]
PREFIXES = [
    ("> ", "> "),
    ("    ", "    "),
    ("May 29, 2026 @ 23:49:47.892    ", "May 30, 2026 @ 00:01:02.003    "),
    ("2026-05-29 23:49:47,123 - launcher - INFO - ", "2026-05-29 23:50:01,9 - launcher - WARNING - "),
    ("(Engine pid=4242, ip=192.0.2.7) ", "(Engine pid=77, ip=192.0.2.8) "),
    ("kimi-0 sglang ", "kimi-0 sglang "),
    (
        "2026-05-29T23:49:47,1 [INFO ] W-9-m_1.0 MODEL_LOG - ",
        "2026-05-29T23:50:07,2 [WARN ] W-9-m_1.0 MODEL_LOG - ",
    ),
    ("[pod/kimi-0/engine] ", "[pod/kimi-0/engine] "),
]


def unwrapped(texts: list[str]) -> list[str]:
    wrapping = find_wrapping(ENGINE, texts)
    return [wrapping.unwrap(LogLine(text=text, reading=text)).reading for text in texts]


@pytest.mark.parametrize(("first", "later"), PREFIXES)
def test_what_another_program_put_before_every_line_is_taken_off(first: str, later: str) -> None:
    half = len(TEXTS) // 2
    wrapped = [first + text for text in TEXTS[:half]] + [later + text for text in TEXTS[half:]]
    assert unwrapped(wrapped) == TEXTS


def test_an_empty_line_may_have_lost_its_blanks() -> None:
    assert unwrapped([("> " + text).rstrip() for text in TEXTS]) == TEXTS


def test_the_text_stays_whole() -> None:
    wrapped = ["> " + text for text in TEXTS]
    line = find_wrapping(ENGINE, wrapped).unwrap(LogLine(text=wrapped[0], reading=wrapped[0]))
    assert line.text == wrapped[0]


def test_the_time_is_the_engines_own_where_nothing_before_it_could_be_read_as_one() -> None:
    stamped = [f"[2026-05-29 23:49:4{second} TP0] Load weight begin." for second in range(5)]
    wrapped = [
        f"<14>1 2026-05-30T01:49:4{second}.5Z host sglang 9 - - {text}" for second, text in enumerate(stamped)
    ]
    wrapping = find_wrapping(ENGINE, wrapped)
    line = LogLine(text=wrapped[3], reading=wrapped[3])
    assert wrapping.unwrap(line).at == datetime(2026, 5, 29, 23, 49, 43, tzinfo=UTC)
    told = datetime(2026, 5, 30, tzinfo=UTC)
    assert wrapping.unwrap(replace(line, at=told)).at == told


def test_a_bare_log_stays_as_it_is() -> None:
    assert unwrapped(TEXTS) == TEXTS
    assert find_wrapping(ENGINE, TEXTS).pattern is None
    assert find_wrapping(ENGINE, []).pattern is None


def test_a_few_quoted_lines_are_no_wrapping() -> None:
    texts = [*TEXTS, *("> " + text for text in TEXTS[:3])]
    assert unwrapped(texts) == texts


def test_a_bar_before_a_stamp_is_no_wrapping() -> None:
    bar = " 29%|##        | 8/28 [00:14<00:25,  1.30s/it]"
    texts = [bar + text for text in TEXTS[:6]]
    assert unwrapped(texts) == texts


def test_vllms_stamp_is_found_too() -> None:
    texts = [f"INFO 05-29 23:49:0{at} [core.py:1] something" for at in range(5)]
    wrapping = find_wrapping(load_engine("vllm"), [f"kimi-0 | {text}" for text in texts])
    line = LogLine(text="kimi-0 | plain", reading="kimi-0 | plain")
    assert wrapping.unwrap(line).reading == "plain"


def test_a_short_tail_is_unwrapped_where_all_its_lines_look_alike() -> None:
    tail = [*TEXTS[-5:-2], TEXTS[0]]
    assert unwrapped(["kimi-0 sglang " + text for text in tail]) == tail
    assert unwrapped(["kimi-0 sglang " + tail[-1], "other", "more"])[0] == "kimi-0 sglang " + tail[-1]


def test_an_engine_without_stamps_shows_by_the_words_it_begins_with() -> None:
    engine = load_engine("llama-server")
    texts = ["main: loading model", "srv    load_model: loading model '/models/kimi.gguf'", "....", "main: x"]
    wrapping = find_wrapping(engine, ["pod-0 llama " + text for text in texts])
    lines = [LogLine(text="", reading="pod-0 llama " + text) for text in texts]
    assert [wrapping.unwrap(line).reading for line in lines] == texts
    assert find_wrapping(engine, texts).pattern is None

"""What is left on a screen, and where a bar ends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.bars import read_bar, split_bar, split_glued

EMPTY = "  0%|          | 0/23 [00:00<?, ?it/s]"
HALF = "Capturing batches (bs=8 avail_mem=8.01 GB):  50%|#####     | 12/24 [00:05<00:05,  2.30it/s]"
LOADED = "Loading safetensors checkpoint shards: 100% Completed | 64/64 [02:32<00:00,  2.38s/it]"
LINE = "[2026-05-29 23:49:47 TP1] Capture cuda graph begin. avail mem=10.00 GB"


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("plain", "plain"),
        ("", ""),
        ("\r" + LOADED, LOADED),
        ("\r" + EMPTY + "\r" + HALF, HALF),
        ("\r" + HALF + "\r", HALF),
        ("\r" + HALF + "\r   ", HALF),
        ("\r\r", ""),
        ("10%\r20%\r30%", "30%"),
        ("\x1b[32mINFO\x1b[0m ready\x1b[K", "INFO ready"),
        ("\r\x1b[2K" + HALF + "\x1b[A", HALF),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;never ended", "]0;never ended"),
        ("\x9b31mred", "red"),
        ("a\tb\x08\x7f\x00c\x1b", "a\tb c"),
        ("two\nlines", "two lines"),
        ("(Worker_TP0 pid=77) \r" + LOADED, "(Worker_TP0 pid=77) " + LOADED),
        ("not a tag \r" + LOADED, LOADED),
    ],
)
def test_the_last_redraw_is_read(text: str, reading: str) -> None:
    assert read_bar(text) == reading


@pytest.mark.parametrize(
    "parts",
    [
        (LINE,),
        (EMPTY,),
        ("\r" + EMPTY + "\r" + HALF,),
        (EMPTY, LINE),
        ("\r" + EMPTY + "\r" + HALF, LINE),
        (HALF, LINE, "\r" + HALF),
        (LINE, "\r" + HALF),
        (LINE, "\r" + HALF + "\r" + HALF, LINE, "\r" + EMPTY),
        (EMPTY + HALF, LINE),
        ("\r" + LOADED + "  \r",),
        ("\r" + EMPTY, "[host:345  :0:4945] Caught signal 11 (Segmentation fault)"),
        ("(Worker_TP0 pid=77) \r" + LOADED,),
        ("Downloading 10%\rDownloading 20%",),
        ("\x1b[A\r" + HALF + "\x1b[0m\x1b[A",),
        ("Fetching 5 files:  20%|## | 1/5 [00:01<00:04,  1.0s/it, free=3GB]", "done"),
        ("reading a.bin:  45%|####5     | 4.5G/10.0G [1:02:03<00:59, 92.1MB/s]", LINE),
        ("if a<b: [00:11<x",),
    ],
)
def test_a_bar_and_other_text_are_parted(parts: tuple[str, ...]) -> None:
    assert split_bar("".join(parts)) == parts


CORE, WORKER = "(EngineCore_DP0 pid=7) INFO 05-29 23:49:47 [a.py:1] x", "(Worker TP1 pid=9) ERROR 05-29 y"


@pytest.mark.parametrize(
    "parts",
    [
        ("",),
        (CORE,),
        (CORE, WORKER, "(APIServer pid=1)", CORE),
        ("    raise ValueError()", WORKER),
        ("(EngineCore pid=7) (Worker pid=9) nested",),
        ("kimi-1|" + CORE,),
        ("[1,0]<stdout>:" + CORE,),
        ("\x1b[1;36m" + CORE,),
        ("x.execute() (pid=3, ip=10.0.0.2)",),
    ],
)
def test_what_two_processes_wrote_on_one_line_is_parted(parts: tuple[str, ...]) -> None:
    assert split_glued("".join(parts)) == parts


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(["\r", EMPTY, HALF, LOADED, LINE, " ", "\x1b[0m", "it/s"])).map("".join)
    | st.text()
)
def test_parting_loses_nothing_and_reading_shows_no_control_characters(text: str) -> None:
    parts = split_bar(text)
    assert "".join(parts) == text
    assert [split_bar(part) for part in parts] == [(part,) for part in parts]
    assert not any(char < " " and char != "\t" for char in read_bar(text))

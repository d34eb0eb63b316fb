from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter

from bot.core.events import LogLine, Member, Origin
from bot.core.recognition import Recognition, RecognitionState, recognise

HERE = Member("llm-two/kimi.service")
AT = datetime(2026, 5, 29, 23, 49, tzinfo=UTC)
HEADS = {
    "sglang": ["[2026-05-29 23:49:01] server_args=ServerArgs(x)", "[2026-05-29 23:49:09] Load weight begin."],
    "vllm": [
        "(APIServer pid=1) INFO 05-29 23:49:01 [api_server.py:10] vLLM API server version 0.19.1",
        "(EngineCore pid=2) INFO 05-29 23:49:05 [core.py:58] Initializing a V1 LLM engine (v0.19.1) with x",
    ],
    "llama-server": ["llama_model_loader: loaded meta data with 9 pairs", "load_tensors: CPU buffer 9 MiB"],
    "tgi": [
        "2026-05-29T23:49:01.000000Z  INFO text_generation_launcher: Args {",
        "2026-05-29T23:49:02.000000Z  INFO download: text_generation_launcher: Starting download process.",
    ],
    "trtllm": [
        "[05/29/2026-23:49:01] [TRT-LLM] [I] Using LLM with PyTorch backend",
        "[TensorRT-LLM] TensorRT LLM version: 1.0.0",
    ],
}


def line(text: str, **changes: object) -> LogLine:
    return LogLine(text=text, reading=text, **changes)  # type: ignore[arg-type]  # a test's own short form


@pytest.mark.parametrize("name", HEADS)
def test_each_engine_is_known_by_its_first_lines(name: str) -> None:
    recognition = Recognition()
    assert recognition.feed(line("hello")) is None
    first, second = HEADS[name]
    assert recognition.feed(line(first)) is None
    found = recognition.feed(line(second))
    assert found is not None
    assert found.name == name
    assert recognition.engine is found
    assert recognition.feed(line(HEADS["tgi"][0])) is found


def test_one_that_quotes_another_is_not_taken_for_it() -> None:
    recognition = Recognition(lead=3)
    for text in (*HEADS["vllm"], *HEADS["sglang"], HEADS["sglang"][0]):
        assert recognition.feed(line(text)) is None
    assert recognition.best().name == "sglang"


def test_lines_of_an_engine_that_another_is_built_on_count_little() -> None:
    recognition = Recognition(lead=3)
    borrowed = "INFO 05-29 23:49:01 weight_utils.py:252] Using model weights format ['*.safetensors']"
    for text in (HEADS["sglang"][0], *[borrowed] * 8):
        recognition.feed(line(text))
    assert recognition.best().name == "sglang"
    assert recognise([line(borrowed)], lead=3).name == "vllm"


def test_what_systemd_says_tells_no_engine() -> None:
    recognition = Recognition(lead=1)
    told = line("Started Load weight begin.", origin=Origin.MANAGER)
    assert recognition.feed(told) is None
    assert recognition.feed(line(HEADS["sglang"][0], partial=True)) is None
    recognition.keep(told, member=HERE, at=AT)
    assert recognition.release() == ()


def test_lines_are_kept_until_they_are_released_once() -> None:
    recognition = Recognition()
    for number in range(500):
        recognition.keep(line(f"{number} " + "x" * 20_000), member=HERE, at=AT)
    recognition.keep(line("half", partial=True), member=HERE, at=AT)
    kept = recognition.release()
    assert len(kept) == 200
    assert kept[-1].line.reading.startswith("499 ")
    assert all(len(each.line.text) == 16_000 for each in kept)
    assert recognition.release() == ()


def test_saved_and_restored_it_goes_on() -> None:
    adapter = TypeAdapter(RecognitionState)
    recognition = Recognition()
    recognition.keep(line("hello", pid=7, at=AT), member=HERE, at=AT)
    recognition.feed(line(HEADS["vllm"][0]))
    recognition = Recognition(adapter.validate_json(adapter.dump_json(recognition.state)))
    found = recognition.feed(line(HEADS["vllm"][1]))
    assert found is not None
    assert found.name == "vllm"
    (kept,) = recognition.release()
    assert (kept.line.reading, kept.line.pid, kept.member) == ("hello", 7, HERE)


def test_a_saved_log_that_shows_none_is_sglangs() -> None:
    assert recognise([line("hello")], lead=20).name == "sglang"
    assert recognise([line(HEADS["tgi"][0])], lead=20).name == "tgi"
    assert recognise([line(text) for text in HEADS["trtllm"]], lead=2).name == "trtllm"


def test_a_log_of_systemds_lines_alone_is_told_by_the_units_name() -> None:
    told = line("Started kimi-vllm.service - Kimi.", origin=Origin.MANAGER)
    assert recognise([told], lead=20).name == "vllm"

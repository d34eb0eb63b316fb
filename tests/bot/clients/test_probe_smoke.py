"""A completion that is one, and all that is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from bot.clients.probe_smoke import Completion, SmokeTest
from config.services import SmokeSection
from tests.support.http_engine import (
    COMPLETION,
    STREAM_HEAD,
    HttpEngine,
    chunk,
    reply,
    serve_http,
    stream,
)

if TYPE_CHECKING:
    import asyncio

    from bot.core.events import SmokeResult

PATH = "/v1/chat/completions"
CALL = chunk(tool_calls=[{"index": 0, "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}])
END = chunk(finish="stop")


async def run(engine: HttpEngine, **changes: Any) -> SmokeResult:
    section = SmokeSection(prompt="Write quicksort in Python.", max_tokens=40, **changes)
    async with httpx.AsyncClient(base_url=engine.url, trust_env=False, timeout=5) as client:
        return await SmokeTest(client, model="kimi-k2.5", section=section, headers={}).run()


async def test_a_completion() -> None:
    async with serve_http() as engine:
        engine.answers[PATH] = COMPLETION
        result = await run(engine)
        assert (result.passed, result.error, result.answer) == (True, None, "def sort")
        assert (result.tool_call, result.reasoning) == (None, None)
        assert result.first_token is not None
        asked = engine.requests[0].json()
        assert asked["model"] == "kimi-k2.5"
        assert asked["messages"] == [{"role": "user", "content": "Write quicksort in Python."}]
        assert (asked["max_tokens"], asked["temperature"], asked["stream"]) == (40, 0, True)
        assert "tools" not in asked


async def test_pieces_cut_anywhere() -> None:
    async def bytewise(writer: asyncio.StreamWriter) -> None:
        for index in range(len(COMPLETION)):
            writer.write(COMPLETION[index : index + 1])
            await writer.drain()

    async with serve_http() as engine:
        engine.answers[PATH] = bytewise
        assert (await run(engine)).answer == "def sort"


async def test_the_speed_is_that_after_the_first_token() -> None:
    completion = Completion()
    for second, event in enumerate([chunk(role="assistant"), *[chunk(content="x")] * 5, END]):
        completion.take(event, at=float(second))
    assert (completion.first, completion.last, completion.pieces) == (1.0, 5.0, 5)
    assert completion.tokens_per_second == 1.0
    completion.take({"choices": [], "usage": {"completion_tokens": 41}}, at=6.0)
    assert completion.tokens_per_second == 10.0


@pytest.mark.parametrize("at", [[1.0], [1.0, 1.0, 1.0]])
def test_no_speed_of_one_burst(at: list[float]) -> None:
    completion = Completion()
    for second in at:
        completion.take(chunk(content="x"), at=second)
    assert completion.tokens_per_second is None


async def test_a_long_answer_is_kept_in_part() -> None:
    async with serve_http() as engine:
        engine.answers[PATH] = stream(chunk(content="ab" * 500), END)
        assert (await run(engine)).answer == "ab" * 150


async def test_an_end_without_the_last_word_of_the_stream() -> None:
    async with serve_http() as engine:
        engine.answers[PATH] = stream(chunk(content="hi"), END, done=False)
        assert (await run(engine)).passed


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
async def test_reasoning(key: str) -> None:
    async with serve_http() as engine:
        engine.answers[PATH] = stream(chunk(**{key: "Let me think."}), chunk(finish="length"))
        result = await run(engine, reasoning=True)
        assert (result.passed, result.reasoning, result.answer) == (True, True, "Let me think.")


async def test_an_answer_in_one_piece_is_a_completion_whose_speed_nobody_knows() -> None:
    message = {"role": "assistant", "content": "def sort", "reasoning_content": "hm"}
    whole = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"completion_tokens": 12},
    }
    async with serve_http() as engine:
        engine.answers[PATH] = reply(200, whole)
        result = await run(engine, reasoning=True)
    assert (result.passed, result.answer, result.reasoning) == (True, "def sort", True)
    assert (result.first_token, result.tokens_per_second) == (None, None)


async def test_a_tool_call_in_one_piece() -> None:
    called = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "get_weather"}}]}
    async with serve_http() as engine:
        engine.answers[PATH] = reply(200, {"choices": [{"message": called, "finish_reason": "tool_calls"}]})
        assert (await run(engine, tool_call=True)).tool_call


async def test_reasoning_that_is_missing() -> None:
    async with serve_http() as engine:
        engine.answers[PATH] = COMPLETION
        result = await run(engine, reasoning=True)
        assert (result.passed, result.reasoning) == (False, False)
        assert "reasoning_content" in str(result.error)


async def test_a_tool_call_is_a_request_of_its_own() -> None:
    async with serve_http() as engine:
        engine.answers[PATH] = [COMPLETION, stream(CALL, chunk(finish="tool_calls"))]
        result = await run(engine, tool_call=True)
        assert (result.passed, result.tool_call, result.answer) == (True, True, "def sort")
        asked = engine.requests[1].json()
        assert [tool["function"]["name"] for tool in asked["tools"]] == ["get_weather"]
        assert asked["tool_choice"] == "auto"


async def test_a_tool_that_is_not_called() -> None:
    async with serve_http() as engine:
        engine.answers[PATH] = [COMPLETION, stream(chunk(content="<|tool_call|>get_weather"), END)]
        result = await run(engine, tool_call=True)
        assert (result.passed, result.tool_call) == (False, False)
        assert "tool_calls is empty" in str(result.error)


async def test_an_error_once_a_tool_is_offered() -> None:
    async with serve_http() as engine:
        engine.answers[PATH] = [COMPLETION, reply(400, {"error": {"message": "no tool parser"}})]
        result = await run(engine, tool_call=True)
        assert result.error == "with a tool offered, the engine answered HTTP 400: no tool parser"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (reply(500, b""), "the engine answered HTTP 500: an empty body"),
        (reply(404, {"detail": "Not Found"}), "the engine answered HTTP 404: Not Found"),
        (reply(400, {"error": {"message": "too long", "code": 1}}), "the engine answered HTTP 400: too long"),
        (reply(400, {"object": "error", "message": "bad model"}), "the engine answered HTTP 400: bad model"),
        (
            reply(502, b"<html>\n<b>Bad Gateway</b>"),
            "the engine answered HTTP 502: <html> <b>Bad Gateway</b>",
        ),
        (reply(200, {"choices": []}), 'the answer is no stream of events: {"choices": []}'),
        (reply(200, b""), "the answer is no stream of events: an empty body"),
        (
            stream({"error": {"message": "scheduler died"}}),
            "the engine answered with an error: scheduler died",
        ),
        (stream(END), "the completion came back empty"),
        (stream(chunk(content="ha"), done=False), "the completion broke off before its end"),
        (stream(), "the completion broke off before its end"),
        (STREAM_HEAD + b"data: {nonsense\n\n", "the completion's stream holds what is not JSON: {nonsense"),
        (STREAM_HEAD + b"data: 7\n\n", "the completion's stream holds what is no event"),
        (STREAM_HEAD + b"data: " + b"[" * 100_000 + b"\n", "the completion's stream holds what is not JSON"),
        (STREAM_HEAD + b": ping\n" * 800_000, "the answer is longer than 4 MB"),
        (STREAM_HEAD + b"x" * (3 << 20), "the answer is longer than 4 MB"),
    ],
)
async def test_what_is_no_completion(answer: bytes, error: str) -> None:
    async with serve_http() as engine:
        engine.answers[PATH] = answer
        result = await run(engine)
        assert not result.passed
        assert str(result.error).startswith(error)
        assert len(str(result.error)) < 500


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"choices": None},
        {"choices": [7, None]},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"content": None, "tool_calls": None}}]},
        {"choices": [{"delta": {"content": 7}}], "usage": {"completion_tokens": "many"}},
        {"usage": None},
    ],
)
def test_events_that_hold_nothing(event: dict[str, Any]) -> None:
    completion = Completion()
    completion.take(event, at=1.0)
    assert (completion.answer, completion.pieces, completion.tokens, completion.first) == ("", 0, None, None)


async def test_a_server_that_hangs_up_midway_is_the_callers_matter() -> None:
    async with serve_http() as engine:
        engine.answers[PATH] = b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\ndata: {}\n\n"
        with pytest.raises(httpx.RemoteProtocolError):
            await run(engine)


@pytest.mark.parametrize(
    ("status", "body", "busy"),
    [
        (429, b'{"error": {"message": "Rate limit reached"}}', True),
        (503, b'{"error": {"message": "The request queue is full."}}', True),
        (503, b'{"detail": "no healthy upstream"}', False),
        (500, b"queue", False),
    ],
)
async def test_one_that_is_turned_away_as_there_are_too_many(status: int, body: bytes, busy: bool) -> None:
    async with serve_http() as engine:
        engine.answers[PATH] = reply(status, body)
        result = await run(engine)
        assert (result.passed, result.busy) == (False, busy)

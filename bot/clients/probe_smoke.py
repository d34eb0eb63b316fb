"""The smoke test: one streamed completion, read as a client reads it, and a tool call where asked for."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bot.core.events import SmokeResult

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from config.services import SmokeSection

_PATH = "/v1/chat/completions"
_STREAM_LIMIT = 4 << 20  # bytes read of one answer
_LINE_LIMIT = 1 << 20
_BODY_LIMIT = 64 << 10  # bytes kept of a body that is no stream
_KEPT = 300  # characters of the answer, and of an error's text
_TOOL_TOKENS = 512  # a model that thinks first needs room before it calls
_SHORTEST_SPAN = 0.01  # seconds; tokens that came in one burst tell no speed
_OK, _TOO_MANY, _UNAVAILABLE = 200, 429, 503
_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The current weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
_TOOL_PROMPT = "What is the weather in Paris now? Use the tool get_weather to find out."


class _Failed(Exception):
    """The completion is not what it should be; the text is a plain sentence."""

    def __init__(self, told: str, *, busy: bool = False) -> None:
        super().__init__(told)
        self.busy = busy


@dataclass(slots=True)
class Completion:
    """What has come of a streamed answer so far."""

    answer: str = ""
    reasoning: str = ""
    called: bool = False
    finished: bool = False
    pieces: int = 0
    tokens: int | None = None  # as the server counts them
    first: float | None = None  # seconds after the request
    last: float | None = None

    def take(self, event: Any, *, at: float) -> None:
        """Read one event of the stream; raises when it is an error or no event of a completion."""
        if not isinstance(event, dict):
            raise _Failed("the completion's stream holds what is no event")
        if error := event.get("error"):
            raise _Failed(f"the engine answered with an error: {_error_text(error)}")
        self._count(event.get("usage"))
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                self._read(choice, at=at)
                self._read_whole(choice)

    def _count(self, usage: Any) -> None:
        tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
        if isinstance(tokens, int):
            self.tokens = tokens

    def _read(self, choice: dict[str, Any], *, at: float) -> None:
        delta = choice.get("delta")
        self.finished = self.finished or bool(choice.get("finish_reason"))
        if not isinstance(delta, dict):
            return
        answer = _text(delta, "content")
        reasoning = _text(delta, "reasoning_content") or _text(delta, "reasoning")
        called = bool(delta.get("tool_calls"))
        self.answer += answer
        self.reasoning += reasoning
        self.called = self.called or called
        if answer or reasoning or called:
            self.pieces += 1
            self.last = at
            self.first = at if self.first is None else self.first

    def _read_whole(self, choice: dict[str, Any]) -> None:
        """An answer in one piece, from what does not stream: a completion, of which no speed is known."""
        message = choice.get("message")
        if isinstance(message, dict):
            self._read({"delta": message, "finish_reason": choice.get("finish_reason")}, at=0.0)
            self.first = self.last = None

    @property
    def tokens_per_second(self) -> float | None:
        """After the first; None for an answer too short to tell."""
        count = (self.tokens if self.tokens is not None else self.pieces) - 1
        if self.first is None or self.last is None or count < 1:
            return None
        span = self.last - self.first
        return count / span if span >= _SHORTEST_SPAN else None


class SmokeTest:
    def __init__(
        self, client: httpx.AsyncClient, *, model: str, section: SmokeSection, headers: dict[str, str]
    ) -> None:
        self._client = client
        self._model = model
        self._section = section
        self._headers = headers

    async def run(self) -> SmokeResult:
        """Raises httpx errors for a connection that fails; anything a server answers is a result."""
        try:
            completion = await self._complete(self._section.prompt, self._section.max_tokens)
        except _Failed as failed:
            return SmokeResult(passed=False, error=str(failed), busy=failed.busy)
        result = self._judge(completion)
        if not result.passed or not self._section.tool_call:
            return result
        return await self._test_tool(result)

    def _judge(self, completion: Completion) -> SmokeResult:
        error = None
        if not (completion.answer or completion.reasoning or completion.called):
            error = "the completion came back empty"
        elif self._section.reasoning and not completion.reasoning:
            error = "the completion has no reasoning_content; is the engine's reasoning parser on?"
        return SmokeResult(
            passed=error is None,
            error=error,
            first_token=completion.first,
            tokens_per_second=completion.tokens_per_second,
            answer=(completion.answer or completion.reasoning)[:_KEPT],
            reasoning=bool(completion.reasoning) if self._section.reasoning else None,
        )

    async def _test_tool(self, result: SmokeResult) -> SmokeResult:
        """A request of its own: a prompt that asks for words rightly gets no call."""
        tokens = max(self._section.max_tokens, _TOOL_TOKENS)
        try:
            completion = await self._complete(_TOOL_PROMPT, tokens, tools=[_TOOL], tool_choice="auto")
        except _Failed as failed:
            return replace(
                result,
                passed=False,
                error=f"with a tool offered, {failed}",
                busy=failed.busy,
                tool_call=False,
            )
        if completion.called:
            return replace(result, tool_call=True)
        error = "the model was offered a tool and tool_calls is empty; is the engine's tool call parser on?"
        return replace(result, passed=False, error=error, tool_call=False)

    async def _complete(self, prompt: str, max_tokens: int, **more: Any) -> Completion:
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **more,
        }
        sent = time.monotonic()
        completion = Completion()
        async with self._client.stream("POST", _PATH, json=body, headers=self._headers) as response:
            if response.status_code != _OK:
                raise _refusal(response.status_code, await _quote(response))
            async for event in read_events(response):
                completion.take(event, at=time.monotonic() - sent)
        if not completion.finished:
            raise _Failed("the completion broke off before its end")
        return completion


def _refusal(status: int, text: str) -> _Failed:
    """SGLang says 503 where its queue is full; what stands before an engine says it where there is none."""
    full = status == _UNAVAILABLE and "queue" in text.lower()
    return _Failed(f"the engine answered HTTP {status}: {text}", busy=status == _TOO_MANY or full)


async def read_events(response: httpx.Response) -> AsyncIterator[Any]:
    """The JSON of each `data:` line until `[DONE]`, or of a completion in one piece; all else is an error."""
    seen = False
    beginning = bytearray()
    async for line in _lines(response):
        if not line.startswith(b"data:"):
            beginning += line[: _BODY_LIMIT - len(beginning)]
            continue
        seen = True
        data = line[len(b"data:") :].strip()
        if data == b"[DONE]":
            return
        yield _load(data)
    if seen:
        return
    whole = _load_whole(bytes(beginning))
    if whole is None:
        raise _Failed(f"the answer is no stream of events: {_body_text(bytes(beginning))}")
    yield whole


async def _lines(response: httpx.Response) -> AsyncIterator[bytes]:
    total, rest = 0, b""
    async for piece in response.aiter_raw():
        total += len(piece)
        *lines, rest = (rest + piece).split(b"\n")
        if total > _STREAM_LIMIT or len(rest) > _LINE_LIMIT:
            raise _Failed(f"the answer is longer than {_STREAM_LIMIT >> 20} MB")
        for line in lines:
            yield line.rstrip(b"\r")
    if rest:
        yield rest


def _load(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise _Failed(f"the completion's stream holds what is not JSON: {_short(data)}") from None


def _load_whole(body: bytes) -> dict[str, Any] | None:
    """A completion that came in one piece, as of a proxy that does not stream."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return None
    choices = parsed.get("choices") if isinstance(parsed, dict) else None
    whole = isinstance(choices, list) and any(
        isinstance(each, dict) and "message" in each for each in choices
    )
    return parsed if whole else None


async def _quote(response: httpx.Response) -> str:
    body = b""
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > _BODY_LIMIT:
            break
    return _body_text(body)


def _body_text(body: bytes) -> str:
    """An error body in short: its message where it has one."""
    try:
        return _error_text(json.loads(body))
    except (ValueError, RecursionError):
        return _short(body) or "an empty body"


def _error_text(error: Any) -> str:
    """The sentence in the shapes that engines use: `{"error": {"message": …}}`, `{"detail": …}`, a string."""
    for key in ("error", "message", "detail"):
        if isinstance(error, dict) and error.get(key):
            error = error[key]
    return (error if isinstance(error, str) else json.dumps(error, ensure_ascii=False))[:_KEPT]


def _short(body: bytes) -> str:
    return " ".join(body[:_KEPT].decode(errors="replace").split())


def _text(delta: dict[str, Any], key: str) -> str:
    value = delta.get(key)
    return value if isinstance(value, str) else ""

"""An HTTP server on loopback that answers with exactly the bytes a test gives it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Answer: TypeAlias = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class HttpEngine:
    """`answers` maps a path to one answer for all requests, or to a list of which each is used once."""

    port: int = 0
    answers: dict[str, Answer | list[Answer]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    serving: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def healthy(self, model: str = "kimi-k2.5") -> None:
        self.answers["/health"] = reply(200, b"")
        self.answers["/v1/models"] = reply(200, {"object": "list", "data": [{"id": model}]})

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self.serve(reader, writer))
        self.serving.add(task)
        task.add_done_callback(self.serving.discard)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            request = await _read_request(reader)
            self.requests.append(request)
            answer = self.answers.get(request.path, reply(404, b'{"detail":"Not Found"}'))
            answer = answer.pop(0) if isinstance(answer, list) else answer
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(writer)


async def _read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body)


def reply(status: int, body: bytes | dict[str, Any], *, kind: str = "application/json") -> bytes:
    """A whole HTTP answer."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} Word\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def stream(*events: dict[str, Any], done: bool = True) -> bytes:
    """A streamed answer, sent at once."""
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    return STREAM_HEAD + body + (b"data: [DONE]\n\n" if done else b"")


def chunk(*, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """One event of a streamed completion."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


COMPLETION = stream(
    chunk(role="assistant"), chunk(content="def "), chunk(content="sort"), chunk(finish="stop")
)


@asynccontextmanager
async def serve_http() -> AsyncIterator[HttpEngine]:
    engine = HttpEngine()
    server = await asyncio.start_server(engine.accept, "127.0.0.1", 0)
    engine.port = server.sockets[0].getsockname()[1]
    try:
        yield engine
    finally:
        server.close()
        for task in tuple(engine.serving):
            task.cancel()
        await asyncio.gather(*engine.serving, return_exceptions=True)

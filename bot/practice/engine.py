"""An engine's HTTP side with SGLang's semantics: a closed port until loaded, 503 while it warms up."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from aiohttp import web

from bot.clock import Clock
from bot.practice import completion

_HEALTH_SECONDS = 1.0  # told: a health check runs one token and looks once a second
_UNHEALTHY_SECONDS = 20.0  # told: so long a check waits for a scheduler that hangs
_FIRST_TOKEN_SECONDS = 0.31
_TOKENS_PER_SECOND = 84.0
_TRUE_PACE_UP_TO = 20.0
_ACCEPTING = 4  # turns of the loop until a connection that is just being accepted is known to the server


class ServerStatus(Enum):
    STARTING = "Starting"
    UP = "Up"
    UNHEALTHY = "UnHealthy"
    STOPPING = "Stopping"


@dataclass(slots=True)
class Manners:
    """How this engine behaves; change it to be unkind."""

    tool_calls: bool = True  # False: the call is left as plain text in `content`
    reasoning: bool = True  # False: the thought stays in `content`
    models: tuple[str, ...] | None = None  # another list than the one model it was built with
    rubbish: bool = False  # answers what is no HTTP
    silent: bool = False  # accepts and never answers
    empty: bool = False  # completions come back with nothing in them


@dataclass(slots=True)
class Engine:
    """Its port is bound by `reserve` and kept for good, but nothing listens before `open`."""

    clock: Clock
    model: str
    api_key: str | None = None
    manners: Manners = field(default_factory=Manners)
    cgroup: str = "/"
    pid: int = 0
    status: ServerStatus = ServerStatus.STARTING
    port: int = 0
    on_access: Callable[[str], None] | None = None
    requested: asyncio.Event = field(default_factory=asyncio.Event)  # a completion was asked for
    dying: bool = False  # the next completion is what kills it: it gets no answer
    _reserved: socket.socket | None = None
    _server: asyncio.Server | None = None
    _web: web.Server | None = None

    def reserve(self) -> None:
        """Choose the port. A bound socket that does not listen refuses connections, as a closed port does."""
        self._reserved = _bound_socket(0)
        self.port = self._reserved.getsockname()[1]

    def release(self) -> None:
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None

    @property
    def listening(self) -> bool:
        return self._server is not None

    @property
    def connected(self) -> bool:
        """Somebody has a connection open."""
        return self._web is not None and bool(self._web.connections)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def open(self, *, pid: int, cgroup: str) -> None:
        """Listen. OSError EADDRINUSE when someone else does already."""
        listener = _bound_socket(self.port)
        try:
            listener.listen(2048)
        except OSError:
            listener.close()
            raise
        self.pid, self.cgroup, self.status, self.dying = pid, cgroup, ServerStatus.STARTING, False
        self.requested = asyncio.Event()
        self._web = web.Server(self._handle, handler_cancellation=True)
        loop = asyncio.get_running_loop()
        factory = _Rubbish if self.manners.rubbish else self._web
        self._server = await loop.create_server(factory, sock=listener)

    async def close(self) -> None:
        """The process is gone: the port refuses, open connections break off. May be called twice."""
        server, self._server = self._server, None
        web_server, self._web = self._web, None
        if server is not None:
            await _stop_accepting(server)
            server.close()
        if web_server is not None:
            _break_off(web_server)
            await web_server.shutdown(0.0)
            for _ in range(_ACCEPTING):
                await asyncio.sleep(0)
                _break_off(web_server)

    # -- answers -------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if self.manners.silent:
            await asyncio.Event().wait()
        if not self._allowed(request):
            return self._told(request, web.json_response({"error": "Unauthorized"}, status=401))
        match request.method, request.path:
            case "GET", "/health" | "/health_generate":
                answer: web.StreamResponse = web.Response(status=await self._health())
            case "GET", "/v1/models":
                answer = web.json_response(self._models())
            case "GET", "/model_info" | "/get_model_info":
                answer = web.json_response({"model_path": f"/models/{self.model}", "is_generation": True})
            case "GET", "/ping":
                answer = web.Response()
            case "GET", "/":
                answer = web.Response(text="SGLang is running")
            case "POST", "/v1/chat/completions":
                answer = await self._complete(request)
            case _:
                answer = web.json_response({"detail": "Not Found"}, status=404)
        return self._told(request, answer)

    def _allowed(self, request: web.BaseRequest) -> bool:
        exempt = request.path.startswith(("/health", "/metrics"))
        return (
            exempt or self.api_key is None or request.headers.get("Authorization") == f"Bearer {self.api_key}"
        )

    def _told(self, request: web.BaseRequest, answer: web.StreamResponse) -> web.StreamResponse:
        if self.on_access is not None:
            peer = request.transport.get_extra_info("peername") if request.transport else None
            host, port = peer[:2] if peer else ("127.0.0.1", 0)
            reason = web.Response(status=answer.status).reason
            request_line = f'"{request.method} {request.path_qs} HTTP/1.1"'
            self.on_access(f"INFO:     {host}:{port} - {request_line} {answer.status} {reason}")
        return answer

    async def _health(self) -> int:
        match self.status:
            case ServerStatus.UP:
                await self._pause(_HEALTH_SECONDS)
            case ServerStatus.UNHEALTHY:
                await self._pause(_UNHEALTHY_SECONDS)
            case ServerStatus.STARTING | ServerStatus.STOPPING:
                pass
        return 200 if self.status is ServerStatus.UP else 503

    async def _pause(self, told_seconds: float) -> None:
        await asyncio.sleep(told_seconds / self.clock.speed)

    def _models(self) -> dict[str, Any]:
        listed = self.manners.models or (self.model,)
        cards = [
            {"id": name, "object": "model", "owned_by": "sglang", "max_model_len": 262144} for name in listed
        ]
        return {"object": "list", "data": cards}

    async def _complete(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            asked = await request.json()
            pieces = self._generate(asked)
        except (ValueError, AttributeError, TypeError):
            return web.json_response({"object": "error", "message": "Invalid request body"}, status=400)
        self.requested.set()
        if self.dying or self.status is ServerStatus.UNHEALTHY:
            await asyncio.Event().wait()  # until the connection breaks off
        if asked.get("stream"):
            return await self._stream(request, pieces)
        await asyncio.sleep((_FIRST_TOKEN_SECONDS + len(pieces) / _TOKENS_PER_SECOND) / self.haste)
        return web.json_response(completion.whole(self.model, pieces))

    def _generate(self, asked: dict[str, Any]) -> list[completion.Piece]:
        if self.manners.empty:
            return []
        manners = self.manners
        return completion.generate(asked, reasoning=manners.reasoning, tool_calls=manners.tool_calls)

    @property
    def haste(self) -> float:
        """A smoke test is measured in real seconds, so a demo's numbers stay those of a real engine."""
        return max(1.0, self.clock.speed / _TRUE_PACE_UP_TO)

    async def _stream(self, request: web.BaseRequest, pieces: list[completion.Piece]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await asyncio.sleep(_FIRST_TOKEN_SECONDS / self.haste)
        for delta in [{"role": "assistant", "content": ""}, *pieces]:
            await _send_event(response, completion.chunk(self.model, delta))
            await asyncio.sleep(1 / _TOKENS_PER_SECOND / self.haste)
        await _send_event(response, completion.chunk(self.model, {}, finish=completion.finish_reason(pieces)))
        await _send_event(response, {**completion.chunk(self.model, None), "usage": completion.usage(pieces)})
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response


async def _stop_accepting(server: asyncio.Server) -> None:
    """What was just accepted becomes a connection first: asyncio 3.11 leaks it if the server closes then."""
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(_ACCEPTING):
        await asyncio.sleep(0)


def _break_off(server: web.Server) -> None:
    for connection in server.connections:
        if connection.transport is not None:
            connection.transport.abort()


class _Rubbish(asyncio.Protocol):
    """Something listens, and it is no HTTP server."""

    _transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        del data
        self._transport.write(b"\x00\xff220 not what you hoped for\r\n\r\n")
        self._transport.close()


def _bound_socket(port: int) -> socket.socket:
    """With SO_REUSEADDR several sockets may be bound to a port as long as none listens."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(("127.0.0.1", port))
    except OSError:
        bound.close()
        raise
    bound.setblocking(False)
    return bound


async def _send_event(response: web.StreamResponse, event: dict[str, Any]) -> None:
    await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")

"""Socket Mode: several connections, envelopes to any one of them, acknowledged within three seconds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
import uuid
from dataclasses import dataclass
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

from bot.practice.slack_arguments import Arguments, Method, Methods
from bot.practice.slack_faults import SOCKET, DropSocket, FaultPlan
from bot.practice.slack_state import Refusal, Refused, Workspace

MOST_CONNECTIONS = 10


@dataclass(frozen=True, slots=True)
class Envelope:
    """What goes to the app; `kind` is slash_commands, interactive or events_api."""

    kind: str
    payload: dict[str, Any]
    retry: int = 0
    retry_reason: str = ""

    @property
    def takes_answer(self) -> bool:
        return self.kind != "events_api"


@dataclass(frozen=True, slots=True)
class Answer:
    """How the app took an envelope; `error` as Slack shows it: operation_timeout or dispatch_failed."""

    acknowledged: bool
    seconds: float
    payload: dict[str, Any] | None = None
    error: str | None = None


class SocketMode:
    """The app's connections; an envelope goes to one of them, in turn."""

    def __init__(self, workspace: Workspace, faults: FaultPlan, *, ack_timeout: float = 3.0) -> None:
        self._workspace = workspace
        self._faults = faults
        self.ack_timeout = ack_timeout
        self.connections: list[web.WebSocketResponse] = []
        self.opened = 0  # connections ever
        self._tickets: set[str] = set()
        self._waiting: dict[str, asyncio.Future[dict[str, Any] | None]] = {}
        self._envelopes: dict[str, Envelope] = {}
        self._turn = 0

    def methods(self) -> Methods:
        return {"apps.connections.open": Method(self.open, app_level=True)}

    def open(self, _call: Arguments) -> dict[str, Any]:
        """A ticket address, good for one connection."""
        ticket = secrets.token_hex(8)
        self._tickets.add(ticket)
        address = self._workspace.base_url.replace("http://", "ws://", 1)
        return {"url": f"{address}/link?ticket={ticket}&app_id={self._workspace.app}"}

    async def serve(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            return web.Response(status=403, text="bad ticket")
        self._tickets.discard(ticket)
        connection = web.WebSocketResponse()
        await connection.prepare(request)
        if len(self.connections) >= MOST_CONNECTIONS:
            await connection.send_json({"type": "disconnect", "reason": "too_many_websockets"})
            await connection.close()
            return connection
        self.connections.append(connection)
        self.opened += 1
        try:
            await connection.send_json(self._hello())
            await self._listen(connection)
        finally:
            if connection in self.connections:
                self.connections.remove(connection)
        return connection

    async def deliver(self, envelope: Envelope) -> Answer:
        """Send to one connection and wait for its acknowledgement."""
        began = time.monotonic()
        envelope_id = str(uuid.uuid4())
        waiting: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        self._waiting[envelope_id], self._envelopes[envelope_id] = waiting, envelope
        try:
            if not await self._send(envelope_id, envelope):
                return Answer(acknowledged=False, seconds=0, error="dispatch_failed")
            payload = await asyncio.wait_for(waiting, self.ack_timeout)
        except TimeoutError:
            return Answer(acknowledged=False, seconds=time.monotonic() - began, error="operation_timeout")
        finally:
            del self._waiting[envelope_id], self._envelopes[envelope_id]
        return Answer(acknowledged=True, seconds=time.monotonic() - began, payload=payload)

    async def disconnect(self, reason: str = "refresh_requested") -> None:
        """Tell every connection to go: `warning` says it ahead, the other reasons close at once."""
        for connection in tuple(self.connections):
            note = {"type": "disconnect", "reason": reason, "debug_info": {"host": "practice"}}
            with contextlib.suppress(ConnectionError):
                await connection.send_json(note)
                if reason != "warning":
                    self.connections.remove(connection)
                    # Not awaited: the client answers the close only when it has opened its next connection.
                    asyncio.get_running_loop().call_later(1, _close_later, connection)

    def drop(self, connection: web.WebSocketResponse | None = None, *, delivered: bool = False) -> None:
        """Cut one connection, or all, without a closing frame: a lost network.

        `delivered`: what was sent before arrives; a reset would let the other side's kernel forget it.
        """
        for lost in [connection] if connection is not None else list(self.connections):
            if lost in self.connections:
                self.connections.remove(lost)
            transport = lost._req.transport if lost._req is not None else None  # noqa: SLF001 - aiohttp has no public way to cut
            if transport is not None:
                transport.close() if delivered else transport.abort()

    async def stop(self) -> None:
        for connection in tuple(self.connections):
            with contextlib.suppress(ConnectionError, TimeoutError):
                await asyncio.wait_for(connection.close(code=WSCloseCode.GOING_AWAY), 1)

    def _hello(self) -> dict[str, Any]:
        return {
            "type": "hello",
            "num_connections": len(self.connections),
            "debug_info": {
                "host": "practice",
                "started": "",
                "build_number": 1,
                "approximate_connection_time": 3600,
            },
            "connection_info": {"app_id": self._workspace.app},
        }

    async def _send(self, envelope_id: str, envelope: Envelope) -> bool:
        """False where nobody is connected, or the wire broke under it."""
        fault = self._faults.take(SOCKET)
        if not self.connections:
            return False
        self._turn += 1
        connection = self.connections[self._turn % len(self.connections)]
        if isinstance(fault, DropSocket) and not fault.delivered:
            self.drop(connection)
            return True
        with contextlib.suppress(ConnectionError):
            await connection.send_json(_wrap(envelope_id, envelope))
            if isinstance(fault, DropSocket):
                self.drop(connection, delivered=True)
            return True
        return False

    async def _listen(self, connection: web.WebSocketResponse) -> None:
        async for frame in connection:
            if frame.type != WSMsgType.TEXT:
                continue
            try:
                answer = json.loads(frame.data)
            except ValueError:
                answer = None
            if not isinstance(answer, dict) or "envelope_id" not in answer:
                self._workspace.refuse(SOCKET, Refused("invalid_envelope", str(frame.data)[:200]))
                continue
            self._acknowledge(str(answer["envelope_id"]), answer.get("payload"))

    def _acknowledge(self, envelope_id: str, payload: Any) -> None:
        waiting, envelope = self._waiting.get(envelope_id), self._envelopes.get(envelope_id)
        if waiting is None or envelope is None or waiting.done():
            return  # too late: Slack has told the person already
        if payload and not envelope.takes_answer:
            self._workspace.warnings.append(Refusal(SOCKET, "payload_ignored", envelope.kind))
            payload = None
        waiting.set_result(payload if isinstance(payload, dict) and payload else None)


def _wrap(envelope_id: str, envelope: Envelope) -> dict[str, Any]:
    wrapped: dict[str, Any] = {
        "envelope_id": envelope_id,
        "type": envelope.kind,
        "payload": envelope.payload,
        "accepts_response_payload": envelope.takes_answer,
    }
    if envelope.kind == "events_api":
        wrapped |= {"retry_attempt": envelope.retry, "retry_reason": envelope.retry_reason}
    return wrapped


_closing: set[asyncio.Task[Any]] = set()


def _close_later(connection: web.WebSocketResponse) -> None:
    task = asyncio.ensure_future(connection.close())
    _closing.add(task)
    task.add_done_callback(_closing.discard)

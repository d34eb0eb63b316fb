"""Tells other tools of incidents: JSON over HTTP, signed, tried again within reason."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import httpx
import structlog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

log = structlog.get_logger()

TIMESTAMP, SIGNATURE, EVENT = "X-Kimi-Timestamp", "X-Kimi-Signature", "X-Kimi-Event"
_WITHIN = 10.0  # seconds for one attempt
_PAUSES = (1.0, 5.0, 20.0)  # seconds before each further attempt
_BUSY = frozenset({408, 425, 429})


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """`sha256=` and the HMAC-SHA256 of timestamp, a dot and the raw body, in hex."""
    told = timestamp.encode() + b"." + body
    return "sha256=" + hmac.new(secret.encode(), told, hashlib.sha256).hexdigest()


class Webhook:
    """One address; neither it nor the secret stands in any log."""

    def __init__(self, url: str, secret: str | None, *, pauses: Sequence[float] = _PAUSES) -> None:
        self._url, self._secret, self._pauses = url, secret, tuple(pauses)
        self._client: httpx.AsyncClient | None = None
        self.counts: Counter[str] = Counter()  # "delivered" and "failed"

    async def send(self, payload: Mapping[str, Any]) -> bool:
        """Whether it was taken (any 2xx). Raises nothing; the last failure is logged."""
        body = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
        problem = ""
        for pause in (0.0, *self._pauses):
            await asyncio.sleep(pause)
            problem, again = await self._try(body, str(payload.get("event", "")))
            if not problem:
                self.counts["delivered"] += 1
                return True
            if not again:
                break
        self.counts["failed"] += 1
        log.warning("webhook_not_delivered", id=payload.get("id"), problem=problem)
        return False

    async def _try(self, body: bytes, event: str) -> tuple[str, bool]:
        """What was wrong, empty for nothing; and whether it may come right."""
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=_WITHIN)
        timestamp = str(int(time.time()))
        headers = {"Content-Type": "application/json", TIMESTAMP: timestamp, EVENT: event}
        if self._secret:
            headers[SIGNATURE] = sign(self._secret, timestamp, body)
        try:
            answer = await self._client.post(self._url, content=body, headers=headers)
        except httpx.HTTPError as error:
            return type(error).__name__, True  # its words may hold the address
        if answer.is_success:
            return "", False
        return f"HTTP {answer.status_code}", answer.is_server_error or answer.status_code in _BUSY

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

"""Tells other tools of incidents: JSON over HTTP, signed; whether to try again is for others to say."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import httpx

if TYPE_CHECKING:
    from bot.clients.store_incidents import Delivery

TIMESTAMP, SIGNATURE = "X-Kimi-Timestamp", "X-Kimi-Signature"
EVENT, DELIVERY = "X-Kimi-Event", "X-Kimi-Delivery"
_WITHIN = 10.0  # seconds for one attempt
_AT_ONCE = 50  # incidents that tell at the same time
# What the listener says of this very message: a second time it would say the same.
_REFUSALS = frozenset({400, 410, 413, 415, 422})


@dataclass(frozen=True, slots=True)
class Answered:
    """`failed`: it may come right; `refused`: never. `problem`: what was wrong, without the address."""

    outcome: Literal["delivered", "failed", "refused"]
    problem: str = ""


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """`sha256=` and the HMAC-SHA256 of timestamp, a dot and the raw body, in hex."""
    told = timestamp.encode() + b"." + body
    return "sha256=" + hmac.new(secret.encode(), told, hashlib.sha256).hexdigest()


class Webhook:
    """One address; neither it nor the secret stands in any log."""

    def __init__(self, url: str, secret: str | None, *, within: float = _WITHIN) -> None:
        """`within`: seconds for one attempt, from the connection to the answer."""
        self._url, self._secret, self._within = url, secret, within
        self._client: httpx.AsyncClient | None = None
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def send(self, delivery: Delivery) -> Answered:
        """One attempt; any 2xx takes it. Raises nothing."""
        try:
            async with self._room, asyncio.timeout(self._within):
                status = await self._post(delivery)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, TimeoutError) as error:
            return Answered("failed", type(error).__name__)  # its words may hold the address
        if httpx.codes.is_success(status):
            return Answered("delivered")
        return Answered("refused" if status in _REFUSALS else "failed", f"HTTP {status}")

    async def _post(self, delivery: Delivery) -> int:
        """The status alone: whatever a listener sends after it, without an end perhaps, is not read."""
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=self._within)
        body, timestamp = delivery.body.encode("utf-8", "backslashreplace"), str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            TIMESTAMP: timestamp,
            EVENT: delivery.event,
            DELIVERY: delivery.id,
        }
        if self._secret:
            headers[SIGNATURE] = sign(self._secret, timestamp, body)
        async with self._client.stream("POST", self._url, content=body, headers=headers) as answer:
            return answer.status_code

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
